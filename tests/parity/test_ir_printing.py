"""The same graphs, built by hand in torch.fx and in the engine, print as the same text."""

import enum
import math
import operator
import typing
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
import torch.fx.graph
import torch.fx.graph_module
import torch.fx.immutable_collections
import torch.fx.node
from torch.nn import functional
from torch.utils import _pytree as pytree

import fxengine.graph
import fxengine.graph_module
from fxengine.names import dtype_abbreviation

THEIRS = torch.fx
OURS = fxengine


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Pair(NamedTuple):
    first: Any
    second: Any


class Named:
    """A module's function with this class's name as a qualified name."""

    @staticmethod
    def method(x):
        return x


def user_function(x, y=None):
    return x


def relu(x):
    return x


def add(x, y):
    return x


def straight_line(g):
    x = g.placeholder("x")
    y = g.call_function(torch.relu, (x,))
    g.output(g.call_method("add", (y, x), {"alpha": 2}))


def operators(g):
    a, b = g.placeholder("a"), g.placeholder("b")
    value = a
    for name in sorted(fxengine.graph.magic_methods):
        function = getattr(operator, name, None)
        if function is None:
            continue
        value = g.call_function(function, (value,) if name in {"pos", "neg", "invert"} else (value, b))
    g.output(value)


def inplace_operators(g):
    a, b = g.placeholder("a"), g.placeholder("b")
    for name in sorted(fxengine.graph.inplace_methods):
        function = getattr(operator, name)
        g.call_function(function, (a, b, 3) if name == "setitem" else (a, b))
    g.output(a)


def literals(g):
    x = g.placeholder("x")
    values = (
        1, 2.5, -3, 1e30, math.inf, -math.inf, math.nan, None, True, "it's", 'a "b"', "line\nbreak", b"bytes", 2j, ...,
        torch.float32, torch.device("cpu"), torch.device("cuda", 1), torch.strided, torch.channels_last, range(3),
        [1, [x]], (x,), (), [], {}, {"k": x, "n": [x, 1]}, slice(None), slice(x, 2), slice(1, x, -1), [slice(x, x)],
        Mode.FAST, [Mode.SLOW], Pair(x, 1), [Pair(1, [x])], torch.Size([1, 2]), torch.zeros(2, 3, dtype=torch.int64),
        torch.int8, {"a": {"b": slice(1, 2)}}, int, float, {1: x}, frozenset({1}),
    )  # fmt: skip
    for value in values:
        g.call_function(user_function, (x, value))
        g.call_function(torch.cat, (x,), {"dim": value})
    g.output(x)


def target_functions(g):
    x = g.placeholder("x")
    functions = (
        torch.relu, functional.relu, relu, user_function, torch.Tensor.add, torch.Tensor.relu, torch.nn.Linear, len,
        getattr, math.sqrt, operator.getitem, operator.itemgetter, torch.ops.aten.add.Tensor, torch.ops.aten.add,
        torch.ops.aten.relu.default, torch.add, add, Named.method, torch.device, torch.finfo, torch._C._nn.gelu,
        functional.max_pool2d, torch.nn.init.normal_, torch.manual_seed, torch.unbind, torch.segment_reduce, isinstance,
        torch.Tensor.__add__, torch.utils.checkpoint.checkpoint, print, sum, max,
    )  # fmt: skip
    for function in functions:
        g.call_function(function, (x, 1))
    g.output(x)


def attribute_access(g):
    x = g.placeholder("x")
    g.call_function(getattr, (x, "shape"))
    g.call_function(getattr, (x, "not an identifier"))
    g.call_function(getattr, (x, "maybe", None))
    g.call_function(getattr, ((x, 1), "shape"))
    g.call_method("weird name", (x,))
    g.call_method("a.b", (x, x))
    g.call_method("__add__", (x, x))
    g.output(x)


def names(g):
    g.placeholder("self_")
    x = g.placeholder("x")
    for name in (
        "x",
        "x_1",
        "relu",
        "torch",
        "if",
        "print",
        "1a",
        "a b",
        "",
        "add_5",
        "add",
        "add_5",
        "äß",
        "__init__",
        "inf",
        "x__2",
    ):
        g.create_node("call_function", torch.relu, (x,), {}, name)
    g.create_node("call_function", relu, (x,), {}, "relu_user")
    g.create_node("call_function", add, (x,), {}, None)
    g.create_node("call_method", "ALLCaps", (x,))
    g.create_node("call_method", "camelCaseName", (x,))
    g.call_function(relu, (x,))
    g.call_function(torch.relu, (x,))
    g.output(x)


def a_global_takes_a_local_name(g):
    x = g.placeholder("x")
    module = __name__.replace(".", "_")
    local = g.create_node("call_function", torch.relu, (x,), {}, f"{module}_user_function")
    g.call_function(user_function, (local, {"k": local}, Pair(local, 1)))
    late = g.create_node("call_function", torch.relu, (local,), {}, f"{module}_relu")
    g.call_function(relu, (late, {"k": [late]}))
    g.output((local, late, {"a": late}))


