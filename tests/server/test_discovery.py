"""What discovery finds in a file: models, how they are built, what they are fed."""

import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxls.discovery import discover
from fxls.discovery.index import ConfiguredTarget, ModelIndex
from fxls.text.edits import Carry, apply_changes
from fxls.text.mapper import Mapper
from tests.server.test_text_edits import partial

HEAD = "import torch\nimport torch.nn as nn\nfrom torch import nn as layers\n\n"
NET = """class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
    def forward(self, x):
        return x

"""


def found(text: str) -> ModelIndex:
    return discover("/project/net.py", HEAD + textwrap.dedent(text))


def names(text: str) -> list[str]:
    return [target.qualname for target in found(text).targets]


def constructs(text: str, name: str = "Net") -> list[tuple[str, str]]:
    target = found(text).target(name)
    assert target is not None
    return [(each.source, each.expression) for each in target.constructs]


def inputs(text: str, name: str = "Net") -> list[tuple[str, str]]:
    target = found(text).target(name)
    assert target is not None
    return [(each.source, each.expression) for each in target.inputs]


# Which classes are models.


@pytest.mark.parametrize(
    "bases",
    [
        "nn.Module",
        "torch.nn.Module",
        "layers.Module",
        "nn.Sequential",
        "nn.Module, Mixin",
        "Mixin, nn.TransformerEncoderLayer",
    ],
)
def test_classes_that_inherit_from_torch_are_models(bases):
    assert names(f"class Mixin: pass\nclass Net({bases}):\n    def forward(self, x): return x\n") == ["Net"]


def test_subclasses_in_the_file_are_models_and_a_mere_step_between_them_is_none():
    text = """
    class A(nn.Module):
        def forward(self, x): return x
    class B(A): pass
    class C(B):
        def forward(self, x): return -x
    """
    assert names(text) == ["A", "C"]


def test_a_class_with_forward_and_an_imported_base_is_a_model():
    assert names("from .blocks import Base\nclass Net(Base):\n    def forward(self, x): return x\n") == ["Net"]


def test_a_base_class_in_the_file_may_come_from_elsewhere():
    text = "from lib import Thing\nclass Base(Thing): pass\nclass Net(Base):\n    def forward(self, x): return x\n"
    assert names(text) == ["Net"]


def test_an_imported_model_class_passes_its_forward_on():
    assert names("from timm.models import VisionTransformer\nclass Net(VisionTransformer): pass\n") == ["Net"]


def test_a_base_called_like_pydantics_may_be_a_model():
    assert names(
        "from .basemodel import BaseModel\nclass Net(BaseModel, name='net'):\n    def forward(self, x): ...\n"
    ) == ["Net"]
    assert names("from pydantic import BaseModel\nclass Net(BaseModel):\n    def forward(self, x): ...\n") == []


def test_a_name_of_the_files_own_module_is_seen_through():
    text = "import sys\nfrom torch import nn\nlibrary = sys.modules[__name__]\nBase = nn.Module\n"
    text += (
        "class Part(library.Base):\n    def forward(self, x):\n        return x\nclass Net(library.Part):\n    pass\n"
    )
    assert {each.qualname for each in discover("net.py", text).targets} == {"Part", "Net"}


def test_a_base_may_be_what_a_call_returns():
    text = "Base = make(layers)\nclass Net({}):\n    def forward(self, x): return x\n"
    assert names(text.format("Base")) == names(text.format("make(layers)")) == ["Net"]
    assert names("Base = make(layers)\nclass Net(Base): pass\n") == []


def test_aliases_are_seen_through():
    assert names("Module = nn.Module\nclass Net(Module):\n    def forward(self, x): return x\n") == ["Net"]
    assert names("from torch.nn import *\nclass Net(Module):\n    def forward(self, x): return x\n") == ["Net"]


