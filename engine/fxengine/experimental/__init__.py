"""Passes that torch.fx keeps under this name, and that people import from there."""

import importlib
import importlib.util
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Return a submodule that nobody has imported yet."""
    qualified = f"{__name__}.{name}"
    if name.startswith("__") or importlib.util.find_spec(qualified) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(qualified)
