"""What an argument of each kind may be where nothing more is known of it."""

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final

import torch
from torch import nn

from fxworker.choices import Group, Value, is_number, literal
from fxworker.evidence import Called, Kind
from fxworker.hints import ARGUMENTS, ARRAYS, TENSORS

TAKES_ANY: Final = "lambda self, *given, **named: (*given, *named.values())[0]"
"""A `forward` that takes whatever it is called with, and returns the first of it."""

SCORES: Final = f"{TAKES_ANY}[..., None].repeat_interleave(64, -1).float()"
"""A `forward` that gives a score of each class for whatever it is called with: of each token, mostly."""

STAND_INS: Final = frozenset(
    {"torch.nn.Identity()", "torch.nn.functional.relu", "torch.nn.GELU()", "torch.nn.Identity"}
)
"""What stands in for a module of which nothing is known."""

_LAYER: Final = "torch.nn.Identity()"
"""What stands in for one where there may be several."""

_HOLDING_SEVERAL: Final = ("(", "[", "torch.nn.ModuleList(", "torch.nn.ModuleDict(")
"""How what holds several begins."""

_CLASS: Final = "torch.nn.Identity"
_CLASS_OF_SEVERAL: Final = re.compile(r"(?<=[\[ ])torch\.nn\.Identity(?=[,\]])")
"""What stands in for a class, and for one in a list of such."""

_OF_SIZES: Final = (
    "type('Module', (torch.nn.Linear,), "
    "{'forward': lambda self, given, *_, **__: torch.nn.Linear.forward(self, given)})"
)
"""What stands in for a class of modules, and one that is given what enters and what comes out, as `make(8, 16)`."""

_GATES: Final = {
    "torch.nn.Identity()": "torch.nn.GLU()",
    "torch.nn.GELU()": "torch.nn.GLU()",
    "torch.nn.functional.relu": "torch.nn.functional.glu",
    "torch.nn.Identity": "torch.nn.GLU",
}
"""What gives half of what it is given, by what stands in for a module that gives all of it."""

_HALF: Final = re.compile(r"\[\.\.\., :\d+\]")

_ANY_CALL: Final = re.compile(r"type\('Module', \(torch\.nn\.(?:Identity|Linear),\), \{'forward': .*\}\)\((?:1, 1)?\)")

_NORM: Final = "torch.nn.BatchNorm2d"
LAYER_NORM: Final = "torch.nn.LayerNorm"
_CONVOLUTION: Final = re.compile(r"Conv2d|conv\d?x?\d?(2d)?(_\w+)?$")
"""Norms of channels, and of the last size, and what makes a convolution."""

_READ: Final[dict[str, tuple[str, ...]]] = {
    "torch.nn.Embedding(1000, 64, padding_idx=0)": ("num_embeddings", "embedding_dim"),
    "torch.nn.Linear(64, 64)": ("in_features", "out_features"),
    "torch.nn.Conv2d(64, 64, 3, padding=1)": ("in_channels", "out_channels", "kernel_size"),
}
"""Layers, with the attributes by which one is known: nothing else calls sizes so."""

OF_KIND: Final[dict[Kind, tuple[Value, ...]]] = {
    "number": ("64", "4", "2", "1", "8", "0.1"),
    "string": ("'relu'", "'default'", "'same'", "''"),
    "sequence": ("[64, 64]", "[2, 2, 2, 2]", "(2, 2)", "[64, 64, 64]", "[2, 2, 2, 2, 2]", "[]"),
    "mapping": (Group("mapping"),),
    "object": (Group("namespace"), Group("module"), ARGUMENTS, Group("mapping")),
    "callable": ("torch.nn.Identity()", "torch.nn.functional.relu", "torch.nn.GELU()", Group("module")),
    "class": ("torch.nn.Identity", "torch.nn.BatchNorm2d", "torch.nn.LayerNorm", "torch.nn.GELU"),
    "tensor": (*TENSORS, *ARRAYS),
    "flag": ("False", "True"),
}

UNKNOWN: Final[tuple[Value, ...]] = (
    "64", "torch.nn.Identity()", "(64, 64)", "None", "0.1", "True", "'default'", "torch.nn.Identity",
)  # fmt: skip


def takes_any(results: tuple[int, ...] = ()) -> str:
    """Return a `forward` that takes whatever it is called with, and returns the first of it, or several of it.

    Args:
        results: The places of what it returns; none where that is one value.
    """
    given = TAKES_ANY.removesuffix("[0]")
    if not any(results):
        return f"{given}[:1] * {len(results)}" if results else TAKES_ANY
    start, _, several = given.partition(": ")
    return f"{start}: tuple({several}[each] for each in {results})"


def scoring(now: Value) -> Iterator[str]:
    """Yield what gives scores of classes in place of what stands in for one module."""
    if is_stand_in(now):
        yield f"type('Module', (torch.nn.Identity,), {{'forward': {SCORES}}})()"


def any_call(results: tuple[int, ...] = ()) -> str:
    """Return a module with such a `forward`."""
    return f"{_any_class(results)}()"


