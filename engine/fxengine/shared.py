"""Modules of torch.fx of which there must be one in a process: they are torch's own, under the engine's names too.

torch's dispatcher, autograd and export read and write what is in there (settings, symbolic sizes, which node is being
replayed). A second one would be asked by nobody, so a script whose imports were changed gets the first. None of them
makes or takes graphs. They are loaded when somebody imports them.
"""

import importlib
import sys

__all__ = ["share"]


def share(name: str) -> None:
    """Make a module of the engine, while it is being imported, torch.fx's module of the same name.

    Args:
        name: The module's `__name__`.

    Raises:
        ModuleNotFoundError: The torch that is installed has no such module.
    """
    sys.modules[name] = importlib.import_module(f"torch.fx{name.removeprefix('fxengine')}")