def test_torch_may_be_there_or_not():
    text = "from lib import try_import\nnn = try_import('torch.nn')\n"
    assert names(
        f"{text}class Net(nn.Module if nn is not None else object):\n    def forward(self, x): return x\n"
    ) == ["Net"]
    assert names(f"{text}class Net(dict if nn else object):\n    def forward(self, x): return x\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x\n",
        "class D(torch.utils.data.Dataset):\n    def forward(self): pass\n",
        "class P:\n    def forward(self, x): return x\n",
        "class L(nn.ModuleList): pass\n",
        "class A(nn.Module):\n    pass\n",
        "import abc\nclass A(nn.Module):\n    @abc.abstractmethod\n    def forward(self, x): ...\n",
        'class A(nn.Module):\n    def forward(self, x):\n        """Not here."""\n        raise NotImplementedError\n',
        "class A(nn.Module):\n    def forward(self, x): raise NotImplementedError\n",
        "class A(nn.Module):\n    def forward(self, x): raise NotImplementedError('x')\n",
        "class A(nn.Module):\n    def forward(self, x): raise RuntimeError(f'{self.name} is only a placeholder')\n",
        "def make():\n    class Net:\n        def forward(self, x): return x\n",
        "class A(A):\n    def forward(self, x): return x\n",
    ],
)
def test_other_classes_are_no_targets(text):
    assert names(text) == []


def test_nested_and_conditional_classes_have_qualified_names():
    text = """
    class Outer(nn.Module):
        class Inner(nn.Module):
            def forward(self, x): return x
        def forward(self, x): return x
    if True:
        class Other(nn.Module):
            def forward(self, x): return x
    """
    assert names(text) == ["Outer", "Outer.Inner", "Other"]


def test_the_name_of_a_class_is_spanned():
    index = found(
        "@decorated\nclass  Größe(nn.Module):\n    async def other(self): pass\n    def forward(self, x): return x\n"
    )
    mapper = Mapper(
        HEAD
        + "@decorated\nclass  Größe(nn.Module):\n    async def other(self): pass\n    def forward(self, x): return x\n"
    )
    (target,) = index.targets
    assert mapper.source(target.name) == "Größe"
    assert index.classes[0].header == target.name.line - 1
    forward = index.classes[0].forward
    assert forward is not None
    assert mapper.source(forward.name_span) == "forward"
    assert mapper.source(forward.parameters[0].span) == "x"


# How they are built.


def test_a_directive_comes_first():
    text = "# fx: Net(dim=3)\n# fx: inputs torch.randn(2, 3)\n" + NET + "Net(4)\n"
    assert constructs(text) == [("directive", "Net(dim=3)"), ("call", "Net(4)")]
    assert inputs(text) == [("directive", "torch.randn(2, 3)")]


def test_directives_stand_above_decorators_and_may_be_several():
    text = "# fx: Net(1)\n# fx: Net(2)\n\n@compiled\n" + NET
    assert [expression for _, expression in constructs(text)] == ["Net(1)", "Net(2)"]


def test_a_directive_may_go_on_in_the_next_lines():
    text = "# fx: Net(\n#     dim=3,\n# )\n# fx: inputs torch.randn(\n#    2, 3)\n" + NET
    assert constructs(text) == [("directive", "Net( dim=3, )")]
    assert inputs(text) == [("directive", "torch.randn( 2, 3)")]


def test_a_directive_elsewhere_belongs_to_the_class_that_it_calls():
    text = "# fx: Net(3).eval()\n# fx: inputs torch.randn(3)\n\nx = 1\n" + NET
    assert constructs(text) == [("directive", "Net(3).eval()")]
    assert inputs(text) == [("directive", "torch.randn(3)")]


def test_a_directive_that_is_no_expression_is_kept_for_the_worker_to_judge():
    assert constructs("# fx: Net(dim=\n" + NET) == [("directive", "Net(dim=")]


def test_text_in_strings_and_other_comments_are_no_directives():
    text = '"""\n# fx: Net(1)\n"""\n# fx: ignore[FX001]\n' + NET
    assert constructs(text) == []


