"""Splitting and partitioning: the same submodules, with the same code, as torch.fx makes; the same numbers."""

import itertools
import random
from types import SimpleNamespace

import pytest
import torch
import torch.fx
from torch import nn
from torch.fx.passes import operator_support as their_support
from torch.fx.passes import split_module as their_split
from torch.fx.passes import split_utils as their_tags
from torch.fx.passes import tools_common as their_tools
from torch.fx.passes.infra import partitioner as their_partitioner
from torch.fx.passes.shape_prop import ShapeProp as TheirShapeProp

from fxengine._symbolic_trace import symbolic_trace
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.passes import operator_support, split_module, split_utils, tools_common
from fxengine.passes.infra import partitioner
from fxengine.passes.shape_prop import ShapeProp

OURS = SimpleNamespace(
    trace=symbolic_trace,
    split_module=split_module,
    tags=split_utils,
    support=operator_support,
    partitioner=partitioner,
    tools=tools_common,
    shape_prop=ShapeProp,
    graph=Graph,
    module=GraphModule,
)
THEIRS = SimpleNamespace(
    trace=torch.fx.symbolic_trace,
    split_module=their_split,
    tags=their_tags,
    support=their_support,
    partitioner=their_partitioner,
    tools=their_tools,
    shape_prop=TheirShapeProp,
    graph=torch.fx.Graph,
    module=torch.fx.GraphModule,
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.rand(3, 4))
        self.register_buffer("shift", torch.ones(4))
        self.linear = nn.Linear(4, 5)
        self.inner = nn.Sequential(nn.Linear(5, 5), nn.ReLU())

    def forward(self, x, y=None, scale=2.0):
        z = self.linear(x + self.param).clamp(min=0.0, max=1.0)
        w = self.linear(x * self.shift).clamp(min=0.0, max=1.0)
        parts = torch.split(self.inner(z), [2, 3], 1)
        return {"sum": z + w * scale, "parts": (parts[0], parts[1]), "param": self.param, "input": x}


def code_of(module):
    """The code of a module and of all graph modules in it."""
    return {path: part.code for path, part in module.named_modules() if hasattr(part, "code")}


def by_counter(numbers):
    """A callback that gives nodes the numbers in turn."""
    assigned = {}
    counter = itertools.count()

    def number_of(node):
        if node not in assigned:
            assigned[node] = numbers[next(counter) % len(numbers)]
        return assigned[node]

    return number_of


