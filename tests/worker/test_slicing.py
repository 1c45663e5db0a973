"""Which statements of a file are executed for a name."""

import ast

import pytest

from fxworker.slicing import names_in, slice_of


def sliced(text: str, *wanted: str, again: bool = False) -> list[str]:
    """The first lines of the statements that are executed."""
    found = slice_of(ast.parse(text), text, "net.py", wanted, again=again)
    return [ast.unparse(each.node).split("\n")[0] for each in found.statements]


MODEL = "class Net(Base):\n    def forward(self, x):\n        return helper(x) * SCALE\n"


def test_what_a_class_needs_is_executed_and_nothing_else():
    text = (
        "import torch\nimport wandb\nfrom nets import Base\nSCALE = 2\nOTHER = expensive()\n"
        "def helper(x):\n    return deep(x)\ndef deep(x):\n    return x\ndef train():\n    wandb.init(OTHER)\n"
        f"{MODEL}model = Net()\ntrain()\n"
    )
    # Nothing mentions torch: it may be imported for what it does.
    assert sliced(text, "Net") == [
        "import torch",
        "from nets import Base",
        "SCALE = 2",
        "def helper(x):",
        "def deep(x):",
        "class Net(Base):",
    ]
    assert sliced(text, "model")[-1] == "model = Net()"


def test_imports_that_nothing_needs_are_told_apart():
    text = "import wandb\nimport side_effect\nclass Net:\n    pass\ndef train():\n    wandb.log()\n"
    found = slice_of(ast.parse(text), text, "net.py", ["Net"])
    assert [ast.unparse(each) for each in found.unneeded_imports] == ["import wandb"]
    assert [ast.unparse(each.node).split("\n")[0] for each in found.statements] == ["import side_effect", "class Net:"]


@pytest.mark.parametrize(
    "effect",
    [
        "torch.fx.wrap('helper')",
        "fx.wrap('helper')",
        "wrap('helper')",
        "sys.path.insert(0, 'lib')",
        "os.environ['A'] = '1'",
        "os.environ.setdefault('A', '1')",
        "torch.backends.cudnn.benchmark = True",
        "torch.set_default_dtype(torch.float64)",
        "torch.manual_seed(0)",
        "register_pytree_node(A, f, g)",
        "@registry.register\ndef f():\n    pass",
        "from torch.nn import *",
    ],
)
def test_effects_without_a_name_are_executed(effect):
    text = f"{effect}\nclass Net:\n    pass\n"
    assert (
        ast.unparse(ast.parse(effect)).split("\n")[0] in "\n".join(sliced(text, "Net")) or len(sliced(text, "Net")) == 2
    )


@pytest.mark.parametrize(
    "statement",
    [
        "main()",
        "train(Net())",
        "Net().fit()",
        "parser.parse_args()",
        "torch.save(Net(), 'a')",
        "print('hello')",
        "for epoch in range(10):\n    train()",
        "while True:\n    pass",
        "if __name__ == '__main__':\n    import x\n    Net()",
        "with open('a') as f:\n    f.write('b')",
        "try:\n    train()\nexcept KeyboardInterrupt:\n    pass",
        "args = parser.parse_args()",
        "assert torch.cuda.is_available()",
        "del x",
        "@app.command()\ndef main():\n    pass",
    ],
)
def test_what_trains_parses_or_prints_is_not(statement):
    text = f"class Net:\n    pass\n{statement}\n"
    assert sliced(text, "Net") == ["class Net:"]


def test_a_local_name_is_not_the_global_of_the_same_name():
    text = (
        "class Net:\n    def forward(self, x):\n        y = [x for loss in x]\n        return y\n"
        "for x in data:\n    loss = x\n"
    )
    assert sliced(text, "Net") == ["class Net:"]


def test_changes_of_a_needed_object_are_executed():
    text = (
        "R = {}\nR['a'] = 1\nR.update(b=2)\nR.c = 3\nR.train()\nR += [4]\n"
        "class Net:\n    def f(self):\n        return R\n"
    )
    assert sliced(text, "Net") == ["R = {}", "R['a'] = 1", "R.update(b=2)", "R.c = 3", "R += [4]", "class Net:"]


def test_a_decorator_that_is_called_changes_what_it_is_of():
    text = "R = Registry()\nR.register('a')(A)\nR.trained('a')(B)\nclass Net:\n    def f(self):\n        return R\n"
    assert sliced(text, "Net") == ["R = Registry()", "R.register('a')(A)", "class Net:"]


def test_alternatives_are_executed_whole():
    text = (
        "try:\n    import fast\nexcept ImportError:\n    fast = None\n"
        "class Net:\n    def f(self):\n        return fast\n"
    )
    assert sliced(text, "Net") == ["try:", "class Net:"]


