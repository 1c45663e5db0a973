"""Analyses and transformations of graphs, each in a module of its own, named as in torch.fx where torch.fx has one."""

import importlib
import importlib.util
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Return a submodule that nobody has imported yet."""
    qualified = f"{__name__}.{name}"
    if name.startswith("__") or importlib.util.find_spec(qualified) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(qualified)
