"""Random models, as source: a few steps in a row, each a piece of code that reads and sets `x`.

Compared with eager mode are outputs, gradients, and what became of the inputs. A capture may give up, but what it gives
must be right, in each of several runs, and for other inputs that keep its guards.
"""

import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import itertools
import linecache
import math
import operator
import random
import types
import typing
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import prune

import fxengine
from tests.engine import capture_parts
from tests.engine.capture_code_steps import CODE_STEPS
from tests.engine.capture_steps import STATE_HELPERS, STATE_STEPS

__all__ = ["STEPS", "captured", "wrong_in"]

STEPS = {**STATE_STEPS, **CODE_STEPS}
_NAMES = {
    **vars(capture_parts),
    **{each.__name__: each for each in (collections, contextlib, contextvars, copy, dataclasses, enum, functools)},
    **{each.__name__: each for each in (itertools, math, operator, random, torch, types, typing, weakref)},
    "nn": nn,
    "np": np,
    "prune": prune,
    "deque": collections.deque,
}
_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        pass

    @functools.cached_property
    def twice(self):
        return 2.0

"""


def _source_of(names: list[str], returned: str) -> str:
    """Return the source of a model with these steps, one after the other."""
    made, done = [], []
    for n, name in enumerate(names):
        first, then = (each.format(n=n) for each in STEPS[name])
        made += first.splitlines()
        done += then.splitlines()
    head, body = _NET.split("        pass\n")
    constructor = "".join(f"        {line}\n" for line in made)
    forward = "".join(f"        {line}\n" for line in ("x = inputs", *done, f"return {returned}"))
    return f"{STATE_HELPERS}{head}{constructor}{body}    def forward(self, inputs):\n{forward}"


def _net(source: str, *, training: bool) -> nn.Module:
    """Make a model whose class, tables and functions nobody else has."""
    path = f"<model {abs(hash(source))}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    scope: dict[str, Any] = {**_NAMES, "__name__": "random_model"}
    exec(compile(source, path, "exec"), scope)
    torch.manual_seed(0)
    return scope["Net"]().train(training)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if dataclasses.is_dataclass(value):
        value = vars(value)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [each for item in items for each in _tensors(item)]


def _gradients(outputs: list[torch.Tensor], parameters: Mapping[str, nn.Parameter]) -> Any:
    """Return the gradients of parameters, by name, -1 where that fails."""
    derived = [each.abs().sum() for each in outputs if each.requires_grad]
    if not derived or not parameters:
        return None
    try:
        total = functools.reduce(operator.add, derived)
        found = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    except RuntimeError:  # What they need was changed in place.
        return -1
    return {name: each for name, each in zip(parameters, found, strict=True) if each is not None and each.any()}


def _runs(run: Any, inputs: list[torch.Tensor], parameters: Mapping[str, nn.Parameter]) -> list[Any]:
    """Return what several runs in a row give: outputs, inputs afterwards, and gradients."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    found: list[Any] = []
    for each in inputs:
        given = each.clone()
        outputs = _tensors(run(given))
        found.append([*(output.detach().clone() for output in outputs), given.clone()])
        found.append([output.requires_grad for output in outputs])
        found.append(_gradients(outputs, parameters))
    return found


def captured(names: list[str], returned: str = "x", *, training: bool = False) -> fxengine.capturing.Capture:
    """Return the capture of a model with these steps."""
    return fxengine.capture(_net(_source_of(names, returned), training=training), torch.randn(2, 4))


def wrong_in(
    names: list[str],
    returned: str = "x",
    *,
    training: bool,
    shape: tuple[int, int] = (2, 4),
    dtype: torch.dtype = torch.float32,
) -> str:
    """Return what is wrong with the capture of such a model, "" if nothing is.

    Inputs of another shape and type than those of the capture, which are `(2, 4)`, count where they keep its guards.
    """
    source = _source_of(names, returned)
    eager, net = (_net(source, training=training) for _ in range(2))
    parameters = [dict(each.named_parameters()) for each in (eager, net)]
    found = fxengine.capture(net, torch.randn(2, 4))
    generator = torch.Generator().manual_seed(7)
    inputs = [torch.randn(shape, generator=generator, dtype=dtype) for _ in range(3)]
    if found.graph_module is None or found.check_guards(inputs[0]):
        return ""
    try:
        wanted = _runs(eager, inputs, parameters[0])
    except Exception:  # noqa: BLE001 - not every order of the steps makes sense.
        return ""
    try:
        torch.testing.assert_close(
            _runs(found.graph_module, inputs, parameters[1]), wanted, equal_nan=True, rtol=1e-4, atol=1e-4
        )
    except AssertionError as error:
        asserted = "the graph holds for" in str(error)
        return "" if asserted else f"{error}\n{source}\n{found.graph}"
    except Exception as error:  # noqa: BLE001 - what the graph raises and eager mode does not.
        return f"{type(error).__name__}: {error}\n{source}\n{found.graph}"
    return ""
