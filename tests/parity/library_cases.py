"""What torch's own libraries do with torch.fx, written once for whichever engine they run on.

Each case is a function of `load`, which returns a module by name: the installed one, or a copy that takes another
engine for torch.fx. It returns what it has made.
"""

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.quantize_fx
import torch.fx
from torch import nn
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch.ao import quantization
from torch.ao.quantization.backend_config import get_native_backend_config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from fxengine.interop import from_torch_fx

Load = Callable[[str], Any]
FX = "torch.ao.quantization.quantize_fx"


class Small(nn.Module):
    """Most of what quantization has patterns for: convolutions with norms, functions with weights, shared modules."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 8, 1, bias=False)
        self.fc = nn.Linear(8, 8)
        self.head = nn.Sequential(nn.Linear(16, 8), nn.Hardswish(), nn.LayerNorm(8), nn.Linear(8, 4))
        self.weight = nn.Parameter(torch.linspace(-1, 1, 64).reshape(8, 8))

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        y = self.relu(y + self.conv2(y)) * 0.5
        y = functional.adaptive_avg_pool2d(y, 1).flatten(1)
        z = functional.relu(functional.linear(y, self.weight))
        a = torch.cat([self.fc(y), self.fc(z)], dim=1)
        return self.head(a), z.sigmoid() @ y.t()


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.body(x).mean([2, 3]))


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 8)
        self.third = nn.Linear(8, 2, bias=False)

    def forward(self, x):
        return self.third(functional.relu(self.second(torch.relu(self.first(x)))))


class Untraceable(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 1)
        self.middle = Untraceable()
        self.alone = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU())
        self.note = "kept"

    def forward(self, x):
        return self.alone(self.middle(self.first(x)))


IMAGE = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
ROW = torch.linspace(-1, 1, 8).reshape(2, 4)


def make(kind: type[nn.Module], *, training: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return kind().train(training)


def prepared(load: Load, mapping: Any = None, kind: type[nn.Module] = Small, **options: Any) -> Any:
    mapping = mapping or quantization.get_default_qconfig_mapping()
    module = load(FX).prepare_fx(make(kind), mapping, (IMAGE,), **options)
    module(IMAGE)
    return module


def quantized(load: Load) -> Any:
    before = prepared(load)
    after = load(FX).convert_fx(copy.deepcopy(before))
    return before, after, after(IMAGE)


def quantized_to_reference(load: Load) -> Any:
    after = load(FX).convert_to_reference_fx(prepared(load))
    return after, after(IMAGE)


def quantized_to_decomposed(load: Load) -> Any:
    after = load(FX)._convert_to_reference_decomposed_fx(prepared(load))
    return after, after(IMAGE)


def quantized_dynamically(load: Load) -> Any:
    mapping = quantization.QConfigMapping().set_global(quantization.default_dynamic_qconfig)
    after = load(FX).convert_fx(prepared(load, mapping))
    return after, after(IMAGE)


def quantized_in_training(load: Load) -> Any:
    module = load(FX).prepare_qat_fx(
        make(Small, training=True), quantization.get_default_qat_qconfig_mapping(), (IMAGE,)
    )
    module(IMAGE)[0].sum().backward()
    after = load(FX).convert_fx(copy.deepcopy(module).eval())
    return module, after, after(IMAGE), [parameter.grad for parameter in module.parameters()]


def quantized_as_configured(load: Load) -> Any:
    mapping = (
        quantization.QConfigMapping()
        .set_global(quantization.get_default_qconfig())
        .set_object_type(nn.LayerNorm, None)
        .set_object_type(torch.cat, None)
        .set_module_name("head.3", None)
        .set_module_name_regex("conv.*", quantization.default_per_channel_qconfig)
    )
    options = {"backend_config": get_native_backend_config()}
    after = load(FX).convert_fx(prepared(load, mapping, **options), **options)
    return after, after(IMAGE)


def quantized_around_what_cannot_be_traced(load: Load) -> Any:
    custom = load("torch.ao.quantization.fx.custom_config")
    prepare = (
        custom.PrepareCustomConfig()
        .set_non_traceable_module_classes([Untraceable])
        .set_preserved_attributes(["note"])
        .set_standalone_module_name("alone", None, (torch.zeros(2, 4, 8, 8),), None, None)
    )
    before = prepared(load, kind=Mixed, prepare_custom_config=prepare)
    convert = custom.ConvertCustomConfig().set_preserved_attributes(["note"])
    after = load(FX).convert_fx(copy.deepcopy(before), convert_custom_config=convert)
    return before, after, after.note, after(IMAGE)


def fused(load: Load) -> Any:
    module = load(FX).fuse_fx(make(Small))
    return module, module(IMAGE)


def equalized(load: Load) -> Any:
    equalize = load("torch.ao.quantization.fx._equalize")
    mapping = quantization.get_default_qconfig_mapping("x86")
    before = load(FX).prepare_fx(
        make(Linears),
        mapping,
        (ROW,),
        _equalization_config=quantization.QConfigMapping().set_global(equalize.default_equalization_qconfig),
    )
    before(ROW)
    reference = equalize._convert_equalization_ref(copy.deepcopy(before))
    after = load(FX).convert_fx(copy.deepcopy(before))
    return before, reference, after, after(ROW)


def saved_and_copied(load: Load) -> Any:
    before = prepared(load)
    other = copy.deepcopy(before)
    other.load_state_dict(before.state_dict())
    return other, other(IMAGE), load("torch.ao.quantization.fx.graph_module")._is_observed_module(other)


def reported(load: Load) -> Any:
    detector = load("torch.ao.quantization.fx._model_report.detector")
    report = load("torch.ao.quantization.fx._model_report.model_report")
    module = load(FX).prepare_fx(make(Linears), quantization.get_default_qconfig_mapping(), (ROW,))
    made = report.ModelReport(
        module,
        {detector.PerChannelDetector(), detector.InputWeightEqualizationDetector(0.5), detector.OutlierDetector()},
    )
    watched = made.prepare_detailed_calibration()
    watched(ROW)
    return watched, sorted(made.get_observers_of_interest()), sorted(made.generate_model_report(False))


def weights_compared(load: Load) -> Any:
    suite = load("torch.ao.ns._numeric_suite_fx")
    before = prepared(load, kind=Plain)
    after = load(FX).convert_fx(copy.deepcopy(before))
    found = suite.extract_weights("a", before, "b", after)
    distance = load("torch.ao.ns.fx.utils").compute_sqnr
    suite.extend_logger_results_with_comparison(found, "a", "b", distance, "sqnr")
    return found


def activations_compared(load: Load) -> Any:
    suite = load("torch.ao.ns._numeric_suite_fx")
    before = prepared(load, kind=Plain)
    after = load(FX).convert_fx(copy.deepcopy(before))
    logged, other = suite.add_loggers("a", copy.deepcopy(before), "b", copy.deepcopy(after), suite.OutputLogger)
    logged(IMAGE)
    other(IMAGE)
    return logged, other, suite.extract_logger_info(logged, other, suite.OutputLogger, "b")


def activations_shadowed(load: Load) -> Any:
    suite = load("torch.ao.ns._numeric_suite_fx")
    before = prepared(load, kind=Plain)
    after = load(FX).convert_fx(copy.deepcopy(before))
    shadowed = suite.add_shadow_loggers("a", before, "b", after, suite.OutputLogger)
    shadowed(IMAGE)
    return shadowed, suite.extract_shadow_logger_info(shadowed, suite.OutputLogger, "b")


def shadowed_many_times(load: Load) -> Any:
    suite = load("torch.ao.ns._numeric_suite_fx")
    qconfigs = load("torch.ao.ns.fx.qconfig_multi_mapping").QConfigMultiMapping()
    qconfigs.set_global([quantization.get_default_qconfig(), quantization.default_dynamic_qconfig])
    module = suite.prepare_n_shadows_model(make(Linears), (ROW,), qconfigs, get_native_backend_config())
    module(ROW)
    suite.loggers_set_enabled(module, True)
    converted = suite.convert_n_shadows_model(module)
    converted(ROW)
    results = suite.extract_results_n_shadows_model(converted)
    return module, converted, sorted(results)


def pruned(load: Load) -> Any:
    module = load("torch.ao.pruning._experimental.pruner.base_structured_sparsifier")

    class Half(module.BaseStructuredSparsifier):
        def update_mask(self, module, tensor_name, **kwargs):
            mask = getattr(module.parametrizations, tensor_name)[0].mask
            mask[: len(mask) // 2] = False

    sparsifier = Half({})
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 2)).eval()
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.weight"}])
    sparsifier.enable_mask_update = True
    sparsifier.step()
    smaller = sparsifier.prune()
    return smaller, smaller(ROW)


def execution_order(load: Load) -> Any:
    utils = load("torch.distributed.fsdp._trace_utils")
    model = make(Small)
    tracer = load("torch.fx").Tracer()
    order = utils._ExecOrderTracer()
    names = {parameter: name for name, parameter in model.named_parameters()}
    paths = {module: path for path, module in model.named_modules()}
    with order.patch_tracer(tracer=tracer, root_module=model):
        graph = tracer.trace(model, None)
    info = order.exec_info
    return (
        [node.name for node in graph.nodes],
        [paths[module] for module in info.module_forward_order],
        [names[parameter] for parameter in info.param_forward_order],
        [
            (paths[module], [name for use in uses for name, _ in use.named_params])
            for module, uses in info.module_to_param_usage_infos.items()
        ],
    )


def aten_graph(load: Load) -> Any:
    def forward(x, y):
        a = torch.ops.aten.add.Tensor(x, y)
        b = torch.ops.aten.add.Tensor(x, y)
        c = torch.ops.aten.split.Tensor(torch.ops.aten.mul.Tensor(a, b), 2, 1)
        d = torch.ops.aten.sin.default(operator.getitem(c, 0))
        e = torch.ops.aten.cos.default(operator.getitem(c, 1))
        return torch.ops.aten.add.Tensor(d, e), torch.ops.aten.sum.default(a)

    return load("torch.fx").symbolic_trace(forward)


def common_subexpressions(load: Load) -> Any:
    gm = aten_graph(load)
    graph = load("torch._functorch.compile_utils").fx_graph_cse(gm.graph)
    return load("torch.fx").GraphModule(gm, graph)


def getitems_raised(load: Load) -> Any:
    utils = load("torch._functorch.compile_utils")
    gm = utils.raise_getitems(aten_graph(load))
    utils.strip_overloads(gm)
    return gm, [n.name for n in utils.get_placeholders(gm.graph)], [n.name for n in utils.get_outputs(gm.graph)]


def scripted(load: Load) -> Any:
    compiled = load("torch._functorch.compilers").ts_compile(aten_graph(load), (ROW, ROW))
    return compiled([ROW, ROW])


def minified(load: Load) -> Any:
    def fails(module, inputs):
        return any(node.target is torch.ops.aten.cos.default for node in module.graph.nodes)

    dumped: list[str] = []
    result = load("torch._functorch.fx_minifier").minifier(
        aten_graph(load), [ROW, ROW], fails, dump_state=lambda module, inputs: dumped.append(module.code)
    )
    return result[0], len(result[1]), len(dumped) > 0


def captured(load: Load, module: torch.fx.GraphModule) -> Any:
    """A graph that torch has captured, for the engine that `load` gives."""
    engine: Any = load("torch.fx")
    return module if engine.GraphModule is torch.fx.GraphModule else from_torch_fx(module)


def joint_graph_partitioned(load: Load) -> Any:
    partitioners = load("torch._functorch.partitioners")
    weight = torch.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()

    def forward(x, weight):
        return (torch.sin(x @ weight).relu().sum(),)

    joint = aot_export_joint_simple(forward, (ROW.clone().requires_grad_(), weight), trace_joint=True)
    module = captured(load, joint)
    return (
        partitioners.default_partition(module, [], num_fwd_outputs=1),
        partitioners.min_cut_rematerialization_partition(module, [], num_fwd_outputs=1),
    )


def patterns_of_the_compiler(load: Load) -> Any:
    matcher = load("torch._inductor.pattern_matcher")
    aten, found = torch.ops.aten, []
    patterns = matcher.PatternMatcherPass()
    product = matcher.CallFunction(aten.mm.default, matcher.KeywordArg("a"), matcher.KeywordArg("b"))
    pattern = matcher.CallFunction(aten.relu.default, product)

    @matcher.register_graph_pattern(pattern, pass_dict=patterns)
    def swap(match, a, b):
        found.append([node.name for node in match.nodes])
        with match.graph.inserting_before(match.output_node()):
            swapped = match.graph.call_function(aten.mm.default, (b, a))
            swapped.meta.update(match.output_node().meta)
        match.output_node().replace_all_uses_with(swapped)
        match.erase_nodes()

    module = captured(load, make_fx(lambda a, b: torch.relu(a @ b) + torch.relu(b @ a))(ROW.t() @ ROW, ROW.t() @ ROW))
    count = patterns.apply(module.graph)
    nodes = list(module.graph.nodes)
    nodes[0].prepend(nodes[-2])
    matcher.stable_topological_sort(module.graph)
    module.graph.lint()
    module.recompile()
    return count, found, repr(pattern), module


def constants_of_the_compiler(load: Load) -> Any:
    module = captured(load, make_fx(make(Linears))(ROW))
    load("torch._inductor.constant_folding").constant_fold(module)
    return module, module(ROW)


CASES: dict[str, Callable[[Load], Any]] = {
    name: case
    for name, case in list(globals().items())
    if list(getattr(case, "__annotations__", {}).items()) == [("load", Load), ("return", Any)] and name != "aten_graph"
}
