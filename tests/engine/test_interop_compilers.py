"""The engine's modules in torch's stacks that capture and compile, and those stacks' graphs in the engine."""

import io
import pickle

import pytest
import torch
import torch.fx
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.export import Dim, export, unflatten
from torch.fx.experimental.proxy_tensor import make_fx

import fxengine
from fxengine.interop import from_torch_fx, to_torch_fx
from fxengine.passes.dialect.common.cse_pass import CSEPass
from fxengine.passes.fake_tensor_prop import FakeTensorProp
from fxengine.passes.shape_prop import ShapeProp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4), persistent=False)

    def forward(self, x):
        return torch.relu(self.fc(x)) * self.weight + self.shift


class Counting(Net):
    def forward(self, x):
        self.shift.add_(1)
        return super().forward(x)


class Sized(nn.Module):
    def forward(self, x, y):
        both = torch.cat([x, y]).view(x.shape[0] + y.shape[0], -1)
        return both[: x.shape[0]] * x.shape[0], {"sum": x.sum()}


class Branching(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Net(), Net()

    def forward(self, x, *, scale=None):
        return self.second(self.first(x)) * scale


X = torch.linspace(-1, 1, 8).reshape(2, 4)
ROWS = Dim("rows", min=2)


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()


def assert_crosses(module, *args, **kwargs):
    """A module of torch.fx goes to the engine and back, and all three are the same."""
    ours = from_torch_fx(module)
    back = to_torch_fx(ours)
    assert ours.code == module.code == back.code
    ours.graph.lint()
    for theirs, mine, again in zip(module.graph.nodes, ours.graph.nodes, back.graph.nodes, strict=True):
        assert theirs.name == mine.name == again.name
        assert theirs.type == mine.type == again.type
        assert theirs.meta.keys() == mine.meta.keys() == again.meta.keys()
        assert str(theirs.meta.get("val")) == str(mine.meta.get("val")) == str(again.meta.get("val"))
    expected = module(*args, **kwargs)
    torch.testing.assert_close(ours(*args, **kwargs), expected)
    torch.testing.assert_close(back(*args, **kwargs), expected)
    assert list(module.state_dict()) == list(ours.state_dict()) == list(back.state_dict())
    return ours


@pytest.mark.parametrize("kind", [Net, Branching])
def test_exported_modules_cross(kind):
    assert_crosses(export(kind(), (X,)).module(), X)


def test_exported_modules_keep_their_guards_and_refusals():
    ours = assert_crosses(export(Net(), (X,), dynamic_shapes=({0: ROWS},)).module(), torch.ones(5, 4))
    with pytest.raises(AssertionError, match="Guard failed"):
        ours(torch.ones(5, 3))
    with pytest.raises(NotImplementedError, match="train"):
        ours.train()


def test_exported_modules_with_symbolic_sizes_cross():
    program = export(Sized(), (X, X), dynamic_shapes=({0: ROWS}, {0: ROWS}))
    assert_crosses(program.module(), torch.ones(5, 4), torch.ones(5, 4))
    sizes = [node.meta["val"] for node in from_torch_fx(program.graph_module).graph.nodes if "sym" in node.name]
    assert all(isinstance(size, torch.SymInt) for size in sizes)
    assert sizes


def test_exported_modules_with_keywords_and_parts_cross():
    program = export(Keyword(), (X,), {"scale": X})
    assert_crosses(program.module(), X, scale=X)
    assert unflatten(program)(X, scale=X).shape == X.shape


def test_exported_changes_of_buffers_happen():
    ours = from_torch_fx(export(Counting(), (X,)).module())
    ours(X)
    assert torch.equal(ours.shift, torch.ones(4))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_graphs_of_make_fx_cross(mode):
    ours = assert_crosses(make_fx(lambda x: torch.softmax(x @ x.t(), -1).sum(), tracing_mode=mode)(X), X)
    ShapeProp(ours).propagate(X)
    FakeTensorProp(ours).propagate(X)


def test_our_passes_improve_graphs_of_make_fx():
    module = make_fx(lambda x: torch.sin(x) + torch.sin(x))(X)
    result = CSEPass()(from_torch_fx(module))
    improved = to_torch_fx(result.graph_module)
    assert result.modified
    assert len(improved.graph.nodes) < len(module.graph.nodes)
    torch.testing.assert_close(improved(X), module(X))


@pytest.mark.parametrize("strict", [False, True])
def test_our_modules_are_exported(strict):
    module = Net()
    program = export(fxengine.symbolic_trace(module), (X,), strict=strict)
    torch.testing.assert_close(program.module()(X), module(X))


def test_our_modules_are_traced_by_others():
    module = Net()
    ours = fxengine.symbolic_trace(module)
    for capture in (make_fx(ours)(X), torch.jit.trace(ours, (X,)), torch.fx.symbolic_trace(ours)):
        torch.testing.assert_close(capture(X), module(X))
    assert torch.fx.symbolic_trace(ours).code == ours.code


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_our_modules_are_compiled(backend):
    module = Net()
    ours = fxengine.symbolic_trace(module)
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(X), module(X))


def test_a_back_end_may_answer_with_our_module():
    seen = []

    def backend(module, inputs):
        seen.append(from_torch_fx(module))
        ShapeProp(seen[-1]).propagate(*inputs)
        return seen[-1]

    module = Net()
    torch.testing.assert_close(torch.compile(module, backend=backend)(X), module(X))
    assert isinstance(seen[0], fxengine.GraphModule)
    assert all("tensor_meta" in node.meta for node in seen[0].graph.nodes)


def test_back_ends_below_autograd_may_answer_with_our_modules():
    seen = []

    def compiler(module, inputs):
        ours = from_torch_fx(module)
        ours.graph.eliminate_dead_code()
        ours.recompile()
        seen.append(ours)
        return make_boxed_func(ours)

    module = Net()
    compiled = torch.compile(module, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    compiled(X).sum().backward()
    gradient = module.fc.weight.grad
    module.zero_grad()
    module(X).sum().backward()
    torch.testing.assert_close(gradient, module.fc.weight.grad)
    assert len(seen) == 2


def test_what_crossed_is_saved_as_any_module():
    theirs = to_torch_fx(fxengine.symbolic_trace(Net()))
    buffer = io.BytesIO()
    torch.save(theirs, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    assert isinstance(loaded, torch.fx.GraphModule)
    assert loaded.code == theirs.code == pickle.loads(pickle.dumps(theirs)).code
