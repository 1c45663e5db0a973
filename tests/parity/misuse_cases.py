"""What people do with graphs, modules and tracers by mistake or at the edge, written once for either engine.

Each case is a function of the package, torch.fx or the engine, and returns what it has made or ends with an error.
"""

import copy
import operator
import pickle
import warnings
from collections import namedtuple
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Point = namedtuple("Point", "x y")  # noqa: PYI024 - people have these.


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.deep = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x, y=None):
        x = self.deep(self.fc(x)) * self.scale
        return x + self.shift if y is None else x - y


def traced(fx: ModuleType) -> Any:
    torch.manual_seed(0)
    return fx.symbolic_trace(Net())


def node(gm: Any, name: str) -> Any:
    return next(each for each in gm.graph.nodes if each.name == name)


def _warned(action: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, [str(each.message) for each in caught]


def _failed(action: Callable[[], Any]) -> str:
    try:
        return f"gave {action()}"
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared.
        return f"{type(error).__name__}: {error}"


def wrap_a_number(fx: ModuleType) -> Any:
    return fx.wrap(3)


def wrap_in_a_function(fx: ModuleType) -> Any:
    return fx.wrap("len")


def insert_at_another_graphs_node(fx: ModuleType) -> Any:
    one, other = traced(fx), traced(fx)
    return _failed(lambda: one.graph.inserting_before(node(other, "fc")).__enter__()), _failed(
        lambda: one.graph.inserting_after(node(other, "fc")).__enter__()
    )


def insert_before_the_first(fx: ModuleType) -> Any:
    gm = traced(fx)
    with gm.graph.inserting_before():
        gm.graph.call_function(torch.ones, (2,))
    with gm.graph.inserting_after():
        gm.graph.call_function(torch.zeros, (2,))
    with gm.graph.inserting_before(node(gm, "fc")), gm.graph.inserting_after(node(gm, "mul")):
        gm.graph.call_function(torch.eye, (2,))
    gm.graph.call_function(torch.empty, (2,))
    return str(gm.graph)


def move_nodes(fx: ModuleType) -> Any:
    gm, other = traced(fx), traced(fx)
    fc = node(gm, "fc")
    return [
        _failed(lambda: fc.prepend(fc)),
        _failed(lambda: fc.append(fc)),
        _failed(lambda: fc.append(node(other, "fc"))),
        _failed(lambda: fc.prepend(node(gm, "mul"))),
        _failed(gm.graph.lint),
        str(gm.graph),
    ]


def erase(fx: ModuleType) -> Any:
    gm, other = traced(fx), traced(fx)
    add = node(gm, "add")
    found = [_failed(lambda: gm.graph.erase_node(add)), _failed(lambda: gm.graph.erase_node(node(other, "add")))]
    node(gm, "output").args = (node(gm, "mul"),)
    found.append(_failed(lambda: gm.graph.erase_node(add)))
    found += _warned(lambda: _failed(lambda: gm.graph.erase_node(add)))
    return found, str(gm.graph)


def arguments(fx: ModuleType) -> Any:
    gm = traced(fx)
    add = node(gm, "add")
    return [
        _failed(lambda: add.update_arg(5, 1)),
        _failed(lambda: add.insert_arg(7, 1)),
        _failed(lambda: add.insert_arg(1, 9)),
        _failed(lambda: add.update_kwarg("alpha", node(gm, "fc"))),
        _failed(lambda: add.replace_input_with(node(gm, "fc"), node(gm, "x"))),
        add.args,
        add.kwargs,
        [user.name for user in node(gm, "fc").users],
        _failed(lambda: setattr(add, "args", [1])),
        _failed(lambda: setattr(add, "kwargs", (1,))),
        _failed(lambda: add.args.append(1)),
        _failed(lambda: add.kwargs.update(a=1)),
    ]


def replace_uses(fx: ModuleType) -> Any:
    gm = traced(fx)
    fc, x = node(gm, "fc"), node(gm, "x")
    fc.meta["note"] = [1]
    with gm.graph.inserting_after(fc):
        new = gm.graph.call_function(torch.neg, (fc,))
    changed = fc.replace_all_uses_with(new, lambda user: user is not new, propagate_meta=True)
    other = _failed(lambda: fc.replace_all_uses_with(x, propagate_meta=True))
    return changed, new.meta, other, _failed(lambda: new.replace_all_uses_with(1)), str(gm.graph)


def find(fx: ModuleType) -> Any:
    gm = traced(fx)
    return [
        gm.graph.find_nodes(op="call_function", target=operator.add),
        gm.graph.find_nodes(op="call_module"),
        gm.graph.find_nodes(op="call_module", target="deep.1.0", sort=False),
        gm.graph.find_nodes(op="nothing"),
        _failed(lambda: gm.graph.find_nodes(target="fc")),
        _failed(lambda: gm.graph.find_nodes(op="call_function")),
    ]


def wrong_nodes(fx: ModuleType) -> Any:
    gm = traced(fx)
    graph = gm.graph
    return [
        _failed(lambda: fx.Graph().create_node("call", torch.add)),
        _failed(lambda: fx.Graph().create_node("call_function", "add")),
        _failed(lambda: fx.Graph().create_node("call_method", torch.add)),
        _failed(lambda: fx.Graph().create_node("call_function", torch.add, args=[1])),
        _failed(lambda: fx.Graph().create_node("call_function", torch.add, kwargs=(1,))),
        _warned(lambda: str(graph.get_attr("missing.part"))),
        _warned(lambda: str(graph.get_attr("fc"))),
        _failed(lambda: graph.call_module("missing")),
        _warned(lambda: _failed(lambda: graph.call_module("scale"))),
        _failed(graph.lint),
    ]


def names(fx: ModuleType) -> Any:
    graph = fx.Graph()
    given = ["x", "x", "x_1", "add", "None", "self", "for", "1a", "a.b", "a-b", "torch", "len", "X", "__x", "_", "é"]
    made = [graph.placeholder(each) for each in given]
    made[2].name = "x"
    made[3]._rename("x_7")
    return [(each.name, each.target) for each in made], [
        graph.create_node("call_function", torch.add, (), {}, name=name).name for name in ("add", "x_1_1", "x_1", "x")
    ]


def order(fx: ModuleType) -> Any:
    nodes = list(traced(fx).graph.nodes)
    first, second = nodes[1], nodes[3]
    return [
        first < second,
        first > second,
        operator.le(first, first),
        first >= second,
        [each.name for each in sorted([*nodes[3:], *nodes[:3]])],
        _failed(lambda: first < 1),
        first.next.name,
        first.prev.name,
        len(nodes),
        [each.name for each in reversed(traced(fx).graph.nodes)],
    ]


def lint_errors(fx: ModuleType) -> Any:
    found = []
    for change in (
        lambda gm: setattr(node(gm, "fc"), "target", "nowhere"),
        lambda gm: setattr(node(gm, "fc"), "target", "fc.weight"),
        lambda gm: setattr(node(gm, "scale"), "target", "fc.nothing"),
        lambda gm: node(gm, "fc").append(node(gm, "x")),
        lambda gm: setattr(node(gm, "fc"), "name", "x"),
        lambda gm: setattr(node(gm, "add"), "target", "add"),
        lambda gm: delattr(gm, "fc"),
    ):
        gm = traced(fx)
        found.append((_failed(lambda gm=gm, change=change: change(gm)), _failed(gm.graph.lint)))
    return found


def submodules(fx: ModuleType) -> Any:
    gm = traced(fx)
    found = [
        gm.add_submodule("new", nn.ReLU()),
        gm.add_submodule("deep.1.2", nn.ReLU()),
        gm.add_submodule("a.b.c", nn.ReLU()),
        gm.add_submodule("scale.c", nn.ReLU()),
        gm.add_submodule("fc.weight.c", nn.ReLU()),
        gm.delete_submodule("a.b.missing"),
        gm.delete_submodule("missing.b"),
        gm.delete_submodule("deep.1.2"),
        gm.delete_submodule("scale"),
        _failed(lambda: gm.delete_submodule("")),
    ]
    before = [name for name, _ in gm.named_modules()]
    gm.delete_all_unused_submodules()
    return found, before, [name for name, _ in gm.named_modules()]


def modules_of_parts(fx: ModuleType) -> Any:
    graph = copy.deepcopy(traced(fx).graph)
    found = [_failed(lambda: fx.GraphModule({}, graph)), _failed(lambda: fx.GraphModule(3, graph))]
    parts = {
        "fc": nn.Linear(4, 4),
        "deep.0": nn.ReLU(),
        "deep.1.0": nn.Identity(),
        "deep.1.1": nn.Tanh(),
        "scale": torch.ones(4),
        "shift": torch.ones(4),
        "more": nn.ReLU(),
    }
    gm = fx.GraphModule(parts, graph, "Made")
    found.append(_failed(lambda: setattr(gm, "graph", 3)))
    return found, str(gm), list(gm.state_dict()), [name for name, _ in gm.named_buffers()], type(gm).__name__


def looks(fx: ModuleType) -> Any:
    gm = traced(fx)
    own = sorted(name for name in dir(gm) if not name.startswith("_") and name not in dir(nn.Module))
    return own, gm.print_readable(print_output=False), repr(gm), gm.__class__.__mro__[1].__name__, gm.training


def generated_code(fx: ModuleType) -> Any:
    gm = traced(fx)
    seen = []

    def transform(current: Any) -> Any:
        seen.append(current is None)
        return lambda body: [*(current(body) if current else body), "# changed\n"]

    with gm.graph.on_generate_code(transform):
        gm.recompile()
        inside = gm.code
    gm.recompile()
    return seen, inside, gm.code


def own_code_generator(fx: ModuleType) -> Any:
    package = fx.graph

    class ListCodeGen(package.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return (
                f"def forward(self, args_list: List){maybe_return_annotation}:\n    {', '.join(free_vars)} = args_list"
            )

        def additional_globals(self):
            return [("List", list)]

        def process_inputs(self, *inputs):
            assert len(inputs) == 1
            return inputs[0]

    gm = fx.symbolic_trace(lambda x, y: x + y)
    gm.graph.set_codegen(ListCodeGen())
    gm.recompile()
    values = [torch.ones(2), torch.ones(2)]
    return (
        gm.code,
        gm(values),
        fx.Interpreter(gm).run(values),
        copy.deepcopy(gm)(values),
        gm.graph.process_inputs(values),
    )


def interpret(fx: ModuleType) -> Any:
    gm = traced(fx)
    x = torch.ones(2, 4)
    gone = traced(fx)
    del gone.scale
    environment = {node(gm, "fc"): torch.zeros(2, 4)}
    return [
        _failed(lambda: fx.Interpreter(gm).run()).partition("\n")[0],
        _failed(lambda: fx.Interpreter(gm).run(x, None, x)).partition("\n")[0],
        _failed(lambda: fx.Interpreter(gone).run(x, None)).partition("\n")[0],
        _failed(lambda: fx.Interpreter(gm).run(x, None, initial_env=environment)).partition("\n")[0],
        _failed(lambda: fx.Interpreter(gm).run(x, initial_env={node(gm, "x"): x})).partition("\n")[0],
        fx.Interpreter(gm).boxed_run([x, x]),
        _failed(lambda: fx.Interpreter(gm).boxed_run((x, x))),
    ]


def trace_wrongly(fx: ModuleType) -> Any:
    class Other(nn.Module):
        def forward(self, x, flag=True):
            return x if flag else -x

    return [
        _failed(lambda: fx.symbolic_trace(3)),
        _failed(lambda: fx.symbolic_trace("text")),
        _failed(lambda: str(fx.symbolic_trace(Other(), {"nothing": 1}).graph)),
        _failed(lambda: str(fx.symbolic_trace(Other(), {"flag": False}).graph)),
        _failed(lambda: str(fx.symbolic_trace(Other(), {"x": 2}).graph)),
        _failed(lambda: str(fx.Tracer().trace(Other(), (1, 2)))),
        _failed(lambda: fx.Tracer().path_of_module(nn.ReLU())),
        _failed(lambda: str(fx.symbolic_trace(torch.relu).graph)),
        _failed(lambda: str(fx.symbolic_trace(Other).graph)),
        _failed(lambda: str(fx.symbolic_trace(nn.Sequential()).graph)),
        _failed(lambda: str(fx.symbolic_trace(nn.Module()).graph)),
        _failed(lambda: str(fx.symbolic_trace(Net().fc).graph)),
        _failed(lambda: str(fx.symbolic_trace(Other().forward).graph)),
    ]


def collections_that_do_not_change(fx: ModuleType) -> Any:
    import_ = fx.immutable_collections
    items, table = import_.immutable_list([1, [2]]), import_.immutable_dict({"a": 1})
    leaves, spec = pytree.tree_flatten([items, table])
    return [
        *(
            _failed(lambda name=name: getattr(items, name)(*([0, 1] if name in {"insert", "__setitem__"} else [0])))
            for name in ("append", "insert", "__setitem__", "__delitem__", "remove", "pop", "extend")
        ),
        _failed(items.sort),
        _failed(items.reverse),
        _failed(items.clear),
        _failed(lambda: table.__setitem__("b", 1)),
        _failed(lambda: table.pop("a")),
        _failed(table.popitem),
        _failed(table.clear),
        _failed(lambda: table.setdefault("c", 1)),
        _failed(lambda: hash(items)),
        _failed(lambda: hash(table)),
        type(pickle.loads(pickle.dumps(items))).__name__,
        type(copy.copy(table)).__name__,
        type(copy.deepcopy(items)).__name__,
        type(operator.add(items, [1])).__name__,
        type(table | {"b": 1}).__name__,
        leaves,
        type(pytree.tree_unflatten(leaves, spec)[0]).__name__,
        items == [1, [2]],
        repr(table),
    ]


def mapped(fx: ModuleType) -> Any:
    nodes = list(traced(fx).graph.nodes)
    value = (nodes[0], [nodes[1], {"k": nodes[2]}], slice(nodes[0], None, 2), Point(nodes[1], 1), range(3), None)
    module = fx.node
    seen: list[str] = []
    return [
        module.map_arg(value, lambda each: each.name),
        module.map_aggregate(value, lambda each: each.name if isinstance(each, fx.Node) else each),
        type(module.map_arg([1], lambda each: each)).__name__,
        type(module.map_arg({"a": 1}, lambda each: each)).__name__,
        module.map_arg(value, lambda each: seen.append(each.name)),
        seen,
    ]


def copies(fx: ModuleType) -> Any:
    gm = traced(fx)
    node(gm, "fc").meta["note"] = [1]
    graph = fx.Graph()
    mapping: dict[Any, Any] = {}
    result = graph.graph_copy(gm.graph, mapping, return_output_node=True)
    alone = fx.Graph()
    x = alone.placeholder("x")
    fc = alone.node_copy(node(gm, "fc"), lambda _: x)
    fc.meta["note"].append(2)
    return [
        str(graph),
        str(result),
        fc.meta,
        node(gm, "fc").meta.get("note"),
        copy.deepcopy(gm.graph).find_nodes(op="call_module", target="fc")[0].meta.get("note"),
        _failed(lambda: fx.Graph().node_copy(node(gm, "fc"))),
        _failed(lambda: fx.Graph().graph_copy(gm.graph, {})) is not None,
        gm.graph.owning_module is gm,
        copy.deepcopy(gm.graph).owning_module,
        gm.graph._tracer_cls.__name__,
    ]


def outputs(fx: ModuleType) -> Any:
    gm = traced(fx)
    graph = fx.Graph()
    x = graph.placeholder("x", default_value=1)
    empty = fx.GraphModule(nn.Module(), fx.Graph())
    graph.output((x, [x, {"k": x}]))
    return [
        gm.graph.output_node().name,
        _failed(lambda: fx.Graph().output_node()),
        empty.code,
        empty(),
        fx.GraphModule(nn.Module(), graph).code,
        fx.GraphModule(nn.Module(), graph)(),
        _failed(lambda: str(gm.graph.output(node(gm, "x")))),
        gm.graph.python_code("self").src,
    ]


def proxies(fx: ModuleType) -> Any:
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    x = fx.Proxy(graph.placeholder("x"), tracer)
    y = fx.Proxy(graph.placeholder("y"))
    return [
        repr(x),
        repr(x.shape),
        str((x + 1).node),
        _failed(lambda: bool(x)),
        _failed(lambda: list(x)),
        _failed(lambda: len(x)),
        _failed(lambda: {**x}),
        _failed(lambda: x.__setitem__(0, 1)),
        _failed(lambda: operator.contains([x], x)),
        _failed(lambda: 1 in x),
        _failed(lambda: int(x)),
        _failed(lambda: [1][x]),
        _failed(lambda: hash(x) == hash(x)),
        str(y.relu(2, a=1).node.format_node()),
        str(torch.add(x, y).node.format_node()),
        _failed(lambda: torch.tensor(x)),
        _failed(lambda: round(x)),
        _failed(lambda: x @ 3),
        _failed(lambda: 3 @ x),
        _failed(lambda: divmod(x, 3)),
        str(graph),
    ]


def effects(fx: ModuleType) -> Any:
    def noted(x):
        return x

    graph = fx.Graph()
    x = graph.placeholder("x")
    made = [
        graph.call_function(noted, (x,)),
        graph.call_function(torch._assert, (x, "text")),
        graph.call_function(torch.ops.aten.add_.Tensor, (x, x)),
        graph.call_function(torch.rand, (2,)),
        graph.call_method("add_", (x, 1)),
        graph.call_function(operator.iadd, (x, 1)),
        graph.call_function(torch.nn.functional.relu, (x,), {"inplace": True}),
        graph.call_function(operator.setitem, (x, 0, 1)),
    ]
    before = [each.is_impure() for each in made]
    random = [each.is_impure(impure_random=False) for each in made]
    fx.node.has_side_effect(noted)
    after = made[0].is_impure()
    fx.node._side_effectful_functions.discard(noted)
    graph.output(x)
    changed = graph.eliminate_dead_code(is_impure_node=lambda each: each.target == "add_")
    return before, random, after, changed, str(graph)


def placeholders(fx: ModuleType) -> Any:
    with_meta = fx._symbolic_trace.PHWithMeta(ph_key="key")
    return [
        repr(fx.PH),
        type(with_meta).__name__,
        vars(with_meta),
        _failed(lambda: fx._symbolic_trace.PHWithMeta(1)),
        str(fx.symbolic_trace(lambda a: a["k"] + a["j"], {"a": {"k": with_meta, "j": fx.PH}}).graph),
    ]


def replaced_patterns(fx: ModuleType) -> Any:
    replace = fx.subgraph_rewriter.replace_pattern

    def pair(x, y):
        return x + y, x * y

    gm = fx.symbolic_trace(lambda x, y: torch.relu(x + y).neg() - (x + y))
    return [
        [(match.anchor.name, len(match.nodes_map)) for match in replace(gm, lambda a, b: a + b, lambda a, b: a - b)],
        gm.code,
        _failed(lambda: replace(gm, lambda a: a.neg(), lambda a, b: a + b)),
        _failed(lambda: replace(gm, pair, lambda x, y: x)),
        _failed(lambda: replace(gm, lambda a: a, lambda a: a.neg())),
        gm.code,
    ]


def compiled_methods(fx: ModuleType) -> Any:
    gm = traced(fx)
    gm.extra = 3
    gm.meta["note"] = 1
    again = pickle.loads(pickle.dumps(gm))
    duplicate = copy.deepcopy(gm)
    shallow = copy.copy(gm)
    return [
        getattr(again, "extra", None),
        getattr(duplicate, "extra", None),
        getattr(shallow, "extra", None),
        again.meta,
        duplicate.meta,
        shallow.meta,
        shallow.graph is gm.graph,
        shallow.fc is gm.fc,
        type(duplicate) is type(gm),
        type(gm).forward is type(duplicate).forward,
        gm.eval().training,
        gm.train().deep.training,
        [name for name, _ in gm.named_parameters()],
    ]


CASES: dict[str, Callable[[ModuleType], Any]] = {
    case.__name__: case
    for case in (
        wrap_a_number,
        wrap_in_a_function,
        insert_at_another_graphs_node,
        insert_before_the_first,
        move_nodes,
        erase,
        arguments,
        replace_uses,
        find,
        wrong_nodes,
        names,
        order,
        lint_errors,
        submodules,
        modules_of_parts,
        looks,
        generated_code,
        own_code_generator,
        interpret,
        trace_wrongly,
        collections_that_do_not_change,
        mapped,
        copies,
        outputs,
        proxies,
        effects,
        placeholders,
        replaced_patterns,
        compiled_methods,
    )
}
