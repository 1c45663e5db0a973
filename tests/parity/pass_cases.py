"""What people do with torch.fx's passes and experiments, written once for whichever package has them.

Each case is a function of `load`, which returns a module of torch.fx by name, torch.fx's or another engine's, and
returns what it has made: graph modules, names, numbers, texts.
"""

import io
import operator
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils import _pytree as pytree

Load = Callable[[str], Any]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.scale = nn.Parameter(torch.full((8, 1, 1), 2.0))
        self.register_buffer("shift", torch.ones(1))

    def forward(self, x, gain=1.0):
        y = self.relu(self.norm(self.conv(x))) * self.scale + self.shift
        pooled = functional.adaptive_avg_pool2d(y, 1).flatten(1)
        a, b = torch.split(self.drop(pooled), [4, 4], dim=1)
        c = torch.cat([a + b, a - b], dim=1) * gain
        return {"logits": self.head(c), "rest": (c.sum(), a.neg())}


class Folded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.arange(4.0))
        self.b = nn.Parameter(torch.ones(4))
        self.inner = nn.Module()
        self.inner.weight = nn.Parameter(torch.full((4, 4), 0.5))

    def forward(self, x):
        scale = self.a * 2 + self.b
        weight = self.inner.weight.t() + scale
        return functional.linear(x, weight) + scale.sum(), torch.sigmoid(self.b)


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x, y):
        a = self.first(x)
        b = torch.relu(a)
        c = torch.sin(y)
        d = b + c
        e = self.second(d)
        return torch.cos(e), d * 2


def make(kind: type[nn.Module] = Net) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


def traced(load: Load, kind: type[nn.Module] = Net) -> Any:
    return load("torch.fx").symbolic_trace(make(kind))


IMAGE = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
ROW = torch.linspace(-1, 1, 8).reshape(2, 4)


def shapes(load: Load) -> Any:
    gm = traced(load)
    result = load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate(IMAGE)
    return gm, result, [(n.name, n.meta.get("tensor_meta"), n.meta.get("type")) for n in gm.graph.nodes]


def fake_shapes(load: Load) -> Any:
    gm = traced(load)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    load("torch.fx.passes.fake_tensor_prop").FakeTensorProp(gm, mode).propagate(IMAGE)
    return [(n.name, str(n.meta.get("val"))) for n in gm.graph.nodes]


def split_in_three(load: Load) -> Any:
    gm = traced(load, Chain)
    place = {"x": 0, "y": 0, "first": 0, "relu": 1, "sin": 0, "add": 1, "second": 2, "cos": 2, "mul": 1}
    labels: dict[str, str] = {}
    split = load("torch.fx.passes.split_module").split_module(
        gm, make(Chain), lambda node: place.get(node.name, 0), labels
    )
    return split, labels, split(ROW, ROW)


def split_keeping_order(load: Load) -> Any:
    gm = traced(load, Chain)
    place = {"first": "a", "relu": "b", "sin": "b", "add": "b", "second": "c", "cos": "c", "mul": "d"}
    return load("torch.fx.passes.split_module").split_module(
        gm, make(Chain), lambda node: place.get(node.name), keep_original_order=True, partition_affix="part"
    )


def split_with_a_circle(load: Load) -> Any:
    gm = traced(load, Chain)
    place = {"first": 0, "relu": 1, "sin": 0, "add": 0, "second": 1, "cos": 0, "mul": 1}
    return load("torch.fx.passes.split_module").split_module(gm, make(Chain), lambda node: place.get(node.name, 0))


