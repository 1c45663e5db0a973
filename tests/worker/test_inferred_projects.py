"""Arguments of classes as projects have them: privately made parts, stand-ins for data, what defaults leave out."""

import inspect
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.choices import Group
from fxworker.lineages import heirs_of
from fxworker.proposing import Proposals

empty = inspect.Parameter.empty


class Data:
    @property
    def n_users(self):
        raise NotImplementedError

    def graph(self):
        raise NotImplementedError


class Recommender(nn.Module):
    def __init__(self, config: dict, dataset: Data):
        super().__init__()
        self.config = config
        self.dataset: Data = dataset
        self.__make()

    def __make(self):
        self.users = nn.Embedding(self.dataset.n_users, self.config["latent"])
        self.graph = self.dataset.graph()


class Rescaled(nn.Module):
    def __init__(self, width, env):
        super().__init__()
        self.fc = nn.Linear(width, 2)
        self.scale = torch.FloatTensor((env.action_space.high - env.action_space.low) / 2.0)


class Cloned(nn.Module):
    def __init__(self, readout: nn.Module):
        super().__init__()
        self.readout = readout
        self.alpha = nn.Parameter(torch.ones(self.readout.number_of_neurons()))


class Pool(nn.Module):
    def __init__(self, width=4, pool=False, size=8):
        super().__init__()
        self.width = width
        if pool:
            self.prompt = nn.Parameter(torch.zeros(size, width))
        self.mean = self.prompt.mean()


class Body(nn.Module):
    def __init__(self, model, cut=None):
        super().__init__()
        self.pools = model.settings.get("pool") is not None
        self.model = model if cut is None else nn.Sequential(*list(model.children())[:cut])


@dataclass
class Tree:
    tag: str
    children: list


class Layer(nn.Module):
    def __init__(self, args, depth):
        super().__init__()
        self.fc = self.build(args, depth)

    def build(self, args, depth):
        return Inner(args, depth)


class Inner(nn.Module):
    def __init__(self, args, depth):
        super().__init__()
        self.fc = wrapped(args, nn.Linear(args.dim, depth))


def wrapped(args, module):
    return nn.Sequential(module) if args.multiway else module


class Decoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.layers = nn.ModuleList([self.build_layer(args, depth=each + 1) for each in range(args.depth)])

    def build_layer(self, args, depth):
        return Layer(args, depth)


class Sparse(NamedTuple):
    name: str
    size: int


class Dense(NamedTuple):
    name: str
    width: int = 1


class Columns(nn.Module):
    def __init__(self, columns):
        super().__init__()
        for each in columns:
            if isinstance(each, Sparse):
                pass
            elif not isinstance(each, Dense):
                raise TypeError("Invalid column")
        self.tables = nn.ModuleDict({each.name: nn.Embedding(each.size, 2) for each in columns if type(each) is Sparse})


class Convolving(nn.Module):
    def __init__(self, conv: nn.Conv3d, blocks: nn.ModuleList):
        super().__init__()
        assert conv.padding[0] == 1, f"expected padding == 1 but got {conv.padding[0]}"
        self.conv = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size[1:])
        self.block = blocks[1]


class Causal(nn.Module):
    def __init__(self, input_shape: tuple, names: tuple[str, ...]):
        super().__init__()
        assert isinstance(input_shape, tuple)
        assert len(input_shape) == 1, "Only one dimension is supported."
        self.parts = nn.ModuleDict({each: nn.Linear(*input_shape, 2) for each in names})


class Positioned(nn.Module):
    def __init__(self, encoding):
        super().__init__()
        assert hasattr(encoding, "grid"), "The encoding should have a grid."
        self.encoding = encoding


class Got(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(each, 2) for each in reversed(config.get("ratios"))])
        self.pretrained = config.get("pretrained")


class Method(nn.Module):
    def __init__(self, backbone: str, backbone_args: dict, lars: bool, optimizer: str):
        super().__init__()
        self.args = backbone_args.copy()
        self.args.pop("pretrained", None)
        self.settings = {"lars": lars, "optimizer": optimizer.lower()}


class Contrastive(Method):
    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.fc = nn.Linear(width, 2)


class Keyed(nn.Module):
    def __init__(self, **options):
        super().__init__()
        if "width" not in options or options.get("depth") is None:
            raise ValueError("Something is not there.")
        self.fc = nn.Linear(options["width"], options["depth"])


class Wired(nn.Module):
    def __init__(self, wiring):
        super().__init__()
        self.wiring = wiring
        self.fc = nn.Linear(self.state_size, 2)

    @property
    def state_size(self):
        return self.wiring.units


def scope() -> dict:
    return {"SimpleNamespace": SimpleNamespace, **globals()}


@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (
            Recommender,
            "Recommender(config={'latent': 64}, dataset=SimpleNamespace(n_users=1000, graph=torch.nn.Identity))",
            4,
        ),
        (
            Rescaled,
            (
                "Rescaled(width=64, env=SimpleNamespace(action_space=type('Box', (SimpleNamespace,), {})("
                "shape=(4,), n=4, low=-numpy.ones((4,), 'float32'), high=numpy.ones((4,), 'float32'), "
                "dtype=numpy.dtype('float32'), sample=lambda: numpy.ones((4,), 'float32'))))"
            ),
            1,
        ),
        (Pool, "Pool(pool=True)", 4),
        (Body, "Body(model=type('Module', (torch.nn.Identity,), {'settings': {'pool': None}})())", 1),
        (
            Convolving,
            (
                "Convolving(conv=torch.nn.Conv3d(in_channels=3, out_channels=64, kernel_size=(3, 3, 3), "
                "padding=1), blocks=torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Identity()]))"
            ),
            9,
        ),
        (Causal, "Causal(input_shape=(64,), names=('a', 'b'))", 9),
        (
            Cloned,
            "Cloned(readout=type('Module', (torch.nn.Identity,), {'number_of_neurons': lambda *_, **__: 2})())",
            3,
        ),
        (Positioned, "Positioned(encoding=SimpleNamespace(grid=64))", 1),
        (Contrastive, "Contrastive(width=64, backbone='', backbone_args={}, lars=False, optimizer='')", 2),
        (Keyed, "Keyed(width=64, depth=2)", 2),
        (Wired, "Wired(wiring=SimpleNamespace(units=64))", 9),
        (Got, "Got(config={'ratios': [2, 2], 'pretrained': None})", 1),
        (Columns, "Columns(columns=[Dense(name='name0'), Sparse(name='name1', size=64)])", 2),
        (Decoder, "Decoder(args=SimpleNamespace(depth=2, multiway=False, dim=64))", 1),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_classes_of_projects_take(cls, expression, trials):
    search = Search(cls.__name__, cls, scope(), partial(attempt, real=False))
    result = search.run()
    assert result is not None, (search.tried, search.error)
    assert result[0] == expression
    assert search.trials <= trials


class Half(nn.Module):
    def forward(self, x):
        return x / 2


class Needing(Half):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Other(Half):
    def forward(self, x):
        return x


class Ready(Half):
    pass


class Also(Half):
    pass


def test_what_inherits_a_forward_as_it_is_stands_for_the_class():
    assert heirs_of(Half, scope()) == [("Also", Also), ("Ready", Ready), ("Needing", Needing)]


def test_an_item_of_a_list_has_a_number():
    choice = {"": Group("call", "Columns", Columns), "columns": Group("list", cls=Dense, size=2)}
    proposals = Proposals(scope(), Columns, inner=False)
    assert proposals.of(choice, "columns.1") == [Group("call", "Dense", Dense)]
    assert "64" in proposals.of(choice, "columns.input")
