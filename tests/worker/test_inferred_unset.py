"""Constructors with defaults that stand for what has to be given, and that put names together of their arguments."""

import copy
import functools
import os
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pytest
import torch
from torch import distributed, nn

from fxworker.arguments import Search
from fxworker.building import attempt


@dataclass
class PartConfig:
    width: int = -1
    way: Literal["built", "plain"] = "built"


@dataclass
class StackConfig:
    part: PartConfig | None = None
    width: int = 16
    length: int = -1

    def __post_init__(self):
        if self.part is not None:
            self.part.width = self.width


class Unset(nn.Module):
    """Has a size by default that nothing has."""

    def __init__(self, width: int = -1):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))


class Stack(nn.Module):
    def __init__(self, config: StackConfig):
        super().__init__()
        self.config = config
        self.part = self.make()
        self.mask = nn.Parameter(torch.zeros(config.length))

    def make(self):
        config = copy.copy(self.config.part)
        return nn.Linear(config.width, config.width)


class Kernelled(nn.Module):
    """Takes another way than the default one where that cannot be gone."""

    def __init__(self, config: PartConfig):
        super().__init__()
        if config.way == "built":
            os.environ["NO_SUCH_COMPILER"]
        self.fc = nn.Linear(4, 4)


class Pooled(nn.Module):
    def __init__(self, pooling: str, dimensions: int, normalization: str):
        super().__init__()
        self.pool = getattr(nn, f"{pooling.capitalize()}Pool{dimensions}d")(2)
        self.norm = getattr(nn, f"{normalization}Norm{dimensions}d")(4)


def _of_prefix(prefix, table):
    return {key.removeprefix(prefix): value for key, value in table.items() if key.startswith(prefix)}


class Prefixed(nn.Module):
    """Hands on to each of its parts what is called after it."""

    def __init__(self, dim, **kwargs):
        super().__init__()
        enc_kwargs, dec_kwargs = _of_prefix("enc_", kwargs), _of_prefix("dec_", kwargs)
        self.enc = Half(dim=dim, **enc_kwargs)
        self.dec = Half(dim=dim, **dec_kwargs)


class Half(nn.Module):
    def __init__(self, *, dim, num_tokens, depth):
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))


class AnyConfig:
    """Keeps as attributes whatever it is given, as configurations of libraries do."""

    def __init__(self, width: int = 8, **kwargs):
        self.width = width
        vars(self).update(kwargs)


def _any_keywords(constructor):
    @functools.wraps(constructor)
    def made(self, *args, **kwargs):
        constructor(self, *args, **{key: each for key, each in kwargs.items() if key == "width"})
        vars(self).update(kwargs)

    return made


class PlainConfig:
    """Does not say so."""

    def __init__(self, width: int = 8):
        self.width = width

    __init__ = _any_keywords(__init__)


class More(nn.Module):
    """Wants of a configuration what its class does not know."""

    def __init__(self, config: AnyConfig):
        super().__init__()
        assert isinstance(config, AnyConfig)
        assert hasattr(config, "head_config"), "not one of ours"
        self.fc = nn.Linear(config.width, config.head_config["num_classes"])
        self.ended = config.ended * 2


class Wrapped(nn.Module):
    def __init__(self, config: PlainConfig):
        super().__init__()
        assert isinstance(config, PlainConfig)
        self.fc = nn.Linear(config.width, config.head_size)


class Ids(nn.Module):
    def __init__(self, num_special_tokens: int, pad_token_id: int):
        super().__init__()
        assert pad_token_id < num_special_tokens, "no special token"


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class Keyed(nn.Module):
    """Looks up by one key what may be several, as far as one can see."""

    def __init__(self, act_names):
        super().__init__()
        self.several = len(act_names) > 9
        self.act = ACTIVATIONS[act_names]()


class Registry:
    def __init__(self):
        self._known = {"standard": nn.LayerNorm, "late": None}

    def __getitem__(self, key):
        if key not in self._known:
            raise KeyError(f"Unknown kind: {key}")
        return self._known[key]


NORMS = Registry()


class Registered(nn.Module):
    def __init__(self, norm_kind):
        super().__init__()
        self.norm = NORMS[norm_kind](4)


class Grouped(nn.Module):
    """Wants what torch makes of arguments."""

    def __init__(self, group: distributed.ProcessGroup, sample_shape: torch.Size):
        super().__init__()
        assert isinstance(sample_shape, torch.Size)
        self.fc = nn.Linear(8 // group.size(), group.rank() + 1)


class Longest(nn.Module):
    """Takes any number of modules, but for none."""

    def __init__(self, *layers, bias=True):
        super().__init__()
        self.widest = max(each.in_features for each in layers)
        self.layers = nn.ModuleList(layers)


class Activated(nn.Module):
    """Has a class by default where it needs an instance."""

    def __init__(self, width: int, act=nn.LeakyReLU):
        super().__init__()
        parts = [
            nn.Linear(width, width),
            act,
        ]
        self.block = nn.Sequential(*parts)


class Reshaped(nn.Module):
    def __init__(self, *dims: int):
        super().__init__()
        assert dims
        self.weight = nn.Parameter(torch.ones(*dims))


class Conditioned(nn.Module):
    """Does without what depends on the class where there is none."""

    def __init__(self, num_classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(8) if num_classes == 0 else nn.Embedding(num_classes, 8)


@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (Conditioned, "Conditioned(num_classes=10)", 1),
        (Longest, "Longest(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))", 2),
        (Activated, "Activated(width=64, act=torch.nn.LeakyReLU())", 2),
        (Reshaped, "Reshaped(64, 64)", 2),
        (Keyed, "Keyed(act_names='relu')", 3),
        (Registered, "Registered(norm_kind='standard')", 2),
        (Grouped, "Grouped(group=torch.distributed.ProcessGroup(0, 1), sample_shape=torch.Size([4]))", 1),
        (More, "More(config=AnyConfig(head_config={'num_classes': 10}, ended=64))", 3),
        (Wrapped, "Wrapped(config=PlainConfig(head_size=16))", 2),
        (Ids, "Ids(num_special_tokens=2, pad_token_id=0)", 1),
        (Unset, "Unset(width=64)", 2),
        (Stack, "Stack(config=StackConfig(part=PartConfig(), length=32))", 4),
        (Kernelled, "Kernelled(config=PartConfig(way='plain'))", 2),
        (Pooled, "Pooled(pooling='Avg', dimensions=2, normalization='Batch')", 5),
        (Prefixed, "Prefixed(dim=64, enc_num_tokens=1000, enc_depth=2, dec_num_tokens=1000, dec_depth=2)", 5),
    ],
)
def test_what_stands_for_something_that_has_to_be_given_is_given(cls, expression, trials):
    search = Search(cls.__name__, cls, globals(), partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert found[0] == expression
    assert search.trials <= trials
