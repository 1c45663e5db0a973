"""Arguments that are inferred for constructors of which nothing says how they are called."""

import enum
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.conventions import usual_values


@dataclass
class NetConfig:
    width: int = 8


class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        assert dim % num_heads == 0, "dim must be divisible by num_heads"


class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, 2)


class Annotated(nn.Module):
    def __init__(self, settings: NetConfig, kind: Kind, mode: Literal["a", "b"], flag: bool, inner: nn.Module):
        super().__init__()
        self.fc = nn.Linear(settings.width, kind.value)
        self.inner = inner


class Modes(nn.Module):
    def __init__(self, channels, mode):
        super().__init__()
        if mode == "nearest":
            self.up = nn.Upsample(scale_factor=2)
        elif mode in ("bilinear", "bicubic"):
            self.up = nn.Upsample(scale_factor=2, mode=mode)
        else:
            raise ValueError(mode)


class Stages(nn.Module):
    def __init__(self, depths, dims):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(dim, dim) for depth, dim in zip(depths, dims, strict=False))
        assert len(self.stages)


class Bounded(nn.Module):
    def __init__(self, arity):
        super().__init__()
        if not 1 <= arity <= 7:
            raise ValueError("arity must be between 1 and 7")


class Optional(nn.Module):
    def __init__(self, sequence_length=None):
        super().__init__()
        if sequence_length is None:
            raise ValueError("sequence_length is needed")


class Passing(Attention):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Impossible(nn.Module):
    def __init__(self, dim, thing):
        super().__init__()
        raise RuntimeError("never")


class Widths(nn.Module):
    def __init__(self, first: int, widths: complex | bytes | str | list):
        super().__init__()
        sizes = [first, *widths]
        self.layers = nn.ModuleList(nn.Linear(sizes[at], sizes[at + 1]) for at in range(len(widths)))


class Cased(nn.Module):
    def __init__(self, rnn_type, width):
        super().__init__()
        given = {"rnn_type": rnn_type, "width": width}
        self.inner = Cell(**given)


class Cell(nn.Module):
    def __init__(self, rnn_type, width):
        super().__init__()
        assert rnn_type.upper() in ["RNN", "LSTM", "GRU"]
        self.cell = getattr(nn, rnn_type.upper())(width, width)


class Wrapping(nn.Module):
    def __init__(self, inner):
        super().__init__()
        assert isinstance(inner, Configured)
        self.inner = inner


class Strict(nn.Module):
    def __init__(self, settings, inner):
        super().__init__()
        if not isinstance(settings, (NetConfig,)):
            raise TypeError("wrong settings")
        self.inner = inner


class Listing(nn.Module):
    def __init__(self, encoders, decoders):
        super().__init__()
        assert len(encoders) == len(decoders) + 1
        self.encoders, self.decoders = nn.ModuleList(encoders), nn.ModuleList(decoders)


class Stack(nn.Module):
    def __init__(self, *, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))


class Base(nn.Module):
    def __init__(self, *, num_tokens, dim, **more):
        super().__init__()
        self.embed = nn.Embedding(num_tokens, dim)
        self.stack = Stack(dim=dim, **more)


class Special(Base):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Around(nn.Module):
    def __init__(self, transformer: Special):
        super().__init__()
        self.inner = transformer


class Named(nn.Module):
    config_class = NetConfig

    def __init__(self, config):
        super().__init__()
        if type(config) is not NetConfig:
            raise TypeError("another class of configurations, please")
        self.fc = nn.Linear(config.width, 2)


CLASSES = (
    Attention,
    Configured,
    Annotated,
    Modes,
    Stages,
    Bounded,
    Optional,
    Passing,
    Cased,
    Wrapping,
    Strict,
    Listing,
)


def search(cls: type) -> Search:
    return Search(cls.__name__, cls, {"torch": torch, **globals()}, partial(attempt, real=False))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_arguments_are_found_and_written_as_an_expression(cls):
    found = search(cls).run()
    assert found is not None
    expression, root = found
    assert isinstance(root, cls)
    assert isinstance(eval(expression, {**globals(), "torch": __import__("torch")}), cls)


def test_a_list_that_may_be_empty_is_not():
    _, root = search(Widths).run()
    assert len(root.layers) > 0


def test_what_was_tried_is_known_when_nothing_fits():
    vain = search(Impossible)
    assert vain.run() is None
    assert vain.tried.startswith("Impossible(dim=")
    assert isinstance(vain.error, RuntimeError)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("in_channels", "3"),
        ("num_classes", "10"),
        ("dim", "64"),
        ("embed_dim", "64"),
        ("num_heads", "4"),
        ("depth", "2"),
        ("dropout", "0.1"),
        ("vocab_size", "1000"),
        ("kernel_size", "3"),
        ("moving_avg_window_size", "25"),
        ("num_of_vertices", "16"),
        ("num_patches", "16"),
        ("actfn", "torch.nn.GELU"),
        ("ndim", "2"),
        ("use_bias", "True"),
        ("norm_layer", "torch.nn.LayerNorm"),
    ],
)
def test_usual_names(name, first):
    assert usual_values(name)[0] == first


def test_an_unusual_name_says_nothing():
    assert usual_values("zzz") == ()
    assert usual_values("l2_reg_fact") == ()  # No activation.
