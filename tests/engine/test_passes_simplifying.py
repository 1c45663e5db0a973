"""Passes that make graphs smaller, what runs them, and what draws them."""

from types import SimpleNamespace

import pytest
import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import const_fold as their_fold
from torch.fx.experimental import optimization as their_optimization
from torch.fx.experimental import rewriter as their_rewriter
from torch.fx.passes import param_fetch as their_fetch
from torch.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes as their_annotate
from torch.fx.passes.dialect.common import cse_pass as their_cse
from torch.fx.passes.fake_tensor_prop import FakeTensorProp as TheirFakeTensorProp
from torch.fx.passes.utils import source_matcher_utils as their_sources

from fxengine._symbolic_trace import symbolic_trace
from fxengine.annotate import annotate
from fxengine.experimental import const_fold, optimization, rewriter
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.passes import graph_manipulation, param_fetch, pass_manager
from fxengine.passes.annotate_getitem_nodes import annotate_getitem_nodes
from fxengine.passes.dialect.common import cse_pass
from fxengine.passes.fake_tensor_prop import FakeTensorProp
from fxengine.passes.graph_drawer import FxGraphDrawer
from fxengine.passes.infra import pass_manager as infra
from fxengine.passes.infra.pass_base import PassBase, PassResult
from fxengine.passes.shape_prop import ShapeProp
from fxengine.passes.utils import source_matcher_utils
from fxengine.tracer import Tracer

OURS = SimpleNamespace(
    trace=symbolic_trace, cse=cse_pass, fold=const_fold, optimization=optimization, fetch=param_fetch
)
THEIRS = SimpleNamespace(
    trace=torch.fx.symbolic_trace,
    cse=their_cse,
    fold=their_fold,
    optimization=their_optimization,
    fetch=their_fetch,
)

REPEATED = {
    "twice": lambda x: torch.relu(x) + torch.relu(x),
    "through others": lambda x: (x * 2 + 1).sum() + (x * 2 + 1).sum(),
    "nested arguments": lambda x: torch.cat([x, x], 0) + torch.cat([x, x], 0),
    "keywords": lambda x: x.sum(dim=0) + x.sum(dim=0) + x.sum(dim=1),
    "nothing": lambda x: torch.relu(x) + torch.neg(x),
}


@pytest.mark.parametrize("name", REPEATED)
def test_common_subexpressions(name):
    ours, theirs = (engine.cse.CSEPass()(engine.trace(REPEATED[name])) for engine in (OURS, THEIRS))
    assert ours.modified == theirs.modified
    assert ours.graph_module.code == theirs.graph_module.code
    x = torch.randn(3, 3)
    assert torch.equal(ours.graph_module(x), REPEATED[name](x))


def test_slices_are_compared():
    def forward(x):
        return x[:, 1:] + x[:, 1:] + x[:, :-1]

    merged = cse_pass.CSEPass()(symbolic_trace(forward)).graph_module
    assert [node.name for node in merged.graph.nodes if node.name.startswith("getitem")] == ["getitem", "getitem_2"]


def test_what_must_not_be_merged_is_not():
    def forward(x):
        y = x * 1 + x * 1.0 + x * True
        return y, torch.rand_like(x), torch.rand_like(x), torch.neg(x).add_(1), torch.neg(x).add_(1)

    merged = cse_pass.CSEPass()(symbolic_trace(forward))
    names = [node.name for node in merged.graph_module.graph.nodes if node.op.startswith("call")]
    assert [name for name in names if name.startswith("mul")] == ["mul", "mul_1", "mul_2"]
    assert "add__1" in names
    module = nn.Sequential(nn.Dropout(), nn.Dropout())
    module[1] = module[0]
    twice = symbolic_trace(lambda x: x)
    assert not cse_pass.CSEPass()(twice).modified
    banned = cse_pass.CSEPass({torch.relu})(symbolic_trace(REPEATED["twice"]))
    assert not banned.modified
    assert torch.ops.aten.rand in cse_pass.get_CSE_banned_ops()