def test_configurations_are_executed_though_nothing_says_so():
    text = (
        "class Net:\n    def __init__(self, config):\n        pass\nclass NetConfig:\n    pass\nclass Data:\n    pass\n"
    )
    assert sliced(text, "Net") == ["class Net:", "class NetConfig:"]


def test_how_the_file_is_compiled_is_executed_though_its_name_is_mentioned():
    text = "from __future__ import annotations\nclass Net:\n    '''Type annotations tell.'''\n"
    assert sliced(text, "Net") == ["from __future__ import annotations", "class Net:"]


def test_a_class_looks_up_outside_what_it_has_not_assigned_yet():
    text = (
        "from parts import Part, Other\nclass Net:\n    Part = Part[int]\n    def f(self):\n        return self.Part\n"
    )
    assert sliced(text, "Net") == ["from parts import Part, Other", "class Net:"]


def test_annotations_say_what_a_class_is_built_with():
    text = (
        "from __future__ import annotations\nclass Settings:\n    pass\nclass Other:\n    pass\n"
        "class Net:\n    def __init__(self, s: Settings, o: 'Other | None'):\n        pass\n"
    )
    assert sliced(text, "Net")[1:] == ["class Settings:", "class Other:", "class Net:"]


def test_looking_up_by_name_needs_every_definition():
    text = (
        "def a():\n    pass\nclass B:\n    pass\nclass Net:\n    def f(self):\n        return globals()['a']\ntrain()\n"
    )
    assert sliced(text, "Net") == ["def a():", "class B:", "class Net:"]


def test_a_file_that_was_executed_registers_nothing_again():
    text = (
        "@register_model\ndef tiny():\n    return Net()\n@register_model\n@keep\ndef small():\n    return Net()\n"
        "register_notrace(Net)\nclass Net:\n    pass\ntorch.fx.wrap('f')\n"
    )
    assert sliced(text, "Net", again=True) == ["class Net:", "torch.fx.wrap('f')"]
    assert sliced(text, "small", again=True) == ["@keep", "class Net:", "torch.fx.wrap('f')"]


def test_a_name_that_is_bound_in_an_expression():
    assert sliced("y = (n := 3) + 1\nclass Net:\n    def f(self):\n        return n\n", "Net") == [
        "y = (n := 3) + 1",
        "class Net:",
    ]


def test_names_of_expressions():
    assert names_in("Net(dim=D, x=[a.b for a in c])") == {"Net", "D", "a", "c"}
    assert names_in("not an expression") == frozenset()


MAIN = 'if __name__ == "__main__":\n    import wandb\n    width = 3\n    depth = 4\n    wandb.init()\n'


def test_the_main_block_gives_what_nothing_else_assigns():
    text = f"depth = 2\nclass Net:\n    def f(self):\n        return width * depth\n{MAIN}"
    assert sliced(text, "Net") == ["depth = 2", "class Net:", "width = 3"]
    assert sliced(text.replace("__name__ ==", "'__main__' ==").replace('== "__main__"', "== __name__"), "Net")[-1:] == [
        "width = 3"
    ]


def test_a_class_of_the_main_block_is_executed():
    text = f"{MAIN}    class Net:\n        size = width\n    model = Net()\n    model.fit()\n"
    assert sliced(text, "Net") == ["width = 3", "class Net:"]


def test_an_edit_in_the_main_block_is_seen():
    known = {}
    for width in (3, 5):
        text = f"class Net:\n    def f(self):\n        return width\n{MAIN.replace('3', str(width))}"
        found = slice_of(ast.parse(text), text, "net.py", ["Net"], known=known)
        assert ast.unparse(found.statements[-1].node) == f"width = {width}"


def test_what_is_refused_is_known_with_its_reason():
    text = "data = load_dataset('x')\nsize = len(data)\nclass Net:\n    def f(self):\n        return size\n"
    found = slice_of(ast.parse(text), text, "net.py", ["Net"])
    (refused,) = found.refused
    assert (refused.name, refused.use.lineno, refused.binder.lineno, refused.statement.lineno) == ("size", 5, 2, 1)
    assert found.lost == {"data", "size"}


def test_what_is_looked_up_in_the_module_itself_is_executed():
    text = (
        "import sys\nlibrary = sys.modules[__name__]\nSIZE = 4\nOTHER = 5\n"
        "class Base:\n    width = library.SIZE\nclass Net(library.Base):\n    pass\n"
    )
    found = slice_of(ast.parse(text), text, "net.py", ["Net"])
    assert [each.node.lineno for each in found.statements] == [1, 2, 3, 5, 7]