def split_simply(load: Load) -> Any:
    def forward(x, y):
        a = torch.relu(x) + y.sin()
        return torch.cos(a), a * 2

    gm = load("torch.fx").symbolic_trace(forward)
    ids = {node: index // 3 for index, node in enumerate(gm.graph.nodes) if node.op.startswith("call")}
    split = load("torch.fx.passes.split_module").split_module_simple(gm, ids, partition_affix="piece")
    return split.code, {name: part.code for name, part in split.named_children()}, split(ROW, ROW)


def split_by_tags(load: Load) -> Any:
    gm = traced(load, Chain)
    for node in gm.graph.nodes:
        node.tag = {"first": "red", "relu": "red", "sin": "blue"}.get(node.name, "green")
    result, mapping = load("torch.fx.passes.split_utils").split_by_tags(
        gm, ["red", "blue", "green"], return_fqn_mapping=True
    )
    return result, mapping, result(ROW, ROW)


def partitions(load: Load) -> Any:
    gm = traced(load)
    support = load("torch.fx.passes.operator_support")

    class Supported(support.OperatorSupport):
        def is_node_supported(self, submodules, node):
            return node.op == "call_function" and node.target in {operator.add, operator.mul, operator.sub, torch.cat}

    partitioner = load("torch.fx.passes.infra.partitioner").CapabilityBasedPartitioner(
        gm, Supported(), allows_single_node_partition=True
    )
    proposed = partitioner.propose_partitions()
    nodes = [sorted(node.name for node in part.nodes) for part in proposed]
    partitioner.remove_bookend_non_compute_ops(proposed)
    fused = partitioner.fuse_partitions(proposed)
    return nodes, fused, fused(IMAGE)


def partitioned_by_chain(load: Load) -> Any:
    gm = traced(load)
    support = load("torch.fx.passes.operator_support")
    only = support.OperatorSupport({"torch.nn.modules.conv.Conv2d": None, "_operator.add": ((None, None), {})})
    named = support.OpSupports.decline_if_node_in_names({"add_1"})
    some = support.chain(only, named)
    either = support.any_chain(some, support.create_op_support(lambda _, node: node.name == "cat"))
    modules = dict(gm.named_modules())
    return [(n.name, either.is_node_supported(modules, n), some.is_node_supported(modules, n)) for n in gm.graph.nodes]


def fused_by_hand(load: Load) -> Any:
    gm = traced(load, Chain)
    fuser = load("torch.fx.passes.utils.fuser_utils")
    by_name = {node.name: node for node in gm.graph.nodes}
    parts = [{by_name["relu"]: None, by_name["add"]: None, by_name["mul"]: None}]
    ok = fuser.validate_partition([by_name["first"], by_name["second"]])
    order = [node.name for node in fuser.topo_sort([by_name["mul"], by_name["add"], by_name["relu"]])]
    sub, inputs, outputs = fuser.fuse_as_graphmodule(gm, order and list(parts[0]), "piece")
    fused = fuser.fuse_by_partitions(gm, parts)
    return ok, order, sub, [n.name for n in inputs], [n.name for n in outputs], fused, fused(ROW, ROW)


def lifted(load: Load) -> Any:
    gm = traced(load)
    graph, copies = load("torch.fx").Graph(), {}
    graph.output(graph.graph_copy(gm.graph, copies))
    common = load("torch.fx.passes.utils.common")
    module, mapping = common.lift_subgraph_as_module(gm, graph, "part", "Lifted")
    return module, mapping, common.compare_graphs(gm.graph, module.graph)


def common_subexpressions(load: Load) -> Any:
    def forward(x, y):
        a = torch.ops.aten.add.Tensor(x, y)
        b = torch.ops.aten.add.Tensor(x, y)
        r = torch.ops.aten.rand_like.default(x) + torch.ops.aten.rand_like.default(x)
        return torch.ops.aten.mul.Tensor(a, b) + r

    gm = load("torch.fx").symbolic_trace(forward)
    module = load("torch.fx.passes.dialect.common.cse_pass")
    result = module.CSEPass(module.get_CSE_banned_ops())(gm)
    return result.graph_module, result.modified


def pass_managers(load: Load) -> Any:
    infra, old = load("torch.fx.passes.infra.pass_manager"), load("torch.fx.passes.pass_manager")
    base = load("torch.fx.passes.infra.pass_base")

    class AddToMul(base.PassBase):
        def call(self, graph_module):
            changed = False
            for node in graph_module.graph.nodes:
                if node.target is operator.add:
                    node.target, changed = operator.mul, True
            return base.PassResult(graph_module, changed)

    def mul_to_sub(graph_module):
        for node in graph_module.graph.nodes:
            if node.target is operator.mul:
                node.target = operator.sub
        return base.PassResult(graph_module, True)

    gm = traced(load, Chain)
    passes = [mul_to_sub, AddToMul()]
    manager = infra.PassManager(passes, [infra.this_before_that_pass_constraint(passes[1], passes[0])])
    manager.add_checks(lambda module: None)
    manager.solve_constraints()
    result = manager(gm)
    names = [getattr(each, "__name__", type(each).__name__) for each in manager.passes]
    other = old.PassManager([old.inplace_wrapper(lambda module: module.recompile())])
    return result.graph_module, result.modified, names, other(traced(load, Chain))


def constraints_in_a_circle(load: Load) -> Any:
    infra = load("torch.fx.passes.infra.pass_manager")
    one, two = (lambda module: None), (lambda module: None)
    order = infra.this_before_that_pass_constraint
    infra.PassManager([one, two], [order(one, two), order(two, one)]).solve_constraints()


def matches(load: Load) -> Any:
    gm = traced(load)

    def pattern(x, y):
        return torch.cat([x + y, x - y], dim=1)

    graph = load("torch.fx").symbolic_trace(pattern).graph
    matcher = load("torch.fx.passes.utils.matcher_utils").SubgraphMatcher(graph, match_output=False)
    found = matcher.match(gm.graph)
    return [
        (
            [n.name for n in m.anchors],
            {k.name: v.name for k, v in m.nodes_map.items()},
            [n.name for n in m.returning_nodes],
        )
        for m in found
    ]


def named_matches(load: Load) -> Any:
    def pattern(x, y):
        added = x + y
        relu = torch.relu(added)
        return relu, {"added": added, "relu": relu}

    def target(a, b):
        return torch.relu(a + b) * 2

    trace, graph = load("torch.fx").symbolic_trace, load("torch.fx.graph")
    traced_pattern = trace(pattern)
    _, inputs = pytree.tree_flatten((0, 0))
    _, outputs = pytree.tree_flatten((0, {"added": 0, "relu": 0}))
    leaves = pytree.tree_leaves(traced_pattern.graph.output_node().args[0])
    traced_pattern.graph.output_node().args = (leaves,)
    traced_pattern.graph.set_codegen(graph._PyTreeCodeGen(graph._PyTreeInfo(["x", "y"], inputs, outputs)))
    traced_pattern.recompile()
    module = load("torch.fx.passes.utils.matcher_with_name_node_map_utils")
    matcher = module.SubgraphMatcherWithNameNodeMap(traced_pattern)
    return [{k: v.name for k, v in m.name_node_map.items()} for m in matcher.match(trace(target).graph)]


def replaced_patterns(load: Load) -> Any:
    rewriter = load("torch.fx.subgraph_rewriter")
    gm = traced(load)

    def pattern(x, y):
        return torch.cat([x + y, x - y], dim=1)

    def replacement(x, y):
        return torch.cat([x * 2, y], 1)

    found = rewriter.replace_pattern(gm, pattern, replacement)
    gm.graph.lint()
    return gm, [(m.anchor.name, {k.name: v.name for k, v in m.nodes_map.items()}) for m in found], gm(IMAGE)


def replaced_with_filters(load: Load) -> Any:
    rewriter = load("torch.fx.subgraph_rewriter")

    def forward(x):
        return (x + 1).relu() + (x + 2).relu()

    gm = load("torch.fx").symbolic_trace(forward)
    found = rewriter.replace_pattern_with_filters(
        gm,
        lambda x, k: (x + k).relu(),
        lambda x, k: torch.clamp(x + k, min=0),
        [lambda match, original, pattern: 2 in next(iter(match.nodes_map[match.anchors[0]].all_input_nodes)).args],
        ignore_literals=False,
    )
    return gm, [[n.name for n in each.replacements] for each in found], gm(ROW)


def source_partitions(load: Load) -> Any:
    gm = traced(load)
    for node in gm.graph.nodes:
        if node.op == "call_module":
            node.meta["source_fn_stack"] = [(node.name, type(gm.get_submodule(node.target)))]
        elif node.op == "call_function":
            node.meta["source_fn_stack"] = [(node.name, node.target)]
    source = load("torch.fx.passes.utils.source_matcher_utils")
    found = source.get_source_partitions(gm.graph, [nn.Linear, torch.cat, operator.add])
    return {
        str(kind): [
            (sorted(n.name for n in p.nodes), sorted(n.name for n in p.input_nodes), [n.name for n in p.output_nodes])
            for p in parts
        ]
        for kind, parts in found.items()
    }


def sizes(load: Load) -> Any:
    gm = traced(load, Chain)
    load("torch.fx.passes.graph_manipulation").get_size_of_all_nodes(gm, [ROW, ROW])
    return [(n.name, tuple(n.size_bytes)) for n in gm.graph.nodes if hasattr(n, "size_bytes")]


def sizes_without_shapes(load: Load) -> Any:
    load("torch.fx.passes.graph_manipulation").get_size_of_all_nodes(traced(load))


def replaced_targets(load: Load) -> Any:
    gm = traced(load)
    load("torch.fx.passes.graph_manipulation").replace_target_nodes_with(
        gm, "call_function", operator.add, "call_function", operator.mul
    )
    return gm


def parameters_for_lowering(load: Load) -> Any:
    gm = traced(load, Chain)
    load("torch.fx.passes.param_fetch").lift_lowering_attrs_to_nodes(gm)
    return [(n.name, str(getattr(n, "attrs_for_lowering", None))) for n in gm.graph.nodes]


def acc_names(load: Load) -> Any:
    tools = load("torch.fx.passes.tools_common")
    gm = traced(load)
    modules = dict(gm.named_modules())
    named = [(n.name, tools.get_node_target(modules, n)) for n in gm.graph.nodes if n.op.startswith("call")]
    load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate(IMAGE)
    acc = {n for n in gm.graph.nodes if n.op.startswith("call")}
    fusions = tools.FxNetAccFusionsFinder(gm, acc)()
    return (
        named,
        sorted((k.name, sorted(n.name for n in v)) for k, v in fusions.items()),
        [(n.name, tools.is_node_output_tensor(n)) for n in gm.graph.nodes],
    )


def put_in_order(load: Load) -> Any:
    gm = traced(load, Chain)
    by_name = {node.name: node for node in gm.graph.nodes}
    by_name["x"].prepend(by_name["sin"])
    by_name["first"].prepend(by_name["relu"])
    tools = load("torch.fx.passes.tools_common")
    first = tools.legalize_graph(gm)
    gm.recompile()
    code = gm.code
    by_name["first"].prepend(by_name["mul"])
    tools.stable_topological_sort(gm)
    gm.recompile()
    gm.graph.lint()
    return first is gm, code, gm


def getitems_annotated(load: Load) -> Any:

    graph = load("torch.fx").Graph()
    x = graph.placeholder("x", type_expr=tuple[int, str])
    graph.output((graph.call_function(operator.getitem, (x, 0)), graph.call_function(operator.getitem, (x, 1))))
    load("torch.fx.passes.annotate_getitem_nodes").annotate_getitem_nodes(graph)
    return [(n.name, str(n.type)) for n in graph.nodes]


def constants_folded(load: Load) -> Any:
    gm = load("torch.fx.experimental.const_fold").split_const_subgraphs(make(Folded))
    before = str(sorted(gm.state_dict()))
    gm.run_folding()
    return gm, before, gm.const_subgraph_module, gm(ROW)


def constants_folded_of_a_graph(load: Load) -> Any:
    gm = traced(load, Folded)
    folded = load("torch.fx.experimental.const_fold").split_const_subgraphs(
        gm, skip_folding_node_fn=lambda node: node.name == "t"
    )
    return folded, folded(ROW)


def nothing_to_fold(load: Load) -> Any:
    gm = load("torch.fx.experimental.const_fold").split_const_subgraphs(make(Chain))
    gm.run_folding()
    return gm, gm(ROW, ROW)


def convolutions_fused(load: Load) -> Any:
    optimization = load("torch.fx.experimental.optimization")
    fused = optimization.fuse(make())
    bare = optimization.remove_dropout(make())
    heads = optimization.extract_subgraph(make(Chain), *_first_nodes(load))
    return fused, bare, fused(IMAGE), heads


def _first_nodes(load: Load) -> Any:
    gm = traced(load, Chain)
    nodes = [n for n in gm.graph.nodes if n.name in {"first", "relu"}]
    return nodes, [n for n in gm.graph.nodes if n.name == "x"], nodes[-1:]


def products_merged(load: Load) -> Any:
    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.arange(16.0).reshape(4, 4))

        def forward(self, x, y):
            return torch.matmul(x, self.w) + torch.matmul(y, self.w)

    gm = load("torch.fx.experimental.merge_matmul").merge_matmul(Products())
    return gm, gm(ROW, ROW)


