"""The same edits, made in torch.fx and in the engine step by step, leave the same graph.

Random programs of edits run on two graphs in lockstep. After each program everything that can be seen of the graphs is
compared: the text, the code, the order, each node's users and inputs, what a lookup finds, and what the checks say.
"""

import copy
import operator
import warnings
from typing import Any

import pytest
import torch
import torch.fx
import torch.fx.graph_module
import torch.fx.node
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

import fxengine.graph
import fxengine.graph_module
import fxengine.immutable_collections
import fxengine.node

FUNCTIONS = (torch.relu, operator.add, operator.getitem, torch.cat, operator.setitem, torch.rand, torch._assert, len)
METHODS = ("relu", "view", "add")


class Twin:
    """Two graphs that are edited alike, and their nodes by number of creation."""

    def __init__(self) -> None:
        self.graphs: tuple[Any, Any] = (torch.fx.Graph(), fxengine.graph.Graph())
        self.nodes: list[tuple[Any, Any]] = []
        self.errors: list[tuple[Any, Any]] = []

    def run(self, edit) -> Any:
        """Make one edit on both graphs; both do it, or both refuse with the same error."""
        results = []
        for side, graph in enumerate(self.graphs):
            nodes = [pair[side] for pair in self.nodes]
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    outcome: Any = ("done", edit(graph, nodes))
                except (RuntimeError, AssertionError, ValueError, KeyError, IndexError, TypeError) as error:
                    outcome = ("refused", (type(error), str(error)))
            results.append((outcome, [str(warning.message) for warning in warned]))
        (theirs, their_warnings), (ours, our_warnings) = results
        assert ours[0] == theirs[0], (ours, theirs)
        assert our_warnings == their_warnings
        if ours[0] == "refused":
            assert ours[1] == theirs[1]
            return None
        return theirs[1], ours[1]

    def create(self, edit) -> None:
        """Make an edit that returns a node."""
        pair = self.run(edit)
        if pair is not None:
            self.nodes.append(pair)


def argument(nodes, shape):
    """Return an argument of the drawn shape: numbers stand for nodes."""
    match shape:
        case int():
            return nodes[shape % len(nodes)] if nodes else shape
        case ("list", items):
            return [argument(nodes, item) for item in items]
        case ("tuple", items):
            return tuple(argument(nodes, item) for item in items)
        case ("dict", items):
            return {f"k{index}": argument(nodes, item) for index, item in enumerate(items)}
        case ("slice", items):
            return slice(*[argument(nodes, item) for item in items])
        case _:
            return shape