def test_configuration_comes_after_directives_and_before_calls():
    index = found("# fx: Net(1)\n" + NET + "y = Net(4)(torch.randn(4))\n")
    entries = [
        ConfiguredTarget("/project/net.py", "Net", "Net(2)", "torch.randn(2)"),
        ConfiguredTarget("/project/other.py", "Net", "Net(9)", ""),
    ]
    target = index.configured(entries).target("Net")
    assert target is not None
    assert [each.expression for each in target.constructs] == ["Net(1)", "Net(2)", "Net(4)"]
    assert [each.expression for each in target.inputs] == ["torch.randn(2)", "torch.randn(4)"]


def test_an_instance_at_module_level_comes_before_other_calls():
    text = NET + "def test():\n    Net(1)\nmodel = Net(2).to('cuda').eval()\n"
    assert constructs(text) == [("instance", "Net(2)"), ("call", "Net(1)")]


def test_calls_in_main_come_before_those_in_functions_docstrings_and_methods():
    text = '''
    class Net(nn.Module):
        """
        >>> net = Net(3)
        >>> net(torch.randn(3))
        """
        def forward(self, x): return x
    class Big(nn.Module):
        def __init__(self, dim=4):
            self.net = Net(dim)
        def forward(self, x): return self.net(x)
    def main():
        Net(2)
    if __name__ == "__main__":
        Net(1)
    '''
    assert [expression for _, expression in constructs(text)] == ["Net(1)", "Net(2)", "Net(3)", "Net(4)"]
    assert inputs(text) == [("call", "torch.randn(3)")]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (
            "A net.\n\n    Example:\n        net = Net(3)\n        net(torch.randn(3))\n\n    More of it.\n    ",
            "Net(3)",
        ),
        ("Used so::\n\n        net = Net(3)\n        net(torch.randn(3))\n    ", "Net(3)"),
        ("\n    .. code-block:: python\n\n        net = Net(3)\n        net(torch.randn(3))\n    ", "Net(3)"),
        ("\n    Usage:\n        One makes one and calls it.\n\n        Net(3)(torch.randn(3))\n    ", "Net(3)"),
        ("\n    Examples:\n        >>> Net(3)(torch.randn(3))\n    ", "Net(3)"),
        ("\n    Args:\n        dim (Net): which Net(3) is told\n    ", ""),
    ],
    ids=["heading", "literal block", "directive", "beside prose", "prompt", "arguments"],
)
def test_examples_in_docstrings_are_code_where_they_are_set_apart(docstring, expected):
    text = (
        f'class Net(nn.Module):\n    """{docstring}"""\n'
        "    def __init__(self, dim): ...\n    def forward(self, x): return x\n"
    )
    assert constructs(text) == ([("call", expected)] if expected else [])
    assert inputs(text) == ([("call", "torch.randn(3)")] if expected else [])
    lines = [each.location.span.line for target in found(text).targets for each in target.constructs]
    assert all("Net(3)" in (HEAD + text).split("\n")[line - 1] for line in lines)


def test_local_names_are_replaced_by_what_was_assigned_to_them():
    text = (
        NET
        + """
def main(heads=2):
    dim = 4
    dim = dim * heads
    config = dict(dim=dim)
    model = Net(**config)
    x, y = torch.randn(3, dim), None
    model(x, mask=y)
"""
    )
    assert constructs(text) == [("call", "Net(**dict(dim=4 * 2))")]
    assert inputs(text) == [("call", "torch.randn(3, 4 * 2), mask=None")]


