"""What was assumed about symbolic sizes becomes the same assertions as in torch.fx."""

import operator

import pytest
import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts as their_pass

import fxengine
from fxengine.interop import from_torch_fx, to_torch_fx
from fxengine.passes.runtime_assert import insert_deferred_runtime_asserts as our_pass


def bounded(x, y):
    count = x.item()
    torch._check(count >= 2)
    torch._check(count <= 10, lambda: "few enough")
    return y.new_zeros(count) + 1


def related(x, y):
    count = x[0].item()
    torch._check(count >= 0)
    torch._check(count * 2 == y.shape[0], lambda: f"{count}")
    return torch.zeros(count * 2) + y


def twice(x, y):
    first, second = x[0].item(), x[1].item()
    torch._check(first >= 3)
    torch._check(second >= 3)
    torch._check(first + second < 20)
    torch._check(first + second < 20)
    return torch.zeros(first + second) + 1, y.sum()


def data_dependent(x, y):
    found = x.nonzero()
    torch._check(found.shape[0] >= 1)
    return found[: y.shape[0]] * 2


def measured(x, y):
    z = torch.cat([y, y])
    w = z.repeat(3)
    return torch.ones(w.shape[0]) * z.size(0), w.numel() + y.shape[0] * 2


def nothing(x, y):
    return y.sin() + 1


CASES = {function.__name__: function for function in (bounded, related, twice, data_dependent, measured, nothing)}
INPUTS = {"bounded": (torch.tensor(4), torch.ones(3)), "twice": (torch.tensor([4, 5]), torch.ones(3))}


def crossed(module, *, ours):
    """A module for one of the engines, which knows no names but those of its nodes."""
    return from_torch_fx(module) if ours else to_torch_fx(from_torch_fx(module))


def told(module):
    def value(node):
        return str(node.meta.get("val", node.meta.get("example_value")))

    return module.code, [(node.name, value(node), sorted(map(str, node.meta))) for node in module.graph.nodes]


@pytest.mark.parametrize("exporting", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_same_assertions(name, exporting):
    inputs = INPUTS.get(name, (torch.tensor([2, 0, 1, 3]), torch.ones(4)))
    outcomes = []
    for ours in (False, True):
        theirs = make_fx(CASES[name], tracing_mode="symbolic")(*inputs)
        module = crossed(theirs, ours=ours)
        (our_pass if ours else their_pass)(module, theirs.shape_env, "graph", exporting)
        module.graph.lint()
        module.recompile()
        outcomes.append((told(module), [str(each) for each in module(*inputs)]))
    assert outcomes[1] == outcomes[0]


class Checked(nn.Module):
    def forward(self, x, y):
        count = x.item()
        torch._check(count >= 2, lambda: "too few")
        torch._check(count <= y.shape[0])
        return y[:count] * y.size(0)


def test_exported_graphs():
    rows = Dim("rows", min=4, max=64)
    outcomes = []
    for ours in (False, True):
        theirs = export(Checked(), (torch.tensor(3), torch.ones(8)), dynamic_shapes=(None, {0: rows})).graph_module
        env = next(node.meta["val"] for node in theirs.graph.nodes if "val" in node.meta).fake_mode.shape_env
        module = crossed(theirs, ours=ours)
        (our_pass if ours else their_pass)(module, env, "graph", True)
        module.recompile()
        outcomes.append(told(module))
    assert outcomes[1] == outcomes[0]


MESSAGES = {
    "a text": lambda graph, module, condition: ((condition, "say so"), {}),
    "by keyword": lambda graph, module, condition: ((condition,), {"message": "say so"}),
    "none": lambda graph, module, condition: ((), {"cond": condition}),
    "a function that always says the same": lambda graph, module, condition: (
        (condition, graph.get_attr("constant")),
        {},
    ),
    "a function that may say anything": lambda graph, module, condition: ((condition, graph.get_attr("other")), {}),
    "an attribute that is text": lambda graph, module, condition: ((condition, graph.get_attr("text")), {}),
    "true": lambda graph, module, condition: ((True, "always"), {}),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_the_users_checks(name):
    codes = []
    for engine, run in ((torch.fx, their_pass), (fxengine, our_pass)):
        env = ShapeEnv()
        fake = FakeTensorMode(shape_env=env).from_tensor(torch.ones(5, 7), static_shapes=False)
        root = nn.Module()
        root.constant, root.other, root.text = (lambda: "constant"), (lambda root=root: f"{root}"), "text"
        graph = engine.Graph()
        x = graph.placeholder("x")
        x.meta["val"] = fake
        size = graph.call_function(torch.ops.aten.sym_size.int, (x, 0))
        size.meta["val"] = fake.shape[0]
        condition = graph.call_function(operator.gt, (size, 2))
        condition.meta["val"] = fake.shape[0] > 2
        args, kwargs = MESSAGES[name](graph, root, condition)
        graph.call_function(torch._check, args, kwargs)
        graph.output(x)
        module = engine.GraphModule(root, graph)
        run(module, env, "graph")
        module.recompile()
        codes.append(module.code)
    assert codes[0] == codes[1]