def parameters(g):
    g.placeholder("x", type_expr=torch.Tensor)
    g.placeholder("n", type_expr=int, default_value=3)
    g.placeholder("f", default_value=math.inf)
    g.placeholder("none", default_value=None)
    g.placeholder("mode", default_value=Mode.FAST)
    args, kwargs = g.placeholder("*args"), g.placeholder("**kwargs")
    g.output((args, kwargs), type_expr=tuple[torch.Tensor, int])


def annotations(g):
    kinds = (
        torch.Tensor, int, list[int], typing.List[int], typing.Optional[int], typing.Dict[str, torch.Tensor],  # noqa: UP006, UP045
        int | None, int | str, torch.Tensor | None, tuple[()], typing.Tuple[()], typing.Any, None, "Forward",  # noqa: UP006
        typing.Union[int, torch.Tensor], dict[str, list[int]], typing.Callable[..., int], Pair, Mode, torch.device,  # noqa: UP007
        tuple[int, ...], typing.Tuple[int, ...], torch.nn.Module, type(None), typing.List, list, (),  # noqa: UP006
        typing.Set[int], typing.FrozenSet[int], typing.Sequence[int], torch.dtype,  # noqa: UP006
    )  # fmt: skip
    for index, kind in enumerate(kinds):
        x = g.placeholder(f"x{index}", type_expr=kind)
        g.call_method("clone", (x,), type_expr=kind)
    g.output(None, type_expr=typing.List[torch.Tensor])  # noqa: UP006


def modules_and_attributes(g):
    x = g.placeholder("x")
    for target in ("a", "a.b", "layers.0.weight", "0", "class.def", "a b.c"):
        x = g.call_module(target, (x,), {"k": g.get_attr(target)})
    g.output(x)


def frees(g):
    x, unused = g.placeholder("x"), g.placeholder("unused")
    del unused
    a = g.call_function(torch.add, (x, x))
    b = g.call_function(torch.add, (a, x), {"out": [a, {"x": x}]})
    g.call_function(print, (b,))
    c = g.call_function(torch.add, (a, b))
    g.call_function(operator.setitem, (c, 0, b))
    g.output((c, b))


def wrapped(g):
    x = g.placeholder("x")
    for function in (user_function, relu, user_function):
        node = g.call_function(function, (x,))
        node.meta["is_wrapped"] = True
    g.output(x)


def empty(g):
    del g


def only_output(g):
    g.output(None)


def nested_output(g):
    x = g.placeholder("x")
    g.output({"a": (x, [x, {"b": slice(x, None)}]), "p": Pair(x, x)})


BUILDERS = (
    straight_line, operators, inplace_operators, literals, target_functions, attribute_access, names, parameters,
    a_global_takes_a_local_name, annotations, modules_and_attributes, frees, wrapped, empty, only_output, nested_output,
)  # fmt: skip


def both(build):
    pair = []
    for library in (THEIRS, OURS):
        graph = library.graph.Graph()
        build(graph)
        pair.append(graph)
    return pair


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_graph_as_text(build):
    theirs, ours = both(build)
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_code(build):
    theirs, ours = (graph.python_code("self") for graph in both(build))
    assert ours.src == theirs.src
    assert ours._lineno_map == theirs._lineno_map
    assert ours._prologue_start == theirs._prologue_start
    assert set(ours.globals) == set(theirs.globals)
    for name, value in ours.globals.items():
        assert value is theirs.globals[name] or value == theirs.globals[name] or name == "fx_pytree"


OPTIONS: tuple[dict[str, Any], ...] = (
    {"verbose": True},
    {"verbose": True, "colored": True, "include_stride": True, "include_device": True},
    {"expanded_def": True},
    {"verbose": True, "expanded_def": True, "additional_meta": ["seq_nr", "missing"]},
    {"record_func": True},
    {"colored": True},
)


def annotate(graph):
    """Fill `meta` with what the printer looks at."""
    values = (torch.zeros(2, 3), torch.zeros(4, dtype=torch.bool), None, torch.zeros(2).to_sparse(), 3)
    for index, node in enumerate(graph.nodes):
        node.meta["seq_nr"] = index // 3
        node.meta["desc"] = [f"part {i}" for i in range(3)] if node.op == "output" else f"what {node.name} is"
        if index % 5:
            node.meta["stack_trace"] = f'File "model.py", line {index // 4}, in forward\n    x = x + 1\n'
        if index % 7 == 1:
            node.meta["custom"] = {"long": "z" * 50, "short": index}
        if values[index % 5] is not None:
            node.meta["val" if index % 2 else "example_value"] = values[index % 5]


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_code_for_people(build, options):
    pair = both(build)
    for graph in pair:
        annotate(graph)
    theirs, ours = (graph.python_code("self", **options) for graph in pair)
    assert ours.src == theirs.src
    assert ours._lineno_map == theirs._lineno_map