def test_what_an_example_or_a_function_imports_has_its_full_name():
    text = '''
    class Net(nn.Module):
        """
        >>> import library as lib
        >>> from library.layers import Block as Part
        >>> part = Part(3)
        >>> net = Net(part, lib.width(2))
        >>> net(lib.data.Batch(torch.randn(3)))
        """
        def forward(self, x): return x
    if __name__ == "__main__":
        import library.heads
        Net(library.heads.Head())
    '''
    assert [expression for _, expression in constructs(text)] == [
        "Net(library.heads.Head())",
        "Net(library.layers.Block(3), library.width(2))",
    ]
    assert inputs(text) == [("call", "library.data.Batch(torch.randn(3))")]


@pytest.mark.parametrize(
    ("condition", "name", "expected"),
    [
        ("mode == 'fast'", "mode", ["Net(1, 'fast')", "Net(2, 'slow')"]),
        ("mode != 'fast'", "mode", ["Net(1, 'slow')", "Net(2, 'fast')"]),
        ("mode == 'slow'", "mode", ["Net(1, 'slow')"]),
        ("size is None", "size", ["Net(1, None)", "Net(2, 4)"]),
        ("size is not None", "size", ["Net(1, 4)", "Net(2, None)"]),
        ("norm is None", "norm", ["Net(1, None)"]),
        ("norm", "norm", ["Net(2, None)"]),
        ("flag", "flag", ["Net(1, True)", "Net(2, False)"]),
        ("not flag", "flag", ["Net(1, False)", "Net(2, True)"]),
        ("unknown == 'fast'", "mode", ["Net(1, 'slow')", "Net(2, 'slow')"]),
        ("exists(norm)", "norm", ["Net(2, None)"]),
        ("not exists(norm)", "norm", ["Net(1, None)"]),
        ("is_none(norm)", "norm", ["Net(1, None)"]),
        ("exists(size)", "size", ["Net(1, 4)", "Net(2, None)"]),
        ("exists(norm) and not flag", "norm", ["Net(2, None)"]),
        ("flag or norm is None", "flag", ["Net(1, False)", "Net(2, False)"]),
        ("flag or norm is None", "norm", ["Net(1, None)"]),
    ],
)
def test_a_call_in_a_branch_has_what_the_condition_says(condition, name, expected):
    begin = f"def make(unknown, mode='slow', size=4, norm=None, flag=False):\n    if {condition}:\n"
    text = NET + begin + f"        Net(1, {name})\n    else:\n        Net(2, {name})\n"
    assert [expression for _, expression in constructs(text)] == expected
    assert len(constructs(NET + begin + f"        pass\n    Net(3, {name})\n")) == 1
    chosen = f"    keep(Net(1, {name}) if {condition} else Net(2, {name}))\n    Net(3, {name})\n"
    found = [expression for _, expression in constructs(NET + begin.partition("\n")[0] + "\n" + chosen)]
    assert sorted(each for each in found if "3" not in each) == expected


def test_what_a_branch_assigns_counts_behind_it():
    text = NET + "def make(norm=None):\n    if norm is None:\n        norm = 3\n    Net(norm)\n"
    assert constructs(text) == [("call", "Net(3)")]


def test_a_name_of_the_module_hides_a_package_of_that_name():
    text = "def library(): ...\n" + NET + "def main():\n    from library import Block\n    Net(Block())\n"
    assert constructs(text) == []


def test_what_is_imported_from_nearby_has_the_name_that_it_has_in_its_package(tmp_path):
    (tmp_path / "pkg" / "inner").mkdir(parents=True)
    for folder in (tmp_path / "pkg", tmp_path / "pkg" / "inner"):
        (folder / "__init__.py").touch()
    text = NET + "def main():\n    from ..layers import Block\n    from .sizes import WIDTH\n    Net(Block(WIDTH))\n"
    index = discover(str(tmp_path / "pkg" / "inner" / "net.py"), HEAD + textwrap.dedent(text))
    assert [each.expression for each in index.target("Net").constructs] == [
        "Net(pkg.layers.Block(pkg.inner.sizes.WIDTH))"
    ]
    outside = discover(
        str(tmp_path / "net.py"), HEAD + "def main():\n    from .layers import Block\n    Net(Block())\n" + NET
    )
    assert outside.target("Net").constructs == ()


