"""``PythonCode``: generated source, what it refers to, and which line belongs to which node."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from fxengine.node import Node

TransformCodeFunc: TypeAlias = Callable[[list[str]], list[str]]
"""Rewrites the body of a generated function, given and returned as pieces of text that follow each other."""


@dataclass
class PythonCode:
    """Everything that is needed to execute a graph as Python code, or to save it.

    Attributes:
        src: The source of the function, with a leading empty line.
        globals: What the names in ``src`` that are not its own refer to.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    """For each line of the body, counted from the ``def`` line as 0, the index of its node."""
    _prologue_start: int = 0
    """The number of the ``def`` line in ``src``, counted from 1."""
    _nodes: tuple[Node, ...] = field(default=(), repr=False, compare=False)
    """The nodes that ``_lineno_map`` has the indices of."""
    _skipped: int = field(default=0, repr=False, compare=False)
    """How many empty lines at the beginning of the body ``_lineno_map`` counts although ``src`` does not have them."""

    @cached_property
    def node_lines(self) -> dict[Node, int]:
        """For each node that is a statement, the number of its last line in ``src``, counted from 1."""
        last = max(self._lineno_map or (0,))  # The empty line after the last statement.
        offset = self._prologue_start - self._skipped
        return {
            self._nodes[index]: offset + line
            for line, index in (self._lineno_map or {}).items()
            if index is not None and line != last
        }