class Constant(nn.Module):
    def __init__(self, several=False):
        super().__init__()
        self.a = nn.Parameter(torch.randn(3))
        self.b = nn.Parameter(torch.randn(3))
        self.linear = nn.Linear(3, 3)
        self.several = several

    def forward(self, x, y):
        constant = self.a + self.b
        scaled = self.linear(x) * constant
        return scaled + (self.b * 2 if self.several else 1) - y * self.a


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("several", [False, True])
def test_constants_are_folded(several):
    module = Constant(several)
    ours, theirs = (engine.fold.split_const_subgraphs(engine.trace(module)) for engine in (OURS, THEIRS))
    assert isinstance(ours, GraphModule)
    assert ours.const_subgraph_module is not None
    assert ours.code == theirs.code
    assert ours.fx_const_folded_attrs_name == theirs.fx_const_folded_attrs_name == "_FX_CONST_FOLDED_ATTRS"
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    assert not ours.has_folding_been_run
    torch.testing.assert_close(ours(x, y), module(x, y))
    assert ours.has_folding_been_run
    assert isinstance(ours._FX_CONST_FOLDED_ATTRS, nn.ParameterList if several else nn.Parameter)
    torch.testing.assert_close(ours(x, y), module(x, y))
    with pytest.raises(AssertionError, match="already been run"):
        ours.run_folding()


def test_folding_leaves_the_module_and_what_it_is_told_to():
    module = Constant()
    traced = symbolic_trace(module)
    before = traced.code
    folded = const_fold.split_const_subgraphs(traced, skip_folding_node_fn=lambda node: node.name == "add")
    assert folded.const_subgraph_module is None
    const_fold.split_const_subgraphs(traced)
    assert traced.code == before
    assert not hasattr(traced, "_FX_CONST_FOLDED_ATTRS")


def test_nothing_to_fold():
    folded = const_fold.split_const_subgraphs(nn.Linear(3, 3))
    assert folded.const_subgraph_module is None
    assert folded(torch.ones(1, 3)).shape == (1, 3)


@pytest.mark.parametrize("name", ["a", "a.b-c", "1x", "fc_3"])
def test_unique_names_of_attributes(name):
    module = nn.Module()
    module.a = module.fc_3 = module.a_b_c = module.a_b_c_1 = 1
    assert const_fold.get_unique_attr_name_in_module(module, name) == their_fold.get_unique_attr_name_in_module(
        module, name
    )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(8)
        self.drop = nn.Dropout()
        self.fc = nn.Linear(8, 4)
        self.bn3 = nn.BatchNorm1d(4)
        self.shared = nn.Conv2d(8, 8, 1)
        self.bn4 = nn.BatchNorm2d(8)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = x + self.bn2(self.conv2(x))
        x = self.bn4(self.shared(x)) + self.shared(x)
        return self.bn3(self.fc(self.drop(x).mean((2, 3))))


def trained(module):
    """The module with statistics that are not those of its beginning."""
    module.train()
    for _ in range(3):
        module(torch.randn(4, 3, 8, 8) * 2 + 1)
    return module.eval()


def test_batch_norms_are_folded_into_what_comes_before():
    module = trained(Residual())
    x = torch.randn(2, 3, 8, 8)
    expected = module(x)
    fused = optimization.fuse(module)
    torch.testing.assert_close(fused(x), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module(x), expected)
    kinds = [type(fused.get_submodule(node.target)).__name__ for node in fused.graph.find_nodes(op="call_module")]
    assert kinds.count("BatchNorm2d") == 1  # The one behind the convolution that is used twice.
    assert kinds.count("BatchNorm1d") == 0
    in_place = optimization.fuse(symbolic_trace(module), inplace=True, no_trace=True)
    torch.testing.assert_close(in_place(x), expected, rtol=1e-4, atol=1e-5)


def test_dropout_is_removed():
    module = Residual()
    ours, theirs = (engine.optimization.remove_dropout(module) for engine in (OURS, THEIRS))
    assert ours.code == theirs.code
    assert "drop" not in ours.code


def test_a_subgraph_as_a_module():
    def extract(engine):
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        traced = engine.trace(module)
        first, second, third = [node for node in traced.graph.nodes if node.op == "call_module"]
        return engine.optimization.extract_subgraph(traced, [second, third], [first], [third])

    assert extract(OURS).code == extract(THEIRS).code


def test_parameters_for_lowering():
    def fetch(engine):
        traced = engine.trace(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)))
        engine.fetch.lift_lowering_attrs_to_nodes(traced)
        return [node.attrs_for_lowering.keys() for node in traced.graph.nodes if node.op == "call_module"]

    assert fetch(OURS) == fetch(THEIRS)
    with pytest.raises(RuntimeError, match="not in the module_fetch_book"):
        param_fetch.extract_attrs_for_lowering(nn.GELU())


def test_types_of_items():
    class Pair(nn.Module):
        def forward(self, x: tuple[torch.Tensor, int], y: list[torch.Tensor], z: tuple[int, ...], other):
            return x[0], x[1], y[0], z[3], other[0]

    ours, theirs = symbolic_trace(Pair()), torch.fx.symbolic_trace(Pair())
    annotate_getitem_nodes(ours.graph)
    their_annotate(theirs.graph)
    assert [node.type for node in ours.graph.nodes] == [node.type for node in theirs.graph.nodes]


