"""The form of a shim."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Shim"]


@dataclass(frozen=True, slots=True)
class Shim:
    """What is to be one node of a graph.

    Attributes:
        package: The package that the shim is about.
        functions: Its functions, as `module:name`, a call of which is one node.
        modules: The packages whose modules, in torch's sense, are leaves.
    """

    package: str
    functions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def leaf_functions(self) -> Iterator[Callable[..., Any]]:
        """Yield those of the functions that the installed version has, of modules that are imported."""
        for each in self.functions:
            module, _, name = each.partition(":")
            function = getattr(sys.modules.get(module), name, None)
            if callable(function):
                yield function