def _any_class(results: tuple[int, ...]) -> str:
    return f"type('Module', (torch.nn.Identity,), {{'forward': {takes_any(results)}}})"


def is_stand_in(value: Value | None) -> bool:
    """Whether an expression stands in for a module of which nothing is known."""
    return isinstance(value, str) and (value in STAND_INS or _ANY_CALL.fullmatch(value) is not None)


def has_stand_in(expression: str) -> bool:
    """Whether an expression hands on what stands in for a module, which gives what it is given."""
    return "torch.nn.Identity" in expression


def halving(now: Value, wanted: int) -> Iterator[str]:
    """Yield what gives half of what it is given, as gates do, in place of what stands in for a module.

    Args:
        now: What stands in for it now.
        wanted: How wide the half is.
    """
    if not isinstance(now, str):
        return
    if now in _GATES:
        yield _GATES[now]
    elif _ANY_CALL.fullmatch(now) and _HALF.search(now) is None:
        one = "(*given, *named.values())"
        yield now.replace(f"{one}[:1]", f"({one}[0][..., :{wanted}],)").replace(
            f"{one}[0]}}", f"{one}[0][..., :{wanted}]}}"
        )


def giving(value: Value, results: tuple[int, ...]) -> Value:
    """Return what gives the values that are taken from its result, where a module stands in for another."""
    is_one = isinstance(value, str) and value in STAND_INS and not value.endswith("Identity")
    return any_call(results) if is_one and results else value


def to_call(now: Value, results: tuple[int, ...]) -> Iterator[str]:
    """Yield what can be called with anything in place of what stands in for one module or several, or of numbers."""
    stand_in = any_call(results)
    if now == _CLASS:  # What it makes is called.
        yield from (_OF_SIZES, _any_class(results))
        return
    if now != stand_in and (now == "None" or is_stand_in(now) or fits("number", now)):
        yield stand_in
    if isinstance(now, str) and now.startswith(_HOLDING_SEVERAL) and _LAYER in now:
        yield now.replace(_LAYER, stand_in)
    elif isinstance(now, str) and _CLASS_OF_SEVERAL.search(now):
        yield _CLASS_OF_SEVERAL.sub(_any_class(results), now)
    if isinstance(now, str) and now.startswith("torch.nn.Linear("):
        # It is there for its parameters.
        yield f"type('Module', (torch.nn.Linear,), {{'forward': {takes_any(results)}}})(1, 1)"
    found = literal(now) if isinstance(now, str) else None
    if isinstance(found, list | tuple) and found and all(type(each) is int for each in found):
        yield f"[{', '.join([stand_in] * len(found))}]"


def for_call(proposed: Value, called: Called | None, *, of_module: bool) -> Value:
    """Return what can be called as code calls it, for something of which that is all one knows; it gives what it gets.

    It is a function: a module that is in no module would be unknown to a trace.

    Args:
        proposed: What would be taken if it was not called, by its name mostly.
        called: How it is called, None if it is not.
        of_module: Whether it is a method of a module.
    """
    if called is None or isinstance(proposed, Group):
        return proposed
    if not called.has_arguments:
        return Group("function")
    method = takes_any((0,) * called.results)
    return method if of_module else method.replace("self, ", "", 1)


def fits(kind: Kind | None, value: Value) -> bool:  # noqa: PLR0911 — One for each kind.
    """Whether an expression may be of a kind; one that is not known is of any."""
    if kind is None or isinstance(value, Group):
        return True
    found = literal(value)
    match kind:
        case "number":
            return is_number(value)
        case "string":
            return isinstance(found, str)
        case "sequence":
            return isinstance(found, list | tuple)
        case "mapping":
            return isinstance(found, dict) and bool(found)
        case "flag":
            return isinstance(found, bool | type(None))
        case "class":
            return value.startswith("torch.") and not value.endswith(")") and "functional" not in value
        case "callable":
            return value.startswith("torch.nn.") and (value.endswith(")") or "functional" in value)
        case _:
            return False


def is_other_literal(value: Value, kind: Kind) -> bool:
    """Whether an expression is a literal of another kind."""
    return isinstance(value, str) and literal(value) is not NotImplemented and not fits(kind, value)


def of_convolutions(values: list[str], cls: Any) -> list[str]:
    """Return values with a norm of channels before one of the last size, where a constructor makes convolutions."""
    code = getattr(getattr(cls, "__init__", None), "__code__", None)
    is_meant = LAYER_NORM in values and _NORM in values and any(map(_CONVOLUTION.match, getattr(code, "co_names", ())))
    return [_NORM, *(each for each in values if each != _NORM)] if is_meant else values


def layers_read(fields: Collection[str], kind: Kind | None) -> list[Value]:
    """Return the layers of torch that have all of the attributes which are read, and some that only they have."""
    if kind != "object":
        return []
    return [
        each
        for each, telling in _READ.items()
        if not set(telling).isdisjoint(fields) and all(hasattr(_made(each), name) for name in fields)
    ]


@cache
def _made(expression: str) -> nn.Module:
    with torch.device("meta"):
        return eval(expression, {"torch": torch})  # noqa: S307 - One of the expressions above.