def arguments_normalized(load: Load) -> Any:
    normalize = load("torch.fx.experimental.normalize")
    gm = normalize.NormalizeArgs(traced(load)).transform()
    positional = normalize.NormalizeArgs(traced(load), normalize_to_only_use_kwargs=False).transform()
    operators = normalize.NormalizeOperators(traced(load)).transform()
    return gm, positional, operators, gm(IMAGE)


def annotated_with_schemas(load: Load) -> Any:
    schema = load("torch.fx.experimental.schema_type_annotation")
    gm = schema.AnnotateTypesWithSchema(traced(load)).transform()
    return gm, [(n.name, str(n.type)) for n in gm.graph.nodes]


class Asserting(nn.Module):
    def forward(self, x):
        assert x.sum() > 0, "positive"
        return x * 2


def rewritten_asserts(load: Load) -> Any:
    rewriter = load("torch.fx.experimental.rewriter")
    tracer = rewriter.RewritingTracer()
    graph = tracer.trace(Asserting())
    return load("torch.fx").GraphModule(tracer.root, graph)


def traced_on_meta(load: Load) -> Any:
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            if x.shape[0] > 1:
                x = x + torch.zeros(x.shape[1])
            return torch.relu(self.fc(x)).view(x.size(0), -1)

    gm = load("torch.fx.experimental.meta_tracer").symbolic_trace(
        Sized(), meta_args={"x": torch.empty(2, 4, device="meta")}
    )
    return gm, [(n.name, str(n.meta)) for n in gm.graph.nodes if n.meta and "tensor_meta" in n.meta]