def test_meta_in_the_code(monkeypatch):
    monkeypatch.setenv("FX_GRAPH_SHOW_META", "1")
    pair = both(frees)
    for graph in pair:
        annotate(graph)
    theirs, ours = (graph.python_code("self") for graph in pair)
    assert ours.src == theirs.src


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_format_node(build):
    theirs, ours = both(build)
    annotate(theirs)
    annotate(ours)
    for their_node, our_node in zip(theirs.nodes, ours.nodes, strict=True):
        assert our_node.format_node() == their_node.format_node()
        assert our_node.format_node(include_tensor_metadata=True) == their_node.format_node(
            include_tensor_metadata=True
        )
        assert repr(our_node.args) == repr(their_node.args)


@pytest.mark.parametrize("library", [torch.fx, fxengine])
def test_format_node_collects_the_signature(library):
    graph = library.Graph()
    inputs = [graph.placeholder("x", int), graph.placeholder("y"), graph.placeholder("z", default_value=3)]
    names, returned = ["self"], [""]
    assert [node.format_node(names) for node in inputs] == [None] * 3
    assert names == ["self", "xx: int", "y", "z"]
    assert graph.output(inputs[0], int).format_node(names, returned) == "return x"
    assert returned == [" -> int"]


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_transformed_body(build):
    """The pieces of text that a transformer gets are the same, and what it returns becomes the same code."""

    def transform(seen):
        def apply(body):
            seen.append(list(body))
            return ["print('hello!')\n", *body, "# the end\n"]

        return lambda _: apply

    pieces, codes = [], []
    for graph in both(build):
        graph.on_generate_code(transform(pieces))
        codes.append(graph.python_code("self"))
    assert pieces[1] == pieces[0]
    assert codes[1].src == codes[0].src
    assert codes[1]._lineno_map == codes[0]._lineno_map


def nested(library, parameters, arguments, *, keywords=None, result=None, annotation=None):
    """Return a graph of the leaves of nested arguments."""
    graph = library.graph.Graph()
    leaves = [
        graph.placeholder(f"leaf_{index}", type_expr=annotation)
        for index in range(len(pytree.tree_leaves((arguments, keywords))))
    ]
    graph.output(leaves)
    in_spec = pytree.tree_structure(arguments if keywords is None else (arguments, keywords))
    out_spec = None if result is None else pytree.tree_structure(result)
    graph.set_codegen(library.graph._PyTreeCodeGen(library.graph._PyTreeInfo(parameters, in_spec, out_spec)))
    return graph


NESTED: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((["self", "x"], (0, [1, 2])), {}),
    ((["x", "y"], ([1, 2], {"a": 3})), {"result": {"a": 1, "b": (2, 3)}}),
    ((["x", "k", "m"], (1,)), {"keywords": {"k": [1], "m": 2}, "result": [1, 2, 3]}),
    ((["x", "y"], (1, (2,))), {"annotation": torch.Tensor}),
    ((["x"], ()), {"result": []}),
)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(("arguments", "options"), NESTED)
def test_code_of_nested_arguments(arguments, options, expanded):
    pair = [nested(library, *arguments, **options) for library in (THEIRS, OURS)]
    for graph in pair:
        graph.output_node().meta["desc"] = [f"part {index}" for index in range(9)]
    theirs, ours = (graph.python_code("self", expanded_def=expanded) for graph in pair)
    assert ours.src == theirs.src
    assert ours._lineno_map == theirs._lineno_map


def test_nested_arguments_are_taken_apart():
    structure = {"a": 1, "b": (2, 3)}
    results = []
    for library in (THEIRS, OURS):
        graph = nested(library, ["x", "k"], (structure,), keywords={"k": [4]}, result=[structure, 0])
        module = library.graph_module.GraphModule({}, graph)
        results.append(module(structure, [4]))
        assert graph.process_outputs(graph.process_inputs(structure, [4])) == module(structure, [4])
        assert module._in_spec == graph._codegen.pytree_info.in_spec
    assert results[1] == results[0] == [structure, 4]


def test_dtypes_in_short():
    for dtype, abbreviation in torch.utils._dtype_abbrs.dtype_abbrs.items():
        if "bits" not in str(dtype):
            assert dtype_abbreviation(dtype) == abbreviation


@pytest.mark.parametrize("library", [THEIRS, OURS], ids=["torch.fx", "fxengine"])
def test_format_arg(library: ModuleType):
    """Long lists are cut, and objects may print themselves."""

    class Custom:
        def _custom_fx_repr_fn(self):
            return "<custom>"

    graph = library.graph.Graph()
    x = graph.placeholder("x")
    format_arg = library.node._format_arg
    assert format_arg([x, 1, 2, 3], max_list_len=2) == "[%x, 1, ...[total_len=4]]"
    assert format_arg((x,), max_list_len=5) == "(%x,)"
    assert format_arg({"k": [x, Custom()]}) == "{k: [%x, <custom>]}"