def test_constants_of_the_module_keep_their_names():
    text = "DIM = 64\n" + NET + "Net(DIM)(torch.randn(2, DIM))\n"
    assert constructs(text) == [("call", "Net(DIM)")]
    assert inputs(text) == [("call", "torch.randn(2, DIM)")]


@pytest.mark.parametrize(
    "preparation",
    [
        "args = parser.parse_args()",
        "args = json.load(open('config.json'))",
        "args = get(unknown)",
        "args = Config(); args.dim = 3",
        "args = []; args.append(3)",
        "args = []\n    for each in sizes:\n        if each > 1:\n            args.append(each + 1)",
        "for args in loader: pass",
        "with open('x') as args: pass",
        "args = await_me(); args += 1",
    ],
)
def test_what_needs_a_run_is_refused(preparation):
    main = f"def main(unknown):\n    {preparation}\n    Net(args.dim)(torch.load(args.path))\n"
    text = f"def get(x): return x\n{NET}\n{main}"
    assert constructs(text) == []
    assert inputs(text) == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Backslashes may stand between the braces of an f-string.")
def test_what_cannot_be_written_is_refused():
    main = "def main():\n    sep = '\\\\'\n    Net(len(f'{sep}'))(f'{sep}')\n"
    text = f"{NET}\n{main}"
    assert constructs(text) == []
    assert inputs(text) == []


def test_devices_and_modes_are_left_out():
    text = (
        NET
        + """
def main(device):
    model = Net(4).to(device).eval()
    model(torch.randn(2, 4, device=device).to(device))
    model(torch.ones(1).cuda())
    model(torch.ones(2).to(torch.float16))
"""
    )
    assert constructs(text) == [("call", "Net(4)")]
    assert [each for _, each in inputs(text)] == [
        "torch.randn(2, 4)",
        "torch.ones(1)",
        "torch.ones(2).to(torch.float16)",
    ]


def test_models_are_followed_through_wrappers_and_exporters():
    text = (
        NET
        + """
def main():
    fast = torch.compile(Net())
    fast(torch.ones(1))
    fast.forward(torch.ones(2))
    torch.export.export(fast, (torch.ones(3),))
    torch.jit.trace(fast, torch.ones(4))
"""
    )
    assert [each for _, each in inputs(text)] == ["torch.ones(1)", "torch.ones(2)", "torch.ones(3)", "torch.ones(4)"]


@pytest.mark.parametrize(
    "lines",
    ["net = nn.DataParallel(Net(3)).cuda()", "net = Net(3)\nnet = nn.DataParallel(net.cuda(), device_ids=[0])"],
)
def test_an_instance_in_a_wrapper_is_shown_without_it(lines):
    assert constructs(f"{NET}{lines}\n")[-1] == ("instance", "Net(3)")


def test_loops_take_the_first_of_written_values():
    text = NET + "def main():\n    net = Net()\n    for size in (32, 64):\n        net(torch.ones(size))\n"
    assert inputs(text) == [("call", "torch.ones(32)")]


def test_factories_that_need_nothing_build_their_class():
    text = (
        NET
        + """
def net_large(pretrained=False, **kwargs) -> Net:
    return anything()
def net_tiny(weights=None, progress=True):
    net = Net(2)
    return net
def net_fetched(pretrained=True) -> "Net":
    return make(3)
def make(dim):
    return Net(dim)
def base():
    return make(5)
def moved(device="cpu"):
    net = Net(2)
    net = net.as_sequential()
    return net.to(device).eval()
def other():
    return 3
"""
    )
    found_ = [each for each in constructs(text) if each[0] == "factory"]
    assert found_ == [
        ("factory", "net_tiny()"),
        ("factory", "net_fetched(pretrained=False)"),
        ("factory", "base()"),
        ("factory", "moved()"),
        ("factory", "net_large()"),
    ]
    assert inputs(text + "def main():\n    net_tiny()(torch.ones(2))\n") == [("call", "torch.ones(2)")]