numbers = st.integers(0, 30)
leaves = st.one_of(numbers, st.sampled_from((None, 1.5, "text", torch.float32)))
shapes = st.recursive(
    leaves,
    lambda inner: st.tuples(
        st.sampled_from(("list", "tuple", "dict", "slice")), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)
argument_lists = st.lists(shapes, max_size=3)
keyword_arguments = st.dictionaries(st.sampled_from(("alpha", "dim")), shapes, max_size=2)
functions = st.sampled_from(FUNCTIONS)


def args_of(n, shapes):
    return tuple(argument(n, shape) for shape in shapes)


def kwargs_of(n, shapes):
    return {key: argument(n, shape) for key, shape in shapes.items()}


def insert(g, where, place, function, first):
    with (g.inserting_before if where == "before" else g.inserting_after)(place):
        return g.call_function(function, (first,))


def insert_two(g, where, place, function):
    with (g.inserting_before if where == "before" else g.inserting_after)(place):
        first = g.call_function(function, (1,))
        g.call_function(function, (2,))
        return first


def move(where, place, moved):
    if not place._erased and not moved._erased:
        (place.prepend if where == "before" else place.append)(moved)


sides = st.sampled_from(("before", "after"))
CREATIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "placeholder": ((st.sampled_from(("x", "y", "*args", "relu")),), lambda g, n, name: g.placeholder(name)),
    "function": (
        (functions, argument_lists, keyword_arguments),
        lambda g, n, function, args, kwargs: g.call_function(function, args_of(n, args), kwargs_of(n, kwargs)),
    ),
    "method": (
        (st.sampled_from(METHODS), shapes, argument_lists),
        lambda g, n, name, first, args: g.call_method(name, args_of(n, [first, *args]), None, int),
    ),
    "module": (
        (st.sampled_from(("a", "a.b", "0")), argument_lists),
        lambda g, n, name, args: g.call_module(name, args_of(n, args)),
    ),
    "get_attr": ((st.sampled_from(("w", "a.w")),), lambda g, n, name: g.get_attr(name)),
    "named": (
        (st.sampled_from(("relu", "relu_1", "x", "if", "a b", "t_3")), shapes),
        lambda g, n, name, first: g.create_node("call_method", "clone", (argument(n, first),), None, name),
    ),
    "output": ((shapes,), lambda g, n, result: g.output(argument(n, result))),
}
INSERTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "insert": (
        (sides, functions, numbers),
        lambda g, n, place, where, function, first: insert(g, where, place, function, pick(n, first)),
    ),
    "insert_two": ((sides, functions), lambda g, n, place, where, function: insert_two(g, where, place, function)),
    "insert_two_at_an_end": ((sides, functions), lambda g, n, _, where, function: insert_two(g, where, None, function)),
}
EDITS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "erase": ((), lambda g, n, a: g.erase_node(a)),
    "move": ((sides, numbers), lambda g, n, a, where, b: move(where, a, pick(n, b))),
    "replace_all": ((numbers,), lambda g, n, a, b: a.replace_all_uses_with(pick(n, b)) and None),
    "replace_some": (
        (numbers,),
        lambda g, n, a, b: a.replace_all_uses_with(pick(n, b), lambda user: len(user.name) % 2 == 0) and None,
    ),
    "replace_input": ((numbers, numbers), lambda g, n, a, b, c: a.replace_input_with(pick(n, b), pick(n, c))),
    "set_args": ((argument_lists,), lambda g, n, a, args: setattr(a, "args", args_of(n, args or [0]))),
    "set_kwargs": ((keyword_arguments,), lambda g, n, a, kwargs: setattr(a, "kwargs", kwargs_of(n, kwargs))),
    "update_arg": ((st.integers(0, 2), shapes), lambda g, n, a, index, arg: a.update_arg(index, argument(n, arg))),
    "update_kwarg": ((shapes,), lambda g, n, a, arg: a.update_kwarg("alpha", argument(n, arg))),
    "insert_arg": ((st.integers(0, 2), shapes), lambda g, n, a, index, arg: a.insert_arg(index, argument(n, arg))),
    "rename": ((st.sampled_from(("relu", "fresh", "x")),), lambda g, n, a, name: a._rename(name)),
    "retarget": (
        (functions,),
        lambda g, n, a, function: setattr(a, "target", function) if a.op == "call_function" else None,
    ),
    "find": ((functions,), lambda g, n, _, function: g.find_nodes(op="call_function", target=function) and None),
    "dead_code": (
        (),
        lambda g, n, _: g.eliminate_dead_code() if all(node.op != "call_module" for node in g.nodes) else None,
    ),
}


def strategy(table, *first):
    return [st.tuples(st.just(name), *first, *drawn) for name, (drawn, _) in table.items()]


steps = st.one_of(*strategy(CREATIONS), *strategy(INSERTIONS, numbers), *strategy(EDITS, numbers))


def pick(nodes, number):
    return nodes[number % len(nodes)]


def apply(twin, step):
    """Make the edit that was drawn. Insertions and edits take a node, which they are given by number."""
    name, *drawn = step
    if name in CREATIONS:
        twin.create(lambda g, n: CREATIONS[name][1](g, n, *drawn))
        return
    if not twin.nodes:
        return
    number, *drawn = drawn
    if name in EDITS:
        twin.run(lambda g, n: EDITS[name][1](g, n, pick(n, number), *drawn))
    elif not pick(twin.nodes, number)[0]._erased:  # A node that is put beside an erased one is nowhere.
        twin.create(lambda g, n: INSERTIONS[name][1](g, n, pick(n, number), *drawn))


def describe(graph):
    """Return everything that can be seen of a graph."""
    nodes = list(graph.nodes)
    numbers = {node: index for index, node in enumerate(nodes)}
    return {
        "text": str(graph),
        "length": len(graph.nodes),
        "reversed": [node.name for node in reversed(graph.nodes)],
        "sorted": [node.name for node in sorted(nodes)] == [node.name for node in nodes],
        "users": [[numbers.get(user, user.name) for user in node.users] for node in nodes],
        "inputs": [[numbers.get(used, used.name) for used in node.all_input_nodes] for node in nodes],
        "found": {
            (op, str(target)): [node.name for node in graph.find_nodes(op=op, target=target)]
            for op, target in (
                *(("call_function", function) for function in FUNCTIONS),
                ("call_method", "relu"),
                ("call_method", None),
                ("placeholder", None),
                ("get_attr", "w"),
            )
        },
        "impure": [node.is_impure() for node in nodes if node.op != "call_module"],
        "lint": refusal(graph.lint),
    }


def code(graph):
    try:
        return graph.python_code("self").src
    except IndexError as error:  # An operator with too few operands.
        return str(error)