def on_devices(load: Load) -> Any:
    gm = traced(load, Chain)
    load("torch.fx.passes.graph_manipulation").get_size_of_all_nodes(gm, [ROW, ROW])
    tools = load("torch.fx.experimental.partitioner_utils")
    partitioner = load("torch.fx.experimental.accelerator_partitioner").Partitioner()
    devices = [tools.Device(f"dev_{index}", 250, index) for index in range(3)]
    result = partitioner.partition_graph(gm, make(Chain), tools.PartitionerConfig(devices))
    dag = [
        (str(node), [n.name for n in node.input_nodes], [n.name for n in node.output_nodes], node.size_bytes)
        for node in result.dag.nodes
    ]
    return result.module_with_submodules, dag, result.module_with_submodules(ROW, ROW)


def by_cost(load: Load) -> Any:
    gm = traced(load, Chain)
    load("torch.fx.passes.graph_manipulation").get_size_of_all_nodes(gm, [ROW, ROW])
    tools = load("torch.fx.experimental.partitioner_utils")
    latency = {n: tools.NodeLatency(1.0, 2.0) for n in gm.graph.nodes if n.op.startswith("call")}
    config = tools.PartitionerConfig(
        [tools.Device(f"dev_{index}", 500, index) for index in range(2)],
        mode=tools.PartitionMode.cost_aware,
        transfer_rate_bytes_per_sec=100,
        node_to_latency_mapping=latency,
    )
    partitioner = load("torch.fx.experimental.accelerator_partitioner").Partitioner()
    result = partitioner.partition_graph(gm, make(Chain), config)
    return result.module_with_submodules, result.module_with_submodules(ROW, ROW)


