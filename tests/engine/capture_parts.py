"""What the code of random models uses beside torch: records, modules, decorators, as people have them."""

import contextlib
import dataclasses
import enum
import functools
from typing import Any, NamedTuple

import torch
from torch import nn


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: Any = None

    @property
    def both(self):
        return self.left + self.right["k"]


class Named(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Table(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return (x * scale).round()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.scale + 0 * x, None


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = 2.0

    @property
    def doubled(self):
        return self.linear.weight * self.scale

    def __getattr__(self, name):
        if name == "secret":
            return 3.0
        return super().__getattr__(name)

    def forward(self, x, *, bias=None, mode="mean", **rest):
        x = self.linear(x) * self.secret
        if mode == "sum":
            x = x + x.sum()
        for value in rest.values():
            x = x + value
        return x if bias is None else x + bias


def halved(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return function(*args, **kwargs) / 2

    return run


@halved
def decorated(x, by=1):
    return x * by


def rows_of(x):
    for row in x:
        yield row * 2


@contextlib.contextmanager
def scaled(record):
    record["scale"] = 3.0
    yield record
    record["scale"] = 1.0
