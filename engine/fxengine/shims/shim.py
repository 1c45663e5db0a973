"""The form of a shim."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Shim"]


@dataclass(frozen=True, slots=True)
class Shim:
    """What is to be one node of a graph.

    Attributes:
        package: The package that the shim is about.
        functions: Its functions, as `module:name`, a call of which is one node.
        modules: The packages whose modules, in torch's sense, are leaves.
        shapes: Those of the functions that cannot run on tensors without data, with what returns the like of their
            results.
    """

    package: str
    functions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    shapes: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])

    def leaf_functions(self) -> Iterator[tuple[Callable[..., Any], Callable[..., Any] | None]]:
        """Yield those of the functions that the installed version has, of modules that are imported, with their shapes.

        What stands for the shapes is None where the function itself runs without data.
        """
        for each in self.functions:
            module, _, name = each.partition(":")
            function = getattr(sys.modules.get(module), name, None)
            if callable(function):
                yield function, self.shapes.get(each)
