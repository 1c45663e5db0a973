"""Graph modules saved node by node: the engine's pickler does what torch's does, and takes modules of both engines."""

import importlib
import importlib.util
import operator
import weakref

import pytest
import torch
import torch.fx
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import fxengine
from tests.support.parity import neutral

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch.fx._graph_pickler") is None, reason="this torch has no pickler of graphs"
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale + x.shape[0]


@pytest.fixture(params=[("torch.fx", torch.fx), ("fxengine", fxengine), ("fxengine", torch.fx)], ids=str)
def case(request):
    name, library = request.param
    return importlib.import_module(f"{name}._graph_pickler"), library


def sine(x):
    return torch.sin(x)


def mode():
    return FakeTensorMode(shape_env=ShapeEnv())


def there_and_back(pickler, value, **options):
    return pickler.GraphPickler.loads(pickler.GraphPickler.dumps(value, pickler.Options(**options)), mode())


def test_modules_come_back_as_what_they_were(case):
    pickler, library = case
    module = library.symbolic_trace(Net())
    module.meta["note"] = 1
    for node in module.graph.nodes:
        node.meta["custom"] = node.name
    loaded = there_and_back(pickler, {"module": module})["module"]
    assert isinstance(loaded, library.GraphModule)
    assert loaded.code == module.code
    assert loaded.meta == {"note": 1}
    assert [node.meta["custom"] for node in loaded.graph.nodes] == [node.name for node in module.graph.nodes]
    assert not any("nn_module_stack" in node.meta for node in loaded.graph.nodes)
    loaded.recompile()
    x = torch.rand(3, 2)
    assert torch.equal(loaded(x), module(x))


def test_values_become_those_of_the_mode(case):
    pickler, library = case
    make_fx = importlib.import_module(f"{library.__name__}.experimental.proxy_tensor").make_fx
    module = make_fx(lambda x, y: (x @ y).relu().view(-1), tracing_mode="symbolic")(torch.rand(2, 3), torch.rand(3, 4))
    target = mode()
    loaded = pickler.GraphPickler.loads(pickler.GraphPickler.dumps(module), target)
    assert loaded.code == module.code
    values = [node.meta["val"] for node in loaded.graph.nodes if "val" in node.meta]
    assert len(values) == 5
    assert all(value.fake_mode is target for value in values)
    assert neutral(str(values)) == neutral(str([n.meta["val"] for n in module.graph.nodes if "val" in n.meta]))


def test_the_same_tensor_stays_one(case):
    pickler, _ = case
    tensor = mode().from_tensor(torch.ones(3, 4))
    first, other, again = there_and_back(pickler, [tensor, tensor + 1, tensor])
    assert first is again
    assert other is not first
    assert first.ndim == 2


def test_operators_and_functions(case):
    pickler, _ = case
    functions = [torch.ops.aten.add.Tensor, torch.ops.aten.add, torch.relu, operator.add, len, torch.cond]
    assert there_and_back(pickler, functions) == functions
    assert there_and_back(pickler, torch.ops.prims.add.default, ops_filter=None) is torch.ops.prims.add.default


REFUSED = {
    "a node": lambda library: next(iter(library.symbolic_trace(sine).graph.nodes)),
    "an operator": lambda _: torch.ops.prims.add.default,
    "a local function": lambda library: calling(library, lambda x: x),
}


def calling(library, function):
    graph = library.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    return library.GraphModule(nn.Module(), graph)


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what):
    messages = []
    for library in (torch.fx, fxengine):
        pickler = importlib.import_module(f"{library.__name__}._graph_pickler").GraphPickler
        with pytest.raises((AssertionError, NotImplementedError, Exception)) as raised:
            pickler.dumps(REFUSED[what](library))
        messages.append((raised.type, neutral(str(raised.value))))
    assert messages[0][0] is messages[1][0]
    assert messages[0][1].split(" at 0x")[0] == messages[1][1].split(" at 0x")[0]


def test_a_node_may_become_nothing(case):
    pickler, library = case
    node = next(iter(library.symbolic_trace(sine).graph.nodes))
    assert there_and_back(pickler, [node], ignore_raw_node=True) == [None]


def test_weak_references(case):
    pickler, _ = case
    net = Net()
    loaded, reference = there_and_back(pickler, [net, weakref.ref(net)])
    assert reference() is loaded
    assert there_and_back(pickler, weakref.ref(Net()))() is None


FAULTY = (
    lambda: {"a": [1, {"b": lambda: 1}]},
    lambda: {"a": 1},
    lambda: [{1, 2}, ("x", [iter([1, lambda: 2])])],
    lambda: {"net": [Net(), {"hook": lambda: 1}]},
)


@pytest.mark.parametrize("make", FAULTY, ids=range(len(FAULTY)))
def test_what_cannot_be_saved_is_found(make, capsys):
    paths = [
        importlib.import_module(f"{name}._graph_pickler").GraphPickler.debug_dumps(make(), verbose=name == "fxengine")
        for name in ("torch.fx", "fxengine")
    ]
    assert paths[0] == paths[1]
    assert "Walking: root" in capsys.readouterr().out


def test_other_data_cannot_name_what_is_known_when_loading(case):
    pickler, _ = case
    with pytest.raises(Exception, match="Invalid persistent ID"):
        pickler.GraphPickler.loads(b"\x80\x04\x8c\x05other\x94Q.", mode())