def test_class_methods_that_make_an_instance_build_their_class():
    text = (
        NET
        + """    @classmethod
    def large(cls, dim=64):
        net = cls(dim)
        return net.eval()
    @classmethod
    def tiny(cls) -> "Self":
        return anything()
    @classmethod
    def named(cls, name):
        return cls.large(len(name))
    @classmethod
    def from_pretrained(cls, name, **kwargs):
        return cls.named(name)
    @classmethod
    def widths(cls):
        return [cls.large()]
    def copied(self):
        return self

class Other(Net):
    @classmethod
    def made(cls):
        return Net()
    def forward(self, x):
        return x

def main(path):
    net = Net.from_pretrained("small")
    net(torch.ones(2))
    Net.from_pretrained(path)
    Net.widths()
    Other.from_pretrained("other")
"""
    )
    assert constructs(text) == [
        ("call", "Net.from_pretrained('small')"),
        ("call", "Net()"),
        ("factory", "Net.tiny()"),
        ("factory", "Other.made()"),
        ("factory", "Net.large()"),
    ]
    assert inputs(text) == [("call", "torch.ones(2)")]


# Other targets.


def test_models_of_other_classes_at_module_level_are_targets():
    text = """
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).to('cpu')
    model(torch.ones(2))
    """
    index = found(text)
    assert [(each.qualname, each.kind) for each in index.targets] == [("model", "instance")]
    assert constructs(text, "model") == [("instance", "nn.Sequential(nn.Linear(2, 3), nn.ReLU())")]
    assert inputs(text, "model") == [("call", "torch.ones(2)")]


def test_layers_at_module_level_are_none():
    assert not found("loss = nn.MSELoss()\nrnn = nn.LSTM(2, 3)\nrnn(torch.ones(4, 1, 2))\n").targets


def test_functions_that_are_traced_or_directed_are_targets():
    text = """
    from torch.fx import symbolic_trace
    def f(x): return x
    # fx: inputs torch.ones(2)
    def g(x): return x
    def h(x): return x
    symbolic_trace(f)
    """
    assert [(each.qualname, each.kind) for each in found(text).targets] == [("f", "function"), ("g", "function")]
    assert inputs(text, "g") == [("directive", "torch.ones(2)")]


def test_variables_that_hold_a_model_are_known():
    text = NET + "model = Net()\nmodel(torch.ones(2))\nother = 3\nprint(other)\n"
    index = found(text)
    mapper = Mapper(HEAD + text)
    assert [(each.target, mapper.source(each.span)) for each in index.variables] == [("Net", "model"), ("Net", "model")]


# Any text at all.


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("class A: ()\n    'a docstring'  \n", "'a docstring'"),
        ("def f():\nreturn é\n", "return é"),
        ("x = (1,\ny = 2\n", "("),
        ("x = (é 2)\n", "é 2"),
    ],
)
def test_a_syntax_error_underlines_what_is_wrong(text, underlined):
    problem = discover("/p.py", text).syntax_error
    assert problem is not None
    assert Mapper(text).source(problem.location.span) == underlined


def test_a_syntax_error_is_told():
    unparsed = discover("/p.py", (HEAD + NET).replace("return x", "retur x"))
    assert not unparsed.parsed
    assert unparsed.syntax_error is not None
    assert unparsed.syntax_error.code == "FX101"


