"""Captures that have to succeed, compared with eager mode."""

import copy
from typing import Any

import torch
from torch import nn

import fxengine
from fxengine.capturing import Capture

__all__ = ["captured", "captured_for_many_runs", "plain", "targets"]


def captured(root: Any, *args: Any, **kwargs: Any) -> Capture:
    """Return what capturing gives; it must succeed, and do on fresh inputs what eager mode does."""
    found = fxengine.capture(root, (args, kwargs))
    assert not found.problems, found.problems[0].headline
    found.graph.lint()
    for fresh in ((args, kwargs), _fresh((args, kwargs))):
        outputs = []
        for run in (root, found.graph_module):
            given, named = copy.deepcopy(fresh)
            torch.manual_seed(0)
            has_state = isinstance(run, nn.Module) and next(run.buffers(), None) is not None
            outputs.append((copy.deepcopy(run) if has_state else run)(*given, **named))
        torch.testing.assert_close(plain(outputs[1]), plain(outputs[0]), equal_nan=True)
        assert type(outputs[1]) is type(outputs[0])
    return found


def captured_for_many_runs(net: nn.Module, x: torch.Tensor) -> nn.Module:
    """Capture what changes a model; each run must do what eager mode does then. Return what ran in eager mode."""
    found = fxengine.capture(net, x)
    twin = copy.deepcopy(net)
    assert not found.problems, found.problems[0].headline
    for _ in range(3):
        fresh = torch.randn_like(x)
        torch.testing.assert_close(found.graph_module(fresh), twin(fresh))
    return twin


def _fresh(value: Any) -> Any:
    """Return the same with other numbers."""
    if isinstance(value, torch.Tensor):
        return torch.randn_like(value) if value.is_floating_point() else value.flip(0)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_fresh, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_fresh, value))
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    return value


def plain(value: Any) -> Any:
    """Return records as dicts, so that they can be compared."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, torch.Tensor | int | float):
        return value
    return plain(vars(value)) if hasattr(value, "__dict__") and not isinstance(value, type) else len(repr(value))


def targets(found: Capture) -> list[Any]:
    """Return the names of what the nodes call."""
    return [getattr(node.target, "__name__", node.target) for node in found.graph.nodes]