def refusal(check):
    try:
        check()
    except (RuntimeError, ValueError) as error:
        return type(error), str(error)
    return None


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=25))
def test_edits_in_lockstep(program):
    twin = Twin()
    for step in program:
        apply(twin, step)
    theirs, ours = twin.graphs
    assert describe(ours) == describe(theirs)
    for their_node, our_node in twin.nodes:
        assert our_node._erased == their_node._erased
        assert our_node.name == their_node.name
        assert repr(our_node.args) == repr(their_node.args)
        assert repr(our_node.kwargs) == repr(their_node.kwargs)
    if describe(theirs)["lint"] is None:
        assert describe(copy.deepcopy(ours)) == describe(copy.deepcopy(theirs))
        # Of a graph with nothing but inputs torch.fx makes a function without a body, which is no Python.
        if any(node.op != "placeholder" for node in theirs.nodes):
            assert code(ours) == code(theirs)


aggregates = st.recursive(
    st.one_of(st.integers(-3, 3), st.none(), st.text(max_size=2), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.tuples(inner, inner, inner).map(lambda items: slice(*items)),
        st.lists(inner, max_size=2).map(lambda items: torch.Size(len(str(item)) for item in items)),
    ),
    max_leaves=8,
)


@given(aggregates)
def test_map_aggregate(value):
    def change(leaf):
        return [leaf] if isinstance(leaf, int) else leaf

    theirs = torch.fx.node.map_aggregate(value, change)
    ours = fxengine.node.map_aggregate(value, change)
    assert repr(ours) == repr(theirs)
    assert outline(ours) == outline(theirs)


def outline(value):
    """Return the types in a nested value."""
    match value:
        case dict():
            return type(value).__name__, [outline(item) for item in value.values()]
        case list() | tuple():
            return type(value).__name__, [outline(item) for item in value]
        case slice():
            return "slice", outline((value.start, value.stop, value.step))
        case _:
            return type(value).__name__


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda g, x: g.create_node("foo", "x"), AssertionError, "op 'foo' is not in _legal_ops"),
        (lambda g, x: g.call_function("x"), ValueError, "but a Callable is expected"),
        (lambda g, x: g.create_node("call_method", torch.relu), ValueError, "but a str is expected"),
        (lambda g, x: g.call_function(torch.relu, [x]), AssertionError, "args must be a tuple"),
        (lambda g, x: g.call_function(torch.relu, (x,), [1]), AssertionError, "kwargs must be a dict"),
        (lambda g, x: g.erase_node(type(g)().placeholder("y")), RuntimeError, "from wrong graph"),
        (lambda g, x: x.prepend(type(g)().placeholder("y")), AssertionError, "different Graph"),
        (lambda g, x: x.args.append(1), AttributeError, "append"),
        (lambda g, x: g.call_function(torch.relu, ([x],)).args[0].append(1), TypeError, "new_args"),
        (lambda g, x: x.kwargs.update(a=1), TypeError, "new_args"),
        (lambda g, x: x < 3, TypeError, "'<' not supported"),
        (lambda g, x: x.insert_arg(5, 1), AssertionError, "insert_args index must be"),
        (lambda g, x: g.output_node(), AssertionError, "Expected output node"),
        (lambda g, x: type(g)().output_node(), StopIteration, ""),
        (lambda g, x: g.find_nodes(op="call_function"), AssertionError, "target must not be None"),
        (lambda g, x: g.inserting_before(type(g)().placeholder("y")), AssertionError, "is not in graph"),
        (lambda g, x: g.inserting_after(type(g)().placeholder("y")), AssertionError, "is not in graph"),
        (lambda g, x: type(x)(g, "n", "call_function", 3, (), {}), ValueError, "but a Callable is expected"),
    ],
)
@pytest.mark.parametrize("graph_type", [torch.fx.Graph, fxengine.graph.Graph])
def test_refusals(graph_type, edit, error, message):
    graph = graph_type()
    x = graph.placeholder("x")
    with pytest.raises(error, match=message):
        edit(graph, x)


def test_immutable_collections_are_pytrees():
    for ours, plain in (
        (fxengine.immutable_collections.immutable_list([1, [2, 3]]), [1, [2, 3]]),
        (fxengine.immutable_collections.immutable_dict(a=1, b=2), {"a": 1, "b": 2}),
    ):
        leaves, spec = pytree.tree_flatten(ours)
        assert leaves == pytree.tree_leaves(plain)
        rebuilt = pytree.tree_unflatten(leaves, spec)
        assert rebuilt == plain
        assert type(rebuilt) is type(ours)
        assert pytree.tree_map(lambda x: x + 1, ours) == pytree.tree_map(lambda x: x + 1, plain)
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
        assert [path for path, _ in pytree.tree_leaves_with_path(ours)] == [
            path for path, _ in pytree.tree_leaves_with_path(plain)
        ]
