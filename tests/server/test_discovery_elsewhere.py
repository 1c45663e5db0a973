"""Calls of a class in other files of its workspace."""

import textwrap
import time

import pytest

from fxls.discovery import discover, elsewhere
from fxls.discovery.elsewhere import Calls

MODEL = """
from torch import nn
from .parts import Part

class Config:
    width = 3

class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()

    def forward(self, x):
        return x
"""


@pytest.fixture
def workspace(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return tmp_path

    write(src__pkg__net_py=MODEL)
    return write


def found(folder, name="Net"):
    path = str(folder / "src/pkg/net.py")
    text = (folder / "src/pkg/net.py").read_text()
    calls = Calls(str(folder))
    calls.look()
    target = calls.completed(discover(path, text), text).target(name)
    return [each.expression for each in target.constructs], [each.expression for each in target.inputs]


def test_a_test_says_how_a_class_is_built_and_fed(workspace):
    folder = workspace(
        tests__net_py="""
        import torch
        from pkg.net import Net

        def test_it():
            width = 12
            net = Net(width, depth=5)
            assert net(torch.randn(7, width)).shape == (7, 5)
        """
    )
    assert found(folder) == (["Net(12, depth=5)"], ["torch.randn(7, 12)"])


def test_a_readme_does_too(workspace):
    folder = workspace(README_md="# Net\n\n```python\nfrom pkg import Net\nnet = Net(3, 4)\n```\n")
    assert found(folder)[0] == ["Net(3, 4)"]


def test_tests_come_first(workspace):
    folder = workspace(
        a_py="from pkg.net import Net\nnet = Net(1, 1)\n", tests__b_py="from pkg.net import Net\nnet = Net(2, 2)\n"
    )
    assert found(folder)[0][:2] == ["Net(2, 2)", "Net(1, 1)"]


@pytest.mark.parametrize(
    "text",
    [
        "from other.thing import Net\nnet = Net(1, 1)\n",
        "class Net: pass\nnet = Net(1, 1)\n",
        "from pkg.net import Net\nwidth = get()\nnet = Net(width, 1)\n",
        "from pkg.net import Net\nfrom Config import size\nnet = Net(size, 1)\n",
        "from pkg.net import Net\nnet = Net(open('x').read(), 1)\n",
        "from pkg.net import Net\nnet = Net(\n",
    ],
    ids=[
        "another class",
        "a class of its own",
        "needs what nobody has",
        "hidden in the module",
        "fetches",
        "no program",
    ],
)
def test_what_cannot_be_evaluated_in_the_module_of_the_class_does_not_count(workspace, text):
    assert found(workspace(use_py=text)) == ([], [])


def test_names_that_the_module_has_as_well_may_be_used(workspace):
    folder = workspace(use_py="from pkg.net import Net, Config\nnet = Net(Config.width, 2)\n")
    assert found(folder)[0] == ["Net(Config.width, 2)"]


def test_what_the_other_file_imports_has_its_full_name(workspace):
    folder = workspace(
        tests__net_py="""
        import library
        from pkg.net import Config, Net
        from pkg.shapes import width as wide
        from .helpers import made

        def test_it():
            from library.heads import Head
            Net(library.size, wide)(library.batch(Head()), made)
            Net(Config.width, 2)
        """
    )
    (folder / "tests" / "__init__.py").touch()
    assert found(folder) == (
        ["Net(library.size, pkg.shapes.width)", "Net(Config.width, 2)"],
        ["library.batch(library.heads.Head()), tests.helpers.made"],
    )


def test_a_class_of_which_the_file_speaks_is_left_alone(workspace):
    workspace(use_py="from pkg.net import Net\nnet = Net(1, 1)\n")
    folder = workspace(src__pkg__net_py=MODEL + "\nif __name__ == '__main__':\n    net = Net(8, 8)\n")
    assert found(folder)[0] == ["Net(8, 8)"]


def test_what_changed_is_looked_at_again(workspace):
    folder = workspace(use_py="from pkg.net import Net\nnet = Net(1, 1)\n")
    path, text = str(folder / "src/pkg/net.py"), MODEL
    calls = Calls(str(folder))
    assert not calls.completed(discover(path, text), text).target("Net").constructs
    calls.look()
    assert calls.completed(discover(path, text), text).target("Net").constructs
    workspace(use_py="from pkg.net import Net\nnet = Net(123, 1)\n")
    calls.look()
    (construct,) = calls.completed(discover(path, text), text).target("Net").constructs
    assert construct.expression == "Net(123, 1)"
    (folder / "use.py").unlink()
    calls.look()
    assert not calls.completed(discover(path, text), text).target("Net").constructs


def test_a_folder_that_takes_long_is_looked_through_to_its_end(workspace, monkeypatch):
    folder = workspace(
        **{f"a{number}_py": "" for number in range(5)}, use_py="from pkg.net import Net\nnet = Net(1, 1)\n"
    )
    monkeypatch.setattr("fxls.discovery.elsewhere._SECONDS", 0.02)
    read = elsewhere._text
    monkeypatch.setattr("fxls.discovery.elsewhere._text", lambda path: time.sleep(0.015) or read(path))
    assert found(folder)[0] == ["Net(1, 1)"]
    monkeypatch.setattr("fxls.discovery.elsewhere._SECONDS", -1.0)
    assert found(folder)[0] == []


def test_hidden_folders_and_environments_are_passed_over(workspace):
    folder = workspace()
    for name in (".venv", "node_modules", "mine"):
        (folder / name).mkdir()
        (folder / name / "use.py").write_text("from pkg.net import Net\nnet = Net(1, 1)\n")
    (folder / "mine" / "pyvenv.cfg").write_text("")
    assert found(folder) == ([], [])


def test_a_configuration_describes_what_a_registry_builds(workspace):
    folder = workspace(
        configs__base_py="model = dict(type='pkg.Net', width=7, depth=dict(a=2))\nother = {'type': 'Other'}\n"
    )
    assert found(folder) == (["Net(width=7, depth=dict(a=2))"], [])


def wholes(folder):
    path, text = str(folder / "src/pkg/net.py"), (folder / "src/pkg/net.py").read_text()
    calls = Calls(str(folder))
    calls.look()
    return [(each.path, each.qualname) for each in calls.completed(discover(path, text), text).target("Net").wholes]


def test_the_models_of_other_files_that_have_a_class_as_a_part_are_known(workspace):
    folder = workspace(
        src__pkg__big_py="""
        from torch import nn
        from .net import Net

        class Other(nn.Module):
            def __init__(self):
                super().__init__()
                self.calls_none = Nets(3)

        class Big(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.net = nn.ModuleList(Net(width, index) for index in range(width))
        """,
        src__far__away_py="""
        from pkg.net import Net

        class Far:
            def __init__(self, depth):
                self.net = Net(depth, depth)
        """,
        src__pkg__another_py="""
        from elsewhere import Net

        class Another:
            def __init__(self, width):
                self.net = Net(width, width)
        """,
        tests__test_net_py="""
        from pkg.net import Net

        class Test:
            def __init__(self, width):
                self.net = Net(width, width)
        """,
    )
    assert wholes(folder) == [(f"{folder}/src/pkg/big.py", "Big"), (f"{folder}/src/far/away.py", "Far")]


_BIG = """
from .net import Net

class Big:
    def __init__(self, width):
        self.net = Net(width, 4)
        self.small = Net(3, 4)
"""


def test_a_class_that_is_built_as_it_stands_is_fed_by_the_model_around_it(workspace):
    folder = workspace(src__pkg__big_py=_BIG)
    assert found(folder)[0] == ["Net(3, 4)"]
    assert wholes(folder) == [(f"{folder}/src/pkg/big.py", "Big")]


def test_a_class_that_is_built_and_fed_as_it_stands_needs_no_model_around_it(workspace):
    use = "import torch\nfrom pkg.net import Net\nnet = Net(3, 4)\nnet(torch.randn(2, 3))\n"
    folder = workspace(src__pkg__big_py=_BIG, tests__test_net_py=use)
    assert found(folder) == (["Net(3, 4)"], ["torch.randn(2, 3)"])
    assert wholes(folder) == []


def test_what_has_it_as_a_part_of_a_part_is_known_too_and_how_that_is_built(workspace):
    folder = workspace(
        src__pkg__block_py="""
        from torch import nn
        from .net import Net

        class Block(nn.Module):
            def __init__(self, make):
                super().__init__()
                self.net = Net(make(), make())

            def forward(self, x):
                return self.net(x)

        class Stage(nn.Module):
            def __init__(self, make):
                super().__init__()
                self.block = Block(make)

            def forward(self, x):
                return self.block(x)
        """,
        src__pkg__model_py="""
        from torch import nn
        from .block import Stage

        class Model(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.stages = nn.ModuleList(Stage(lambda: depth) for _ in range(depth))

            def forward(self, x):
                return self.stages[0](x)
        """,
        tests__test_model_py="""
        import torch
        from pkg.model import Model

        model = Model(3)
        model(torch.randn(2, 3))
        """,
    )
    block, model = f"{folder}/src/pkg/block.py", f"{folder}/src/pkg/model.py"
    assert wholes(folder) == [(block, "Block"), (block, "Stage"), (model, "Model")]
    path, text = str(folder / "src/pkg/net.py"), (folder / "src/pkg/net.py").read_text()
    calls = Calls(str(folder))
    calls.look()
    last = calls.completed(discover(path, text), text).target("Net").wholes[-1]
    assert [each.expression for each in last.constructs] == ["Model(3)"]
    assert [each.expression for each in last.inputs] == ["torch.randn(2, 3)"]


@pytest.mark.parametrize(("needs", "count"), [("width, depth", 0), ("width=3, depth=3", 1)])
def test_what_inherits_from_a_class_is_known_that_nothing_calls_though_it_needs_nothing(workspace, needs, count):
    folder = workspace(
        src__pkg__net_py=MODEL.replace("width, depth", needs),
        src__pkg__heir_py="""
        from .net import Net

        class Heir(Net):
            pass

        class Other(Nets):
            pass
        """,
        src__far__away_py="""
        from elsewhere import Net

        class Stranger(Net):
            pass
        """,
    )
    assert wholes(folder) == [(f"{folder}/src/pkg/heir.py", "Heir")] * count