def test_an_index_is_carried_to_an_edited_text():
    text = HEAD + NET
    index = discover("/p.py", text)
    mapper = Mapper(text)
    start = text.index("return x")
    edited, changes = apply_changes(
        mapper, [partial(mapper, 0, 0, "\n\n"), partial(Mapper("\n\n" + text), start + 2, start + 8, "retur")]
    )
    carried = index.carried(Carry().then(changes))
    assert carried.targets[0].name.line == index.targets[0].name.line + 2
    assert edited.source(carried.targets[0].name) == "Net"
    assert [each.name_span.line for each in carried.classes] == [each.name_span.line + 2 for each in index.classes]
    assert len([*carried.assignments]) == len([*index.assignments]) - 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "\ufeffclass A: pass",
        "x = " + "(" * 500,
        "x = " + "1 + " * 20000 + "1",
        "class A(A, metaclass=M, **k): pass",
        "\ud800",
        "def f(:",
        "'''",
    ],
)
def test_no_text_is_too_strange(text):
    discover("/x.py", text)


@given(st.lists(st.sampled_from((HEAD + NET).split(" ")), max_size=60), st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_no_mixture_of_code_is_too_strange(words, text):
    index = discover("/x.py", HEAD + " ".join(words) + text)
    for target in index.targets:
        assert target.name.line > 0


def test_line_ends_do_not_matter():
    text = HEAD + "# fx: Net(2)\n" + NET + "Net(3)\n"
    expected = discover("/x.py", text)
    for end in ("\r\n", "\r"):
        assert discover("/x.py", text.replace("\n", end)) == expected


def test_what_is_said_about_statements_builds_nothing():
    text = """
    # fx: run
    # fx: width = 4
    # fx: table: dict[str, int] = {}
    class Net(nn.Module):
        def forward(self, x): return x
    """
    assert constructs(text) == []
    assert constructs(text.replace("# fx: run", "# fx: Net(dim=4)")) == [("directive", "Net(dim=4)")]


def test_classes_in_functions_and_in_the_main_block_have_qualified_names():
    text = """
    def make(dim, sizes=(3, 4)):
        from torch.nn import Module
        class Part(Module):
            def __init__(self, width): pass
            def forward(self, x): return x
        class Net(Part):
            class Inner(Part):
                def forward(self, x): return x
            def forward(self, x): return x
        part = Part(sizes[0])
        part(torch.randn(2, 3))
        Net(dim)
        return Net
    class Case:
        def test(self):
            if True:
                class Net(nn.Module):
                    def forward(self, x): return x
            Net()(torch.randn(4))
    if "__main__" == __name__:
        class Last(nn.Module):
            def forward(self, x): return x
    """
    assert names(text) == [
        "make.<locals>.Part",
        "make.<locals>.Net",
        "make.<locals>.Net.Inner",
        "Case.test.<locals>.Net",
        "Last",
    ]
    assert constructs(text, "make.<locals>.Part") == [("call", "Part((3, 4)[0])")]
    assert inputs(text, "make.<locals>.Part") == [("call", "torch.randn(2, 3)")]
    assert constructs(text, "Case.test.<locals>.Net") == [("call", "Net()")]
    assert inputs(text, "Case.test.<locals>.Net") == [("call", "torch.randn(4)")]


def test_a_directive_above_a_class_in_a_function():
    text = """
    def make():
        # fx: Net(3)
        class Net(nn.Module):
            def forward(self, x): return x
    """
    assert constructs(text, "make.<locals>.Net") == [("directive", "Net(3)")]


LOADER = """
    class Net(nn.Module):
        def forward(self, x, y=None): return x
    if __name__ == "__main__":
        net = Net()
        data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64))
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
        %s
"""


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for x, y in loader: net(x)", "torch.randn(64, 8)[:4]"),
        ("for i, (x, y) in enumerate(tqdm.tqdm(loader), 1): net(x)", "torch.randn(64, 8)[:4]"),
        ("for batch in loader: net(*batch)", "*(torch.randn(64, 8)[:4], torch.zeros(64)[:4])"),
        ("for batch in loader: net(batch[0])", "(torch.randn(64, 8)[:4], torch.zeros(64)[:4])[0]"),
        ("x, y = next(iter(loader)); net(x.to(device))", "torch.randn(64, 8)[:4]"),
        ("for (x, _), n in zip(loader, range(3)): net(x, n)", "torch.randn(64, 8)[:4], 0"),
        ("for x in list([torch.ones(2), torch.ones(3)]): net(x)", "torch.ones(2)"),
    ],
)
def test_batches_of_tensors_are_what_a_loop_gives(loop, expected):
    assert inputs(LOADER % loop) == [("call", expected)]


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in DataLoader(ImageFolder('x'), batch_size=4): net(x)",
        "for batch in files: net(batch['image'])",
        "for batch in files: net(**batch)",
        "for batch in files: net(*batch)",
        "for i, batch in enumerate(DataLoader(data, args.size)): net(batch)",
        "batch = next(iter(files)); net(batch)",
        "for x in []: net(x)",
        "for x, in loader: net(x)",
        "for x, y in zip(*pairs): net(x)",
    ],
)
def test_batches_that_only_a_run_gives_are_not_known(loop):
    assert inputs(LOADER % loop) == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("given = (torch.ones(2), None); net(*given)", "*(torch.ones(2), None)"),
        ("given = dict(x=torch.ones(2)); net(**given, y=3)", "**dict(x=torch.ones(2)), y=3"),
        ("batch = {'x': torch.ones(2)}; net(batch['x'])", "{'x': torch.ones(2)}['x']"),
        ("batch = [torch.ones(2)]; net(batch[-1])", "[torch.ones(2)][-1]"),
    ],
)
def test_arguments_that_are_spread_or_looked_up(call, expected):
    assert inputs(LOADER % call) == [("call", expected)]


