"""The same edits, made in torch.fx and in the engine step by step, leave the same graph.

Random programs of edits run on two graphs in lockstep. After each program everything that can be seen of the graphs is compared:
the text, the code, the order, each node's users and inputs, what a lookup finds, and what the checks say.
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
PLACES = {"before", "after", "twice_before", "twice_after"}


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
steps = st.one_of(
    st.tuples(st.just("placeholder"), st.sampled_from(("x", "y", "*args", "relu"))),
    st.tuples(st.just("function"), st.sampled_from(FUNCTIONS), argument_lists, keyword_arguments),
    st.tuples(st.just("method"), st.sampled_from(METHODS), numbers, argument_lists),
    st.tuples(st.just("module"), st.sampled_from(("a", "a.b", "0")), argument_lists),
    st.tuples(st.just("get_attr"), st.sampled_from(("w", "a.w"))),
    st.tuples(st.just("named"), st.sampled_from(("relu", "relu_1", "x", "if", "a b", "t_3")), numbers),
    st.tuples(st.just("before"), numbers, st.sampled_from(FUNCTIONS), numbers),
    st.tuples(st.just("after"), numbers, st.sampled_from(FUNCTIONS), numbers),
    st.tuples(st.just("twice_before"), numbers, st.sampled_from(FUNCTIONS)),
    st.tuples(st.just("twice_after"), numbers, st.sampled_from(FUNCTIONS)),
    st.tuples(st.just("erase"), numbers),
    st.tuples(st.just("move_before"), numbers, numbers),
    st.tuples(st.just("move_after"), numbers, numbers),
    st.tuples(st.just("replace_all"), numbers, numbers),
    st.tuples(st.just("replace_some"), numbers, numbers),
    st.tuples(st.just("replace_input"), numbers, numbers, numbers),
    st.tuples(st.just("set_args"), numbers, argument_lists),
    st.tuples(st.just("set_kwargs"), numbers, keyword_arguments),
    st.tuples(st.just("update_arg"), numbers, numbers, shapes),
    st.tuples(st.just("update_kwarg"), numbers, shapes),
    st.tuples(st.just("insert_arg"), numbers, numbers, shapes),
    st.tuples(st.just("rename"), numbers, st.sampled_from(("relu", "fresh", "x"))),
    st.tuples(st.just("retarget"), numbers, st.sampled_from(FUNCTIONS)),
    st.tuples(st.just("find"), st.sampled_from(FUNCTIONS)),
    st.tuples(st.just("dead_code")),
    st.tuples(st.just("output"), shapes),
)


def pick(nodes, number):
    return nodes[number % len(nodes)]


def apply(twin, step):
    if step[0] not in {"placeholder", "function", "get_attr", "find", "dead_code", "output"} and not twin.nodes:
        return
    if step[0] in PLACES and pick(twin.nodes, step[1])[0]._erased:
        return  # A node that is put beside an erased one is nowhere.
    match step:
        case ("placeholder", name):
            twin.create(lambda g, n: g.placeholder(name))
        case ("function", function, args, kwargs):
            twin.create(
                lambda g, n: g.call_function(
                    function,
                    tuple(argument(n, arg) for arg in args),
                    {key: argument(n, arg) for key, arg in kwargs.items()},
                )
            )
        case ("method", name, first, args):
            twin.create(
                lambda g, n: g.call_method(name, (pick(n, first), *(argument(n, arg) for arg in args)), None, int)
            )
        case ("module", name, args):
            twin.create(lambda g, n: g.call_module(name, tuple(argument(n, arg) for arg in args)))
        case ("get_attr", name):
            twin.create(lambda g, n: g.get_attr(name))
        case ("named", name, first):
            twin.create(lambda g, n: g.create_node("call_method", "clone", (pick(n, first),), None, name))
        case ("before" | "after" as where, place, function, first):

            def insert(g, n):
                point = g.inserting_before if where == "before" else g.inserting_after
                with point(pick(n, place)):
                    return g.call_function(function, (pick(n, first),))

            twin.create(insert)
        case ("twice_before" | "twice_after" as where, place, function):

            def insert_two(g, n):
                point = g.inserting_before if where == "twice_before" else g.inserting_after
                with point(pick(n, place) if place % 5 else None):
                    first = g.call_function(function, (1,))
                    g.call_function(function, (2,))
                    return first

            twin.create(insert_two)
        case ("erase", number):
            twin.run(lambda g, n: g.erase_node(pick(n, number)))
        case ("move_before", a, b):
            twin.run(lambda g, n: None if pick(n, b)._erased or pick(n, a)._erased else pick(n, a).prepend(pick(n, b)))
        case ("move_after", a, b):
            twin.run(lambda g, n: None if pick(n, b)._erased or pick(n, a)._erased else pick(n, a).append(pick(n, b)))
        case ("replace_all", a, b):
            twin.run(lambda g, n: [user.name for user in pick(n, a).replace_all_uses_with(pick(n, b))] and None)
        case ("replace_some", a, b):
            twin.run(
                lambda g, n: pick(n, a).replace_all_uses_with(pick(n, b), lambda user: len(user.name) % 2 == 0) and None
            )
        case ("replace_input", a, b, c):
            twin.run(lambda g, n: pick(n, a).replace_input_with(pick(n, b), pick(n, c)))
        case ("set_args", a, args):
            twin.run(lambda g, n: setattr(pick(n, a), "args", tuple(argument(n, arg) for arg in args)))
        case ("set_kwargs", a, kwargs):
            twin.run(lambda g, n: setattr(pick(n, a), "kwargs", {key: argument(n, arg) for key, arg in kwargs.items()}))
        case ("update_arg", a, index, arg):
            twin.run(lambda g, n: pick(n, a).update_arg(index % 3, argument(n, arg)))
        case ("update_kwarg", a, arg):
            twin.run(lambda g, n: pick(n, a).update_kwarg("alpha", argument(n, arg)))
        case ("insert_arg", a, index, arg):
            twin.run(lambda g, n: pick(n, a).insert_arg(index % 3, argument(n, arg)))
        case ("rename", a, name):
            twin.run(lambda g, n: pick(n, a)._rename(name))
        case ("retarget", a, function):
            twin.run(lambda g, n: setattr(pick(n, a), "target", function) if pick(n, a).op == "call_function" else None)
        case ("find", function):
            twin.run(lambda g, n: g.find_nodes(op="call_function", target=function) and None)
        case ("dead_code",):
            if all(theirs.op != "call_module" for theirs in twin.graphs[0].nodes):
                twin.run(lambda g, n: g.eliminate_dead_code())
        case ("output", result):
            twin.create(lambda g, n: g.output(argument(n, result)))
        case _:
            raise AssertionError(step)


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