def test_fake_tensors_are_propagated():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    ours, theirs = symbolic_trace(module), torch.fx.symbolic_trace(module)
    FakeTensorProp(ours, FakeTensorMode(allow_non_fake_inputs=True)).propagate(torch.randn(2, 3))
    TheirFakeTensorProp(theirs, FakeTensorMode(allow_non_fake_inputs=True)).propagate(torch.randn(2, 3))
    for mine, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert mine.meta["val"].shape == other.meta["val"].shape
        assert type(mine.meta["val"]) is type(other.meta["val"])
        assert mine.tensor is not None


def adds(gm):
    """Turns additions into multiplications."""
    changed = False
    for node in gm.graph.nodes:
        if node.target is torch.add:
            node.target = torch.mul
            changed = True
    return PassResult(gm, changed)


class Checked(PassBase):
    def requires(self, graph_module):
        assert graph_module.graph.find_nodes(op="output")

    def call(self, graph_module):
        return adds(graph_module)

    def ensures(self, graph_module):
        graph_module.graph.lint()


def test_passes_run_until_nothing_changes():
    runs = []

    def counting(gm):
        runs.append(gm)
        return PassResult(gm, len(runs) < 3)

    manager = infra.PassManager([adds, counting, Checked()], steps=10)
    result = manager(symbolic_trace(lambda x: torch.add(x, x)))
    assert result.modified
    assert "torch.mul" in result.graph_module.code
    assert len(runs) == 3


def test_passes_are_brought_into_order():
    def first(gm):
        return PassResult(gm, False)

    def second(gm):
        return PassResult(gm, False)

    rules = [infra.this_before_that_pass_constraint(first, second)]
    manager = infra.PassManager([second, first], rules)
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager.validate_constraints()
    manager.solve_constraints()
    assert manager.passes == [first, second]
    rules.append(infra.this_before_that_pass_constraint(second, first))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        infra.PassManager([second, first], rules).solve_constraints()


def test_failures_of_passes_say_which():
    def broken(gm):
        raise ValueError("no")

    traced = symbolic_trace(lambda x: x)
    with pytest.raises(Exception, match=r"running the 'broken' pass after the following passes: \['adds'\]") as caught:
        infra.PassManager([adds, broken])(traced)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(Exception, match="running the 'no_result' pass"):
        infra.PassManager([no_result])(traced)
    assert infra.PassManager([infra.pass_result_wrapper(no_result)])(traced).modified


def no_result(gm):
    gm.seen = True


def test_checks_run_after_each_pass():
    checked = []
    manager = infra.PassManager([adds, adds], run_checks_after_each_pass=True)
    manager.add_checks(checked.append)
    manager(symbolic_trace(lambda x: x))
    assert len(checked) == 3
    with pytest.raises(TypeError, match="only take in one variable"):
        manager.add_checks(lambda a, b: None)


def test_the_older_manager():
    def double(numbers):
        numbers.append(2 * numbers[-1])

    wrapped = pass_manager.inplace_wrapper(pass_manager.log_hook(double))
    until = pass_manager.loop_pass(wrapped, predicate=lambda numbers: numbers[-1] < 16)
    manager = pass_manager.PassManager.build_from_passlist([wrapped, until])
    manager.add_constraint(pass_manager.these_before_those_pass_constraint(double, double))
    assert pass_manager.PassManager([wrapped, pass_manager.loop_pass(wrapped, n_iter=2)])([1]) == [1, 2, 4, 8]
    assert pass_manager.PassManager([until])([1]) == [1, 2, 4, 8, 16]
    with pytest.raises(AssertionError, match="Exactly one"):
        pass_manager.loop_pass(wrapped)
    manager.remove_pass(["double"])
    assert manager.passes == []


def test_drawings():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.inner = symbolic_trace(nn.Sequential(nn.ReLU()))
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return torch.clamp(self.inner(self.conv(x)), min=0.5) * self.scale

    class KeepInner(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, GraphModule) or super().is_leaf_module(m, module_qualified_name)

    module = Net()
    traced = GraphModule(module, KeepInner().trace(module))
    with traced.graph.inserting_before(traced.graph.output_node()):
        traced.graph.call_function(print, ("a|{b}",))
    ShapeProp(traced).propagate(torch.randn(1, 3, 8, 8))
    drawer = FxGraphDrawer(traced, 'a "net"', parse_stack_trace=True, normalize_args=True)
    text = drawer.get_dot_graph().to_string()
    assert text.startswith('digraph "a \\"net\\"" {')
    assert '"conv.weight" -> "conv";' in text
    assert '"conv" -> "inner";' in text
    assert r"shape=(1, 4, 6, 6)\n" in text
    assert r"test_passes_simplifying.py" in text
    assert r"a\|\{b\}" in text
    assert list(drawer.get_all_dot_graphs()) == ['a "net"', 'a "net"_inner']
    assert '"input_1" -> "_0";' in drawer.get_dot_graph("inner").to_string()
    small = FxGraphDrawer(traced, "n", ignore_getattr=True, ignore_parameters_and_buffers=True).get_main_dot_graph()
    assert [node.name for node in small.nodes if "scale" in node.name or "weight" in node.name] == []


