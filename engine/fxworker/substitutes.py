"""What a constructor gets for what is not there: arrays of absent packages, and models of repositories.

A model that torch.hub would download is a part without a forward, as what an absent package makes: a single step of
the graph.
"""

import contextlib
import sys
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import torch

from fxworker.absent import absent_part, is_array
from fxworker.arrays import arrays_are_made
from fxworker.callers import is_constructing


@contextlib.contextmanager
def absent_things_are_made() -> Generator[None]:
    """Let the body make tensors of what stands for an array, and constructors in it load models that are not there."""
    load = torch.hub.load
    torch.hub.load = _loading(load)
    try:
        with arrays_are_made(is_array):
            yield
    finally:
        torch.hub.load = load


def _loading(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch's function, which gives a constructor a part where it cannot load a model."""

    @wraps(load)
    def loaded(repo_or_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load(repo_or_dir, model, *args, **kwargs)
        except (EOFError, OSError, RuntimeError):  # torch asks whether it may trust a repository, and nobody answers.
            if not is_constructing(sys._getframe(1)):
                raise
            return absent_part(f"{repo_or_dir.partition(':')[0].replace('/', '.')}.{model}")

    return loaded