def types_checked(load: Load) -> Any:
    tensor_type = load("torch.fx.tensor_type")
    gm = traced(load, Checked)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            node.type = tensor_type.TensorType((2, 3, 8, tensor_type.Dyn))
    checker = load("torch.fx.experimental.graph_gradual_typechecker").GraphTypeChecker({}, gm)
    verdict = checker.type_check()
    return verdict, [(n.name, str(n.type)) for n in gm.graph.nodes]


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.fc = nn.Linear(2, 5)

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        return self.fc(torch.add(self.pool(y), self.pool(y)))


def types_refined(load: Load) -> Any:
    tensor_type = load("torch.fx.tensor_type")
    checker = load("torch.fx.experimental.graph_gradual_typechecker")
    gm = traced(load, Checked)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            node.type = tensor_type.TensorType((2, 3, tensor_type.Dyn, 8))
    checker.GraphTypeChecker({}, gm).type_check()
    load("torch.fx.experimental.unify_refinements").infer_symbolic_types(gm)
    return [(n.name, str(n.type)) for n in gm.graph.nodes]


def observed(load: Load) -> Any:
    observer = load("torch.fx.passes.graph_transform_observer").GraphTransformObserver

    def swap(graph):
        for node in graph.find_nodes(op="call_function", target=torch.sin):
            with graph.inserting_after(node):
                new = graph.call_function(torch.cos, node.args)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
        return len(graph.nodes)

    gm = traced(load, Chain)
    count = observer(gm, "swap").apply_graph_pass(swap)
    module = observer(gm, "clean").apply_gm_pass(lambda module: module)
    sources = [(n.name, [source.name for source in n.meta.get("from_node", [])]) for n in gm.graph.nodes]
    return count, module is gm, gm, sources


