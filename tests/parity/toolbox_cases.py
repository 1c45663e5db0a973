"""The smaller public functions beside graphs and passes, at their edges, written once for whichever package has them.

Each case takes `load`, which returns a module of torch.fx by name, torch.fx's or the engine's.
"""

import operator
import typing
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Load = Callable[[str], Any]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.inner = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(4))
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x, y=2):
        x = self.inner(self.conv(x)) * self.weight
        a, b = torch.split(x, [1, 3], dim=1)
        return {"sum": a.sum() + y, "parts": (a, b)}


def traced(load: Load, root: Any = None) -> Any:
    torch.manual_seed(0)
    return load("torch.fx").symbolic_trace(Net().eval() if root is None else root)


def failed(action: Callable[[], Any]) -> str:
    try:
        return f"gave {action()}"
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared.
        return f"{type(error).__name__}: {error}"


IMAGE = torch.linspace(-1, 1, 3 * 25).reshape(1, 3, 5, 5)


def tensor_metadata(load: Load) -> Any:
    extract = load("torch.fx.passes.shape_prop")._extract_tensor_metadata
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.5, 3, torch.qint8)
    per_channel = torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8)
    last = torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last)
    return [
        extract(torch.ones(2, 3)),
        extract(torch.ones(2, 3).t()),
        extract(quantized),
        extract(per_channel),
        extract(last),
        extract(torch.ones(2, 3), include_contiguity=False),
        extract(torch.ones(2).to("meta").requires_grad_()),
    ]


def shapes_of_what_fails(load: Load) -> Any:
    gm = traced(load)
    propagate = load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate
    said = failed(lambda: propagate(torch.ones(1, 2, 5, 5))).partition("\n")[0]
    return said, [sorted(map(str, node.meta)) for node in gm.graph.nodes]


def schemas(load: Load) -> Any:
    module = load("torch.fx.operator_schemas")
    linear = torch.nn.functional.linear
    return [
        str(module.get_signature_for_torch_op(torch.relu)),
        str(module.get_signature_for_torch_op(operator.add)),
        str(module.get_signature_for_torch_op(torch.add, return_schemas=True)),
        str(module.get_signature_for_torch_op(linear)),
        str(module.normalize_function(linear, (torch.ones(2), torch.ones(2)))),
        str(module.normalize_function(linear, (1, 2), normalize_to_only_use_kwargs=True)),
        str(
            module.normalize_function(torch.add, (torch.ones(2), 3), {"alpha": 2}, (torch.Tensor, int), {"alpha": int})
        ),
        failed(lambda: module.normalize_function(torch.add, (torch.ones(2), 3))),
        str(module.normalize_function(torch.ops.aten.add.Tensor, (torch.ones(2), torch.ones(2)))),
        str(module.normalize_function(len, (1,))),
        str(module.normalize_module(Net(), "conv", (1,), normalize_to_only_use_kwargs=True)),
        failed(lambda: module.normalize_module(Net(), "missing", (1,))),
        str(module.normalize_module(Net(), "inner", (1,))),
        failed(lambda: module.check_for_mutable_operation(torch.relu_, (torch.ones(1),), {})),
        failed(lambda: module.check_for_mutable_operation(torch.relu, (torch.ones(1),), {})),
        *(
            module.type_matches(signature, argument)
            for signature in (typing.List[int], torch.Tensor, typing.Optional[int], int, typing.Union[int, float])  # noqa: UP006, UP007, UP045
            for argument in (int, torch.Tensor, typing.List[int], type(None), bool, float)  # noqa: UP006
        ),
        module.create_type_hint([int, int]),
        module.create_type_hint((1, 2)),
        module.create_type_hint([]),
    ]


