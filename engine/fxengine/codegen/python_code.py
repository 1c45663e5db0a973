"""``PythonCode``: generated source, what it refers to, and which line belongs to which node."""

from collections.abc import Callable
from dataclasses import dataclass, field
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
        node_lines: For each node that has one the number of its (last) line in ``src``, counted from 1.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    """For each line of the body, counted from the ``def`` line as 0, the index of its node."""
    _prologue_start: int = 0
    """The number of the ``def`` line in ``src``, counted from 1."""
    node_lines: dict[Node, int] = field(default_factory=dict[Node, int])
