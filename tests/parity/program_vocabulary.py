"""What generated programs import: functions, classes and modules as people have them, for whoever traces them."""

import collections
import dataclasses
import enum
import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


def T(seed):
    return torch.linspace(-1, 1, 16).roll(seed).reshape(4, 4)


class Pair(NamedTuple):
    left: Any
    right: Any = 2


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - people have these.


@dataclasses.dataclass
class Box:
    value: Any
    scale: float = 2.0


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Holder:
    def __init__(self, value):
        self.value = value

    def __fx_create_arg__(self, tracer):
        return tracer.create_node("call_function", held, args=(tracer.create_arg(self.value),), kwargs={})


def held(value):
    return value


def plain(a, b=1, *rest, scale=2.0, **more):
    for item in rest:
        a = a + item
    return a * scale + b + sum(more.values())


def leaf(a, b=None, *rest, mode=None, **more):
    return a + 1 if b is None else a + b


def second_leaf(pair, *, flag=True):
    return pair[0] + pair[1] if flag else pair[0]


def boxed(box):
    return box["x"] if isinstance(box, dict) else box.value if isinstance(box, Box) else box.left


@torch.jit.script
def scripted(a: Tensor, b: int) -> Tensor:
    return a + b


def deeper(a, depth):
    return a if depth == 0 else deeper(a + depth, depth - 1)


class Inner(nn.Module):
    def __init__(self, gain=2.0):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gain = gain
        self.register_buffer("shift", torch.ones(4))

    def forward(self, a, b=None, *, scale: float = 1.0, **more):
        a = self.linear(a) * self.gain * scale + self.shift
        return a if b is None else self.joined(a, b)

    def joined(self, a, b):
        return a + b * self.shift

    @property
    def doubled(self):
        return self.linear.weight * 2

    @staticmethod
    def still(a):
        return a.neg()


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.blocks = nn.ModuleList([Inner(1.0), nn.Sequential(nn.ReLU(), Inner(3.0))])
        self.again = self.inner

    def forward(self, a):
        a = self.inner(a)
        for index, block in enumerate(self.blocks):
            a = block(a) + index
        return self.again(a, a), {"last": a}


class Several(nn.Module):
    def forward(self, *args, **kwargs):
        return sum(args) + sum(kwargs.values())


class Asked(nn.Module):
    """Answers for attributes that it has not, and has one that is computed when it is read."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.table = {"k": 2.0}

    def __getattr__(self, name):
        if name.startswith("answer"):
            return len(name)
        return super().__getattr__(name)

    @functools.cached_property
    def kept(self):
        return self.linear.weight * 2

    def forward(self, a, /, *, mode="fast", kind=Mode.FAST):
        a = self.linear(a) * self.table["k"] + self.answer
        if mode == "slow":
            return a + self.kept
        return a if kind is Mode.FAST else a - 1


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, scale=1.0):
        return (a * scale).round()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Doubling(nn.Module):
    def forward(self, weight):
        return weight * 2


def halved(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return function(*args, **kwargs) / 2

    return run


@halved
def decorated(a, by=1):
    return a * by


def rows_of(a):
    for index in range(2):
        yield a[index]


class Scaling:
    """A context that scales."""

    def __init__(self, by):
        self.by = by

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.by = 1

    def __call__(self, a):
        return a * self.by