def tools(load: Load) -> Any:
    module = load("torch.fx.passes.tools_common")
    gm = traced(load)
    load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate(IMAGE)
    nodes = list(gm.graph.nodes)
    modules = dict(gm.named_modules())
    return [
        [failed(lambda node=node: module.is_node_output_tensor(node)) for node in nodes],
        [module.get_node_target(modules, node) for node in nodes if node.op.startswith("call")],
        failed(lambda: sorted(map(str, module.FxNetAccFusionsFinder(gm, {nodes[2], nodes[3]})()))),
        str(module.legalize_graph(gm).graph),
        module.stable_topological_sort(gm).code,
    ]


def support(load: Load) -> Any:
    module = load("torch.fx.passes.operator_support")
    gm = traced(load)
    modules = dict(gm.named_modules())
    relus = module.OperatorSupport({"torch.nn.modules.activation.ReLU": None, "_operator.mul": None})
    convolutions = module.create_op_support(lambda modules, node: node.name == "conv")
    every = [
        relus,
        convolutions,
        module.any_chain(relus, convolutions),
        module.chain(relus, convolutions),
        module.OpSupports.decline_if_node_in_names({"conv", "mul"}),
        module.OpSupports.decline_if_input_dtype(torch.int64),
    ]
    return [
        [failed(lambda node=node, each=each: each.is_node_supported(modules, node)) for node in gm.graph.nodes]
        for each in every
    ]


def recursive_attributes(load: Load) -> Any:
    module = load("torch.fx.passes.split_utils")
    net = Net()
    module.setattr_recursive(net, "inner.0.note", 3)
    return [
        module.getattr_recursive(net, "inner.0.note"),
        failed(lambda: module.getattr_recursive(net, "inner.7")),
        failed(lambda: module.getattr_recursive(net, "")),
        failed(lambda: module.setattr_recursive(net, "missing.part", 1)),
        vars(module.Component(None, 0, "name")) if hasattr(module.Component, "__dict__") else None,
    ]


def parameters(load: Load) -> Any:
    module = load("torch.fx.passes.param_fetch")
    gm = traced(load)
    module.lift_lowering_attrs_to_nodes(gm)
    fetched = module.extract_attrs_for_lowering(nn.Linear(2, 2))
    return (
        [sorted(node.attrs_for_lowering) if hasattr(node, "attrs_for_lowering") else None for node in gm.graph.nodes],
        list(fetched),
        failed(lambda: module.extract_attrs_for_lowering(nn.Tanh())).partition(",")[0],
        module.default_matching("a", 1),
    )


def sizes(load: Load) -> Any:
    gm = traced(load)
    module = load("torch.fx.passes.graph_manipulation")
    before = failed(lambda: module.get_size_of_all_nodes(gm))
    said = failed(lambda: module.get_size_of_all_nodes(gm, [IMAGE]))
    again = traced(load)
    module.replace_target_nodes_with(again, "call_function", operator.mul, "call_function", torch.mul)
    return before, said, [getattr(node, "size_bytes", None) for node in gm.graph.nodes], again.code


def dynamic_types(load: Load) -> Any:
    module = load("torch.fx.tensor_type")
    dynamic, tensor = module.Dyn, module.TensorType
    return [
        str(tensor((1, dynamic, 3))),
        str(dynamic),
        tensor((1, dynamic)) == tensor((1, dynamic)),
        module.is_consistent(tensor((1, dynamic)), tensor((1, 2))),
        module.is_consistent(tensor((1, 3)), tensor((1, 2))),
        module.is_consistent(tensor((1,)), dynamic),
        module.is_more_precise(tensor((1, 2)), tensor((1, dynamic))),
        module.is_more_precise(tensor((1, dynamic)), tensor((1, 2))),
        module.is_more_precise(dynamic, tensor((1, 2))),
        repr(tensor([1, 2])),
        tensor[1, 2] if hasattr(tensor, "__class_getitem__") else None,
        failed(lambda: dynamic + 1),
    ]


