"""Packages that import a submodule when somebody reads it as an attribute.

`import torch` loads most of torch.fx's modules, and people count on that: they write `torch.fx.passes.shape_prop`
without an import of its own. Here nothing is loaded that nobody needs.
"""

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType

__all__ = ["submodules_of"]


def submodules_of(package: str) -> Callable[[str], ModuleType]:
    """Return what a package has as its `__getattr__`: it imports the submodule of that name.

    Args:
        package: The package's `__name__`.
    """

    def submodule(name: str) -> ModuleType:
        qualified = f"{package}.{name}"
        if name.startswith("__") or importlib.util.find_spec(qualified) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(qualified)

    return submodule