class Asserting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        assert x.shape[0] > 1, "a batch of one"
        return self.inner(x)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        assert x.dim() == 2
        return self.fc(x)


def test_asserts_are_recorded():
    module = Asserting()
    tracer = rewriter.RewritingTracer()
    graph = tracer.trace(module)
    traced = GraphModule(tracer.root, graph)
    flat = Inner()
    assert [(node.name, node.op) for node in rewriter.RewritingTracer().trace(flat).nodes] == [
        (node.name, node.op) for node in their_rewriter.RewritingTracer().trace(flat).nodes
    ]
    x = torch.randn(2, 2)
    assert torch.equal(traced(x), module(x))
    with pytest.raises(AssertionError, match="a batch of one"):
        traced(torch.randn(1, 2))
    check = next(node for node in graph.nodes if node.target is torch._assert)
    frame = check.origin.frames[-1]
    assert (frame.line, frame.text) == (
        Asserting.forward.__code__.co_firstlineno + 1,
        'assert x.shape[0] > 1, "a batch of one"',
    )
    assert type(module.inner) is Inner


def test_functions_with_closures_are_rewritten():
    limit = 3

    def forward(x, factor=2):
        assert x.shape[0] < limit
        return x * factor

    traced = symbolic_trace(rewriter.AST_Rewriter().rewrite(forward))
    assert "torch._assert" in traced.code or "_assert" in traced.code
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]


def test_types_of_local_variables_are_recorded():
    def forward(x):
        y: torch.Tensor = x + 1
        z: int  # noqa: F842 - no value is no assignment.
        return y

    traced = symbolic_trace(rewriter.AST_Rewriter().rewrite(forward))
    assert next(node for node in traced.graph.nodes if node.name == "add").type is torch.Tensor


def test_a_type_is_given_once():
    def forward(x: torch.Tensor):
        return annotate(x, int)

    with pytest.raises(RuntimeError, match="already had a type"):
        symbolic_trace(forward)
    assert annotate(3, int) == 3


def test_nodes_by_what_they_were():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.b(torch.nn.functional.relu(self.a(x))))

    exported = torch.export.export(Net(), (torch.randn(2, 3),), strict=False).module()

    def partitions(matcher, graph):
        found = matcher.get_source_partitions(graph, [nn.Linear, "relu"])
        linear = found[nn.Linear]
        return (
            {str(source): [[node.name for node in part.nodes] for part in parts] for source, parts in found.items()},
            [sorted(node.name for node in part.input_nodes) for part in linear],
            [[node.name for node in part.output_nodes] for part in linear],
            matcher.check_subgraphs_connected(linear[0], linear[1]),
        )

    ours = from_torch_graph(exported.graph)
    assert partitions(source_matcher_utils, ours) == partitions(their_sources, exported.graph)


def from_torch_graph(graph):
    """Our graph with the same nodes; attributes are not needed here."""
    copy, copies = Graph(), {}
    for node in graph.nodes:
        copies[node] = copy.create_node(
            node.op,
            node.target,
            torch.fx.node.map_aggregate(
                node.args, lambda value: copies.get(value, value) if isinstance(value, torch.fx.Node) else value
            ),
            dict(node.kwargs),
            node.name,
        )
        copies[node].meta = dict(node.meta)
    return copy


def test_targets_are_exchanged_and_sizes_counted():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    traced = symbolic_trace(lambda x: torch.relu(x) + torch.relu(x))
    graph_manipulation.replace_target_nodes_with(traced, "call_function", torch.relu, "call_function", torch.neg)
    assert traced.code.count("torch.neg") == 2
    traced = symbolic_trace(module)
    graph_manipulation.get_size_of_all_nodes(traced, [torch.randn(2, 3)])
    sizes = [node.size_bytes for node in traced.graph.nodes if node.op == "call_module"]
    assert sizes == [(2 * 4 * 4, (8 + 16) * 4), (32, 32)]
    with pytest.raises(RuntimeError, match="no tensor metadata"):
        graph_manipulation.get_size_of_all_nodes(symbolic_trace(module))
