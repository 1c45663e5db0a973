"""A module whose import failed is the same one when it is imported again: what was imported on the way refers to it.

Python makes a new one, and the modules of a package that stay imported know the old one, which lacks what it failed on.
"""

import contextlib
from collections.abc import Callable, Generator
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType

from fxengine.patching import Patches


@contextlib.contextmanager
def modules_kept() -> Generator[None]:
    """Execute the modules that fail in the body in themselves again, where they are imported again in it."""
    made: dict[str, ModuleType] = {}

    def creating(_: object) -> Callable[[SourceFileLoader, ModuleSpec], ModuleType]:
        # No frame of ours is on the way while a module is executed: who guards an import is read off the frames.
        return lambda _self, spec: made.setdefault(spec.name, ModuleType(spec.name))

    with Patches() as patches:
        patches.attribute(SourceFileLoader, "create_module", creating)
        yield
