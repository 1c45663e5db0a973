"""The documentation says what is there: its links lead somewhere, and what it lists is complete."""

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from fxls import lsp_ext

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path for folder in ("fxls", "engine") for path in sorted((ROOT / folder).rglob("*.py"))]
_LINK = re.compile(r"\]\((?!https?:|command:)([^)#]*)(?:#([^)]*))?\)")
_PATH = re.compile(r"`((?:fxls|engine|tests|benchmarks|examples|docs|vscode-extension)/[\w./-]*\.\w+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    linked = [page.parent / path for path, _ in _LINK.findall(text) if path]
    named = [ROOT / path for path in _PATH.findall(text)]
    made = {ROOT / "vscode-extension/fxls.vsix"}  # By `make extension`.
    assert [str(path) for path in linked + named if not path.exists() and path not in made] == []
    anchors = [(path or page.name, anchor) for path, anchor in _LINK.findall(text) if anchor]
    assert [(path, anchor) for path, anchor in anchors if anchor not in headings(page.parent / path)] == []


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_extension_of_the_protocol_is_described() -> None:
    text = (ROOT / "docs/lsp-extensions.md").read_text(encoding="utf-8")
    for name in (
        lsp_ext.STATUS,
        lsp_ext.TRUSTED,
        lsp_ext.ACTIVE,
        lsp_ext.REPORT,
        lsp_ext.ENVIRONMENT,
        *lsp_ext.COMMANDS,
    ):
        assert f"`{name}`" in text
    for record in filter(dataclasses.is_dataclass, vars(lsp_ext).values()):
        body = re.search(rf"interface {record.__name__} {{(.*?)}}", text, re.DOTALL)
        assert body, record.__name__
        described = set(re.findall(r"^\s*(\w+)\??:", body[1], re.MULTILINE))
        assert described == {_camel(field.name) for field in dataclasses.fields(record)}


def test_the_tests_that_the_architecture_names_exist() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in sources] == []


def test_only_the_mapper_converts_positions() -> None:
    makers = {path.name for path in SOURCES if re.search(r"\bPosition\(", path.read_text(encoding="utf-8"))}
    assert makers == {"mapper.py", "diagnostics.py"}


def test_every_mutable_class_of_server_and_worker_is_named_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text.partition("## Mutable state")[2].partition("\n## ")[0]))
    classes = {path: classes_of(path) for path in SOURCES}
    ours = [node for path, nodes in classes.items() if "fxengine" not in path.parts for node in nodes]
    assert {node.name for node in ours if is_mutable(node) and not node.name.startswith("_")} <= named
    assert named <= {node.name for nodes in classes.values() for node in nodes} | {"wrap"}


def classes_of(path: Path) -> list[ast.ClassDef]:
    """The classes that a module defines."""
    return [each for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(each, ast.ClassDef)]


def is_mutable(node: ast.ClassDef) -> bool:
    """Whether the class is a dataclass that is not frozen, or a method that is no constructor sets an attribute."""
    if any("dataclass" in (text := ast.unparse(each)) and "frozen=True" not in text for each in node.decorator_list):
        return True
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(
        _sets_itself(method) for method in methods if method.name not in {"__init__", "__new__", "__post_init__"}
    )


def _sets_itself(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        for node in ast.walk(method)
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