def annotations(load: Load) -> Any:
    annotate = load("torch.fx.annotate").annotate

    def function(x):
        y = annotate(x + 1, torch.Tensor)
        return annotate(y.relu(), typing.Optional[int])  # noqa: UP045

    gm = traced(load, function)
    return gm.code, str(gm.graph), failed(lambda: annotate(3, int)), annotate(torch.ones(1), torch.Tensor)


def lazily(load: Load) -> Any:
    module = load("torch.fx._lazy_graph_module")
    fx = load("torch.fx")
    graph = fx.Tracer().trace(Net().eval())
    with module._use_lazy_graph_module(True):
        gm = module._make_graph_module(Net().eval(), graph)
    before = type(gm).__name__, gm._needs_recompile()
    text = gm.code
    lazy = module._LazyGraphModule.from_graphmodule(fx.GraphModule(Net(), graph))
    lazy.recompile()
    needs = lazy._needs_recompile()
    lazy.real_recompile()
    return before, text, gm._needs_recompile(), needs, lazy._needs_recompile(), list(gm(IMAGE))


def passes_in_order(load: Load) -> Any:
    module = load("torch.fx.passes.pass_manager")
    seen: list[str] = []

    def first(x):
        seen.append("first")
        return x

    def second(x):
        seen.append("second")
        return x

    manager = module.PassManager([second, first])
    manager.add_constraint(module.this_before_that_pass_constraint(first, second))
    wrong = failed(manager.validate)
    sound = module.PassManager([first, second, first])
    sound.remove_pass(["first"])
    sound.add_pass(module.loop_pass(first, n_iter=2))
    sound(1)
    return wrong, seen, [each.__name__ for each in sound.passes], failed(lambda: module.loop_pass(first))


def results(load: Load) -> Any:
    base = load("torch.fx.passes.infra.pass_base")
    managers = load("torch.fx.passes.infra.pass_manager")

    class Broken(base.PassBase):
        def call(self, graph_module):
            raise ValueError("by hand")

    class Nothing(base.PassBase):
        def call(self, graph_module):
            return None

    class Told(base.PassBase):
        def requires(self, graph_module):
            raise RuntimeError("not ready")

        def call(self, graph_module):
            return base.PassResult(graph_module, False)

    gm = traced(load)
    return [
        failed(lambda: managers.PassManager([Broken()])(gm)),
        failed(lambda: managers.PassManager([Nothing()])(gm)),
        failed(lambda: managers.PassManager([lambda each: each])(gm)),
        failed(lambda: Told()(gm)),
        failed(lambda: managers.PassManager([Told()])(gm)),
        tuple(base.PassResult(1, True)),
        managers.PassManager([], steps=3)(gm).modified,
        failed(lambda: managers.PassManager([])(3)),
    ]


def getitems(load: Load) -> Any:
    gm = traced(load)
    for node in gm.graph.nodes:
        if node.name == "split":
            node.type = tuple[torch.Tensor, int]
    load("torch.fx.passes.annotate_getitem_nodes").annotate_getitem_nodes(gm.graph)
    return [(node.name, str(node.type)) for node in gm.graph.nodes]


def marked(load: Load) -> Any:
    module = load("torch.fx._compatibility")

    @module.compatibility(is_backward_compatible=False)
    def function():
        """Says something."""

    @module.compatibility(is_backward_compatible=True)
    def other():
        """Says something.

        Args:
            x: What.
        """

    known = function.__doc__, other.__doc__
    module._MARKED_WITH_COMPATIBILITY.pop(function, None)
    module._BACK_COMPAT_OBJECTS.pop(other, None)
    module._MARKED_WITH_COMPATIBILITY.pop(other, None)
    return known


CASES: dict[str, Callable[[Load], Any]] = {
    case.__name__: case
    for case in (
        tensor_metadata,
        shapes_of_what_fails,
        schemas,
        tools,
        support,
        recursive_attributes,
        parameters,
        sizes,
        dynamic_types,
        annotations,
        lazily,
        passes_in_order,
        results,
        getitems,
        marked,
    )
}
