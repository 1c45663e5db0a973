"""Parts of graphs are handed to back ends."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it.
from torch import nn

from fxengine._symbolic_trace import symbolic_trace
from fxengine.passes.lowering import lower, torch_compile, torchscript, torchscript_trace
from fxengine.passes.operator_support import OpSupports, create_op_support
from tests.support import corpus

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Net(nn.Module):
    """Has in its middle what is not to be lowered, beside a branch that goes around it."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)
        self.scale = nn.Parameter(torch.rand(8, 1, 1))

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        y = torch.sort(x, dim=-1)[0] * self.scale
        x = F.gelu(x + y, approximate="tanh")
        left, right = x.mean((2, 3)).chunk(2, -1)
        return {"scores": self.head(torch.cat([right, left], -1)), "left": left}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


NO_SORT = create_op_support(lambda _submodules, node: node.target is not torch.sort)
BACKENDS = {
    "torchscript": torchscript,
    "torchscript trace": torchscript_trace,
    "eager": torch_compile("eager"),
    "aot_eager": torch_compile("aot_eager"),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_supported_parts_run_in_the_back_end(net, name):
    x = torch.randn(2, 3, 8, 8)
    lowered = lower(net, (x,), BACKENDS[name], NO_SORT)
    assert [part.error for part in lowered.parts] == [None, None]
    assert lowered.interpreted == ("sort", "getitem")
    covered = [node for part in lowered.parts for node in part.nodes]
    calls = {node.name for node in symbolic_trace(net).graph.nodes if node.op.startswith("call")}
    assert sorted(covered) == sorted(calls - {"sort", "getitem"})
    calls = [str(node.target) for node in lowered.module.graph.nodes if node.op == "call_module"]
    assert sorted(calls) == [part.name for part in lowered.parts]
    assert not any(type(lowered.module.get_submodule(call)).__name__ == call for call in calls)
    with torch.no_grad():
        torch.testing.assert_close(lowered.module(x), net(x))


def test_the_compiler_gets_whole_parts(net):
    seen = []

    def compiler(graph_module, _inputs):
        seen.append([node.name for node in graph_module.graph.nodes if node.op.startswith("call")])
        return graph_module.forward

    lowered = lower(net, (torch.randn(2, 3, 8, 8),), torch_compile(compiler), NO_SORT)
    assert len(seen) == len(lowered.parts) == 2
    assert sum(map(len, seen)) >= sum(len(part.nodes) for part in lowered.parts) - 2


def test_everything_is_one_part_where_all_is_supported(net):
    x = torch.randn(2, 3, 8, 8)
    lowered = lower(net, (x,), torchscript)
    assert len(lowered.parts) == 1
    assert lowered.interpreted == ()
    with torch.no_grad():
        torch.testing.assert_close(lowered.module(x), net(x))


def test_what_the_back_end_refuses_or_gets_wrong_stays(net):
    x = torch.randn(2, 3, 8, 8)
    outcomes = iter([ValueError("no such operator"), lambda *args: torch.zeros(1)])

    def backend(part, inputs):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    lowered = lower(net, (x,), backend, NO_SORT)
    assert {type(part.error) for part in lowered.parts} == {ValueError, AssertionError}
    torch.testing.assert_close(lowered.module(x), net(x))


def test_functions_serve_as_compiled_parts_and_inputs_may_be_overwritten():
    def forward(x):
        x = x + 1
        x.mul_(2)
        return torch.cos(x).sum()

    calls = []

    def backend(part, inputs):
        return lambda *args: calls.append(1) or part(*args)

    not_the_first = create_op_support(lambda _submodules, node: node.name != "add")
    x = torch.randn(3)
    lowered = lower(symbolic_trace(forward), (x,), backend, not_the_first)
    assert lowered.parts[0].error is None
    assert lowered.interpreted == ("add",)
    torch.testing.assert_close(lowered.module(x), forward(x))
    assert len(calls) == 2


def test_rules_for_types_of_tensors_apply(net):
    traced = symbolic_trace(net)
    names = {"norm", "head"}
    lowered = lower(traced, (torch.randn(2, 3, 8, 8),), torchscript_trace, OpSupports.decline_if_node_in_names(names))
    assert set(lowered.interpreted) == names


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["torchvision:resnet18", "timm:vit_tiny_patch16_224"])
@pytest.mark.parametrize("backend", ["torchscript", "aot_eager"])
def test_real_models(name, backend):
    library, _, model_name = name.partition(":")
    corpus.prepare()
    torch.manual_seed(0)
    if library == "timm":
        import timm

        model = timm.create_model(model_name, img_size=64).eval()
    else:
        import torchvision

        model = torchvision.models.get_model(model_name).eval()
    given = torch.randn(2, 3, 64, 64)
    without = create_op_support(
        lambda submodules, node: (
            node.target is not F.layer_norm and not isinstance(submodules.get(str(node.target)), nn.MaxPool2d)
        )
    )
    lowered = lower(model, (given,), BACKENDS[backend], without)
    assert [part.error for part in lowered.parts] == [None] * len(lowered.parts)
    assert len(lowered.parts) > 1
    with torch.no_grad():
        torch.testing.assert_close(lowered.module(given), model(given), rtol=1e-3, atol=1e-4)
