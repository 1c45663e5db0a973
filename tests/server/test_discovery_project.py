"""The project around a file: import roots and pyproject.toml."""

from pathlib import Path

import pytest

from fxls.discovery import discover
from fxls.discovery.configuration import parse_configuration, read_configuration
from fxls.discovery.roots import (
    configuration_file,
    package_root,
    project_root,
    roots_of,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src/package/models/net.py", "tools/train.py", "engine/deep/loose.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    for package in ("src/package", "src/package/models"):
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'package'\n")
    return tmp_path


def test_the_root_of_a_package_comes_first(project):
    assert roots_of(str(project / "src/package/models/net.py")) == (
        str(project / "src"),
        str(project),
    )


def test_a_folder_between_two_packages_belongs_to_the_outer_one(project):
    path = project / "src/package/loose/inner/net.py"
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").write_text("")
    assert package_root(str(path)) == str(project / "src")
    assert package_root(str(project / "src/package/loose/tool.py")) == str(project / "src/package/loose")


def test_a_script_imports_from_its_own_folder_and_from_src(project):
    expected = (str(project / "tools"), str(project / "src"), str(project))
    assert roots_of(str(project / "tools/train.py")) == expected


def test_no_folder_inside_a_package_is_a_root(project):
    workspace = [str(project / "src/package/models"), str(project)]
    assert str(project / "src/package/models") not in roots_of(str(project / "src/package/models/net.py"), workspace)


def test_a_file_without_a_project_has_its_own_folder(tmp_path):
    path = str(tmp_path / "alone" / "net.py")
    assert package_root(path) == str(tmp_path / "alone")
    assert roots_of(path, [str(tmp_path)])[0] == str(tmp_path / "alone")


def test_the_workspace_bounds_the_search(project):
    path = str(project / "engine/deep/loose.py")
    assert project_root(path, [str(project / "engine")]) == str(project / "engine")
    assert project_root(path) == str(project)
    assert configuration_file(path) == str(project / "pyproject.toml")
    assert configuration_file(path, [str(project / "engine")]) is None


def test_targets_are_read(tmp_path):
    text = """
[[tool.fxls.target]]
path = "models/net.py"
name = "Net"
construct = "Net(3)"
inputs = "torch.ones(3)"

[[tool.fxls.target]]
path = "*.py"
inputs = "torch.ones(1)"
"""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "pyproject.toml").write_text(text)
    configuration = read_configuration(str(tmp_path / "pyproject.toml"))
    assert configuration.problems == ()
    first, *others = configuration.targets
    assert (first.path, first.qualname, first.construct, first.inputs) == (
        str(tmp_path / "models/net.py"),
        "Net",
        "Net(3)",
        "torch.ones(3)",
    )
    assert first.location is not None
    assert first.location.span.line == 2
    assert [each.path for each in others] == [
        str(tmp_path / "a.py"),
        str(tmp_path / "b.py"),
    ]


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("[[tool.fxls.target]]\npath = 'a.py'\n", "needs `construct` or `inputs`", 1),
        ("\n\n[[tool.fxls.target]]\nconstruct = 'A()'\n", "needs a path", 3),
        (
            "[[tool.fxls.target]]\npath = 'a.py'\nconstrcut = 'A()'\n",
            "unknown key 'constrcut'",
            1,
        ),
        ("[[tool.fxls.target]]\npath = 3\n", "path of a target is a string", 1),
        ("[tool.fxls]\ntarget = 3\n", "is written [[tool.fxls.target]]", 2),
        ("[tool.fxls\n", "", 1),
    ],
)
def test_what_is_wrong_is_said_at_its_line(text, message, line):
    configuration = parse_configuration("/p/pyproject.toml", text)
    assert configuration.targets == ()
    (problem,) = configuration.problems
    assert message in problem.message
    assert problem.location.span.line == line


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path):
    (problem,) = read_configuration(str(tmp_path / "pyproject.toml")).problems
    assert "cannot be read" in problem.message


def test_a_folder_in_a_package_that_is_none_itself_has_the_root_of_the_package(tmp_path):
    folder = tmp_path / "package" / "models"
    folder.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    assert roots_of(str(folder / "net.py"))[:2] == (str(folder), str(tmp_path))


def test_a_folder_that_a_file_imports_from_by_its_name_lies_in_a_root(tmp_path):
    for name in ("code/project/nets/deep/net.py", "code/project/layers.py", "code/other/tools.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    path = str(tmp_path / "code/project/nets/deep/net.py")

    def roots(text: str) -> tuple[str, ...]:
        return roots_of(path, imported=discover(path, text).imported)

    own = str(tmp_path / "code/project/nets/deep")
    assert roots("from project.layers import Layer\n") == (str(tmp_path / "code"), own)
    assert roots("import project.nets.blocks as blocks\n") == (str(tmp_path / "code"), own)
    assert roots("from nets.blocks import *\n") == (own,)  # There are no `blocks` in it.
    assert roots("from nets.deep import net\n") == (str(tmp_path / "code/project"), own)
    assert roots("from project import Layer\nfrom project.missing import Layer\nimport project\n") == (own,)
    assert roots("from other.tools import tool\n") == (own, str(tmp_path / "code"))
    assert roots("from other.tool import tool\n") == (own,)
    assert roots("from ..tools import tool\nfrom ...layers import Layer\n") == (own,)


def test_scripts_are_started_in_a_folder_above_that_holds_what_a_file_imports(tmp_path):
    for name in ("a/b/c/d/e/net.py", "a/b/custom_types.py", "a/b/c/utils/__init__.py", "a/far.py", "a/b/c/ast.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    path = str(tmp_path / "a/b/c/d/e/net.py")
    text = "import ast\nimport torch\nimport far\nfrom custom_types import *\nfrom utils import tool\n"
    imported = discover(path, text).imported
    own, middle, outer = (str(tmp_path / each) for each in ("a/b/c/d/e", "a/b/c", "a/b"))
    assert roots_of(path, imported=imported) == (own, middle, outer)
    assert roots_of(path, [middle], imported=imported) == (own, middle)
    assert roots_of(path, [str(tmp_path)], imported=imported)[-1] == str(tmp_path / "a")
    (tmp_path / "a/b/c/d/e/custom_types.py").write_text("")
    assert roots_of(path, imported=imported) == (own, middle)


def test_a_folder_in_a_package_comes_last_and_only_for_what_lies_there_alone(tmp_path):
    for name in ("app/__init__.py", "app/gaze/__init__.py", "app/gaze/models/net.py", "app/gaze/models/blocks.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    path = str(tmp_path / "app/gaze/models/net.py")

    def roots(text: str) -> tuple[str, ...]:
        return roots_of(path, [str(tmp_path)], imported=discover(path, text).imported)

    own, whole = str(tmp_path / "app/gaze/models"), str(tmp_path)
    (tmp_path / "app/gaze/datasets").mkdir()
    (tmp_path / "app/gaze/datasets/__init__.py").write_text("from .faces import Faces\n")
    assert roots("from datasets import load_dataset\n") == (own, whole)  # That of a library that is not installed.
    assert roots("from datasets import Faces\n") == (own, whole, str(tmp_path / "app/gaze"))
    assert roots("from app.gaze.models.blocks import Block\n") == (whole, own)
    assert roots("from models.blocks import Block\n") == (own, whole, str(tmp_path / "app/gaze"))