def accelerated(load: Load) -> Any:
    splitter = load("torch.fx.passes.splitter_base")
    support = load("torch.fx.passes.operator_support")

    class Splitter(splitter._SplitterBase):
        def _lower_model_to_backend(self, mod, inputs):
            return mod

    class Supported(support.OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return node.target in {torch.relu, operator.add, "first", torch.cos}

    gm = traced(load, Chain)
    load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate(ROW, ROW)
    settings = splitter._SplitterSettingBase(min_acc_module_size=1)
    made = Splitter(gm, (ROW, ROW), Supported(), settings)
    with redirect_stdout(io.StringIO()) as printed:
        preview = made.node_support_preview()
    result = made.generate_split_results()
    split = result.split_module
    return preview, printed.getvalue(), split, split(ROW, ROW), made.get_node_submodule_map(), result.submodule_inputs


def minimized(load: Load) -> Any:
    minimizer = load("torch.fx.passes.net_min_base")

    class Minimizer(minimizer._MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            return mod(*inputs)

        def run_b(self, mod, inputs, report_idx=-1):
            wrong = any(n.target is torch.sin for n in mod.graph.nodes)
            result = mod(*inputs)
            return [each + 1 for each in result] if wrong and isinstance(result, tuple) else result + wrong

    gm = traced(load, Chain)

    def compare(a, b, names):
        return 0.0, bool(torch.equal(a, b))

    settings = minimizer._MinimizerSettingBase(traverse_method="sequential", return_intermediate=False)
    made = Minimizer(gm, (ROW, ROW), compare, settings)
    with redirect_stdout(io.StringIO()):
        return sorted(node.name for node in made.minimize())


def reinplaced(load: Load) -> Any:
    make_fx = torch.fx.experimental.proxy_tensor.make_fx

    def forward(x):
        y = x.clone()
        z = torch.ops.aten.add.Tensor(y, 1)
        view = torch.ops.aten.view.default(z, [-1])
        return torch.ops.aten.mul.Tensor(view, 2)

    gm = make_fx(forward)(ROW)
    graph = load("torch.fx").Graph()
    copies: dict[Any, Any] = {}
    for node in gm.graph.nodes:
        copies[node] = graph.create_node(
            node.op,
            node.target,
            torch.fx.map_arg(node.args, copies.__getitem__),
            torch.fx.map_arg(node.kwargs, copies.__getitem__),
            node.name,
        )
    ours = load("torch.fx").GraphModule(gm, graph)
    return load("torch.fx.passes.reinplace").reinplace(ours, ROW), ours(ROW)


CASES: dict[str, Callable[[Load], Any]] = {
    name: case
    for name, case in list(globals().items())
    if list(getattr(case, "__annotations__", {}).items()) == [("load", Load), ("return", Any)] and name[0] != "_"
}