def test_a_dictionary_that_names_a_class_describes_an_instance():
    text = NET + (
        "class Part(nn.Module):\n    def forward(self, x): return x\n"
        "model = dict(type='Net', dim=3, part={'type': 'Part', 'width': 4})\n"
        "other = dict(type=Net, dim=5)\nunknown = dict(type='Else', a=1), dict(model, type='Net'), dict(kind='Net')\n"
        "def test():\n    Net(1)\n"
    )
    described = "Net(dim=3, part={'type': 'Part', 'width': 4})"
    assert constructs(text) == [("call", "Net(1)"), ("call", described), ("call", "Net(dim=5)")]
    assert constructs(text, "Part") == [("call", "Part(width=4)")]


def test_another_name_of_a_class_builds_and_feeds_it():
    text = (
        NET
        + "Short = Net\nOther = 3\n\ndef test():\n    net = Short(dim=5)\n    net(torch.ones(2))\n    Other(dim=7)\n"
    )
    assert constructs(text) == [("call", "Net(dim=5)")]
    assert inputs(text) == [("call", "torch.ones(2)")]


def test_a_base_of_torchs_counts_though_its_import_was_forgotten():
    assert [each.qualname for each in discover("/project/net.py", NET).targets] == ["Net"]


WORDS = "from torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x): ...\n\n"
FILLED = "words = {}\nfor word in ['a', 'b']:\n    if word not in words:\n        words[word] = len(words)\n"


@pytest.mark.parametrize("filled", [FILLED, "words = []\nfor word in 'ab':\n    words.append(word)\n"])
def test_what_the_module_fills_while_it_is_imported_is_named(filled):
    assert constructs(f"{WORDS}{filled}net = Net(len(words)).cuda()\n") == [("instance", "Net(len(words))")]


@pytest.mark.parametrize("head", ["def main():\n", "if __name__ == '__main__':\n"])
def test_what_is_changed_elsewhere_is_not(head):
    body = "    words['a'] = 0\n    net = Net(len(words))\n"
    assert constructs(f"{WORDS}words = {{}}\n{head}{body}") == []


def test_everything_of_a_module_may_be_imported_where_it_is_used():
    text = NET + "if __name__ == '__main__':\n    from library.heads import *\n    Net(3)\n    Net(Head())\n"
    assert constructs(text) == [("call", "Net(3)")]