OPTIONS = [
    {},
    {"keep_original_order": True},
    {"keep_original_node_name": True},
    {"keep_original_input_name": False},
    {"partition_affix": "pp"},
    {"tuple_return": True},
    {"keep_original_order": True, "keep_original_node_name": True, "tuple_return": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "numbers", [[0], [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2], [0, 0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 3, 3]], ids=str
)
def test_split_module(numbers, options):
    module = Net()
    maps = {}

    def split(engine):
        names = maps[engine is OURS] = {}
        return engine.split_module.split_module(engine.trace(module), module, by_counter(numbers), names, **options)

    ours, theirs = split(OURS), split(THEIRS)
    assert code_of(ours) == code_of(theirs)
    assert maps[True] == maps[False]
    assert ours.meta["partition_names"] == theirs.meta["partition_names"]
    x = torch.randn(3, 4)
    assert torch.equal(ours(x)["sum"], module(x)["sum"])


def test_random_splits_of_a_chain_with_branches():
    def forward(x):
        a = torch.relu(x)
        b = torch.neg(a)
        c = torch.sin(a) + b
        d = torch.cos(x)
        return torch.cat([a + d, c], 0), b

    generator = random.Random(0)
    for _ in range(30):
        numbers = [generator.randrange(3) for _ in range(8)]

        def split(engine, numbers=numbers):
            try:
                return code_of(
                    engine.split_module.split_module(engine.trace(forward), nn.Module(), by_counter(numbers))
                )
            except RuntimeError as error:
                return str(error)

        assert split(OURS) == split(THEIRS)


def test_parts_that_need_each_other():
    def forward(x):
        return torch.relu(torch.neg(torch.relu(x)))

    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        split_module.split_module(symbolic_trace(forward), nn.Module(), by_counter([0, 1, 0]))


def with_switches(engine):
    """A graph that switches gradients and autocast, with a mark between each two parts."""
    graph = engine.graph()
    x = graph.placeholder("x")
    a = graph.call_function(torch.relu, (x,))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    entered = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, False))
    b = graph.call_function(torch.neg, (a,))
    c = graph.call_function(torch.sin, (b,))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (entered,))
    d = graph.call_function(torch.cos, (c,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(graph.call_function(torch.add, (d, a)))
    return engine.module(nn.Module(), graph)


@pytest.mark.parametrize("numbers", [[0] * 9, [0, 0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 1, 1, 2, 3, 3, 4, 4]], ids=str)
def test_switches_of_global_state_are_repeated(numbers):
    def split(engine):
        return engine.split_module.split_module(with_switches(engine), nn.Module(), by_counter(numbers))

    ours = split(OURS)
    assert code_of(ours) == code_of(split(THEIRS))
    assert torch.equal(ours(torch.ones(2)), with_switches(OURS)(torch.ones(2)))


def test_switches_need_parts_in_order():
    with pytest.raises(AssertionError, match="monotonically increasing"):
        split_module.split_module(with_switches(OURS), nn.Module(), by_counter([1, 0, 0, 0, 0, 0, 0, 0, 0]))


def test_the_simple_split():
    def forward(x):
        return torch.relu(torch.neg(x)) + 1

    def split(engine):
        traced = engine.trace(forward)
        calls = [node for node in traced.graph.nodes if node.op == "call_function"]
        return engine.split_module.split_module_simple(traced, {node: index // 2 for index, node in enumerate(calls)})

    assert code_of(split(OURS)) == code_of(split(THEIRS))


class Tagged(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(2, 3)
        self.linear2 = nn.Linear(4, 5)
        self.linear3 = nn.Linear(8, 7)
        self.weight = nn.Parameter(torch.ones(7))

    def forward(self, x1, x2):
        a = self.linear1(x1)
        b = self.linear2(x2) * 2
        c = torch.cat([a, b], 1)
        return self.linear3(c) * self.weight, a, self.weight


@pytest.mark.parametrize("return_tuple", [False, True])
@pytest.mark.parametrize("tags", [["red"] * 5 + ["blue"], ["red", "red", "red", "green", "green", "blue"]], ids=str)
def test_split_by_tags(tags, return_tuple):
    module = Tagged()

    def split(engine):
        traced = engine.trace(module)
        calls = (node for node in traced.graph.nodes if node.op.startswith("call"))
        for node, tag in zip(calls, tags, strict=True):
            node.tag = tag
        return engine.tags.split_by_tags(traced, list(dict.fromkeys(tags)), True, return_tuple)

    (ours, our_names), (theirs, their_names) = split(OURS), split(THEIRS)
    assert code_of(ours) == code_of(theirs)
    assert our_names == their_names
    x1, x2 = torch.randn(3, 2), torch.randn(3, 4)
    assert all(map(torch.equal, ours(x1, x2), module(x1, x2)))


def test_a_node_without_tag_and_a_wrong_order():
    traced = symbolic_trace(Tagged())
    with pytest.raises(AssertionError, match="Node does not have tag: %linear1"):
        split_utils.split_by_tags(traced, ["a"])
    for node in traced.graph.nodes:
        node.tag = "second" if node.name == "linear1" else "first"
    with pytest.raises(AssertionError, match="Component first order must be >= max"):
        split_utils.split_by_tags(traced, ["first", "second"])


def test_attributes_by_dotted_names():
    module = nn.Sequential(nn.ModuleList([nn.Linear(2, 2)]))
    assert split_utils.getattr_recursive(module, "0.0.weight") is module[0][0].weight
    assert split_utils.getattr_recursive(module, "0.1.weight") is None
    assert split_utils.getattr_recursive(module, "0.0.missing") is None
    split_utils.setattr_recursive(module, "0.0.bias", None)
    assert module[0][0].bias is None


class Sizes(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        n = y.size(0)
        return y.view(n, -1) + 1


def test_nodes_that_make_no_tensor_move_over_the_border():
    traced = symbolic_trace(Sizes())
    ShapeProp(traced).propagate(torch.randn(2, 3, 4))
    relu, size, view, add = [node for node in traced.graph.nodes if node.op.startswith("call")]
    first = SimpleNamespace(is_acc=True, nodes=[relu, size])
    second = SimpleNamespace(is_acc=False, nodes=[view, add])
    split_utils.move_non_tensor_nodes_on_boundary([first, second])
    assert (first.nodes, second.nodes) == ([relu], [view, add, size])


GRAPHS = {
    "chain": lambda a, b: torch.relu(torch.add(torch.add(a, b), torch.sin(a)) + b),
    "diamond": lambda a, b: torch.add(torch.relu(torch.add(a, b)), torch.add(torch.add(a, b), a)),
    "branches": lambda a, b: (torch.add(a, torch.relu(b)), torch.add(b, torch.relu(a)), torch.add(a, b)),
    "items": lambda a, b: torch.add(torch.split(torch.add(a, b), 1)[0], torch.split(a, 1)[1]),
    "islands": lambda a, b: torch.add(torch.sin(torch.add(torch.sin(torch.add(a, b)), a)), torch.add(b, b)),
    "horizontal": lambda a, b: torch.sin(torch.add(a, 1)) + torch.sin(torch.add(b, 2)) + torch.add(a, b),
}


@pytest.mark.parametrize("skip_horizontal", [False, True])
@pytest.mark.parametrize("singles", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_partitions_by_capability(name, singles, skip_horizontal):
    def partition(engine):
        traced = engine.trace(GRAPHS[name])
        supported = engine.support.create_op_support(
            lambda _modules, node: getattr(node.target, "__name__", "") in {"add", "getitem", "split"}
        )
        made = engine.partitioner.CapabilityBasedPartitioner(
            traced, supported, allows_single_node_partition=singles, skip_horizontal_fusion=skip_horizontal
        )
        parts = made.propose_partitions()
        names = [[node.name for node in part.nodes] for part in parts]
        return names, code_of(made.fuse_partitions(parts))

    assert partition(OURS) == partition(THEIRS)


def test_random_graphs_are_partitioned_alike():
    generator = random.Random(1)
    for _ in range(40):
        recipe = [(generator.choice(("relu", "neg")), generator.random(), generator.random()) for _ in range(12)]

        def partition(engine, recipe=recipe):
            traced = engine.trace(Follow(recipe))
            supported = engine.support.create_op_support(lambda _modules, node: node.target in {torch.add, torch.neg})
            made = engine.partitioner.CapabilityBasedPartitioner(traced, supported, allows_single_node_partition=True)
            return [[node.name for node in part.nodes] for part in made.propose_partitions()]

        found = partition(OURS)
        assert found == partition(THEIRS)


class Follow(nn.Module):
    """Does what its recipe says."""

    def __init__(self, recipe):
        super().__init__()
        self.recipe = recipe

    def forward(self, x):
        values = [x]
        for name, first, second in self.recipe:
            a, b = values[int(first * len(values))], values[int(second * len(values))]
            values.append(torch.neg(a) if name == "neg" else torch.add(torch.relu(a), b))
        return tuple(values[-3:])


def test_bookends_are_removed():
    def forward(x):
        return torch.sigmoid(torch.permute(torch.relu(torch.permute(x, (1, 0))), (1, 0)))

    def partition(engine):
        traced = engine.trace(forward)
        supported = engine.support.create_op_support(lambda _modules, node: node.target in {torch.permute, torch.relu})
        made = engine.partitioner.CapabilityBasedPartitioner(
            traced, supported, allows_single_node_partition=True, non_compute_ops=["torch.permute"]
        )
        parts = made.propose_partitions()
        made.remove_bookend_non_compute_ops(parts)
        return [[node.name for node in part.nodes] for part in parts]

    assert partition(OURS) == partition(THEIRS) == [["relu"]]


def test_fused_partitions_compute_the_same():
    module = Tagged()
    traced = symbolic_trace(module)
    supported = operator_support.create_op_support(lambda _modules, node: node.op == "call_module")
    fused = partitioner.CapabilityBasedPartitioner(
        traced, supported, allows_single_node_partition=True
    ).partition_and_fuse()
    x1, x2 = torch.randn(3, 2), torch.randn(3, 4)
    assert all(map(torch.equal, fused(x1, x2), module(x1, x2)))


def test_support_by_types_of_arguments():
    def forward(x, y):
        return torch.add(x, y), torch.add(y, y), torch.mul(x, x), x.relu()

    def answers(engine):
        traced = engine.trace(forward)
        engine.shape_prop(traced).propagate(torch.randn(2), torch.ones(2, dtype=torch.int32))
        table = engine.support.OperatorSupport(
            {
                "torch.add": (([torch.float32], None), {}),
                "torch.mul": None,
            }
        )
        rules = [
            table,
            engine.support.OpSupports.decline_if_input_dtype(torch.int32),
            engine.support.OpSupports.decline_if_node_in_names({"mul"}),
            engine.support.chain(table, engine.support.OpSupports.decline_if_node_in_names({"mul"})),
            engine.support.any_chain(table, engine.support.OpSupports.decline_if_node_in_names({"mul"})),
        ]
        return [[rule.is_node_supported({}, node) for node in traced.graph.nodes] for rule in rules]

    assert answers(OURS) == answers(THEIRS)


def test_sorting():
    def disordered(engine):
        traced = engine.trace(lambda x: torch.relu(x) + torch.neg(x) * 2)
        relu = next(node for node in traced.graph.nodes if node.name == "relu")
        add = next(node for node in traced.graph.nodes if node.name == "add")
        add.append(relu)
        return traced

    for sort in ("legalize_graph", "stable_topological_sort"):
        ours, theirs = (getattr(engine.tools, sort)(disordered(engine)) for engine in (OURS, THEIRS))
        assert [node.name for node in ours.graph.nodes] == [node.name for node in theirs.graph.nodes]
        ours.graph.lint()


def test_groups_that_exchange_more_than_tensors():
    def groups(engine):
        traced = engine.trace(Sizes())
        engine.shape_prop(traced).propagate(torch.randn(2, 3, 4))
        nodes = {node for node in traced.graph.nodes if node.op.startswith("call")}
        found = engine.tools.FxNetAccFusionsFinder(traced, nodes)()
        return {node.name: sorted(other.name for other in group) for node, group in found.items()}

    assert groups(OURS) == groups(THEIRS)


def test_names_of_what_is_called():
    def names(engine):
        module = Net()
        traced = engine.trace(module)
        submodules = dict(traced.named_modules())
        return [
            engine.tools.get_node_target(submodules, node) for node in traced.graph.nodes if node.op.startswith("call")
        ]

    assert names(OURS) == names(THEIRS)
