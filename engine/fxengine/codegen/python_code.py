"""``PythonCode``: generated source, what it refers to, and which line belongs to which node."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from fxengine.node import Node

_COMMENT: Final = re.compile(r"\s*(\033\[\d+m)*(#.*)?").fullmatch
"""An empty line, or a comment, perhaps in colour: it stands after a node but is no part of it."""

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
    _nodes: tuple[Node, ...] = field(default=(), init=False, repr=False, compare=False)
    """The nodes that ``_lineno_map`` has the indices of."""
    _skipped: int = field(default=0, init=False, repr=False, compare=False)
    """How many empty lines at the beginning of the body ``_lineno_map`` counts although ``src`` does not have them."""
    _head: str | None = field(default=None, init=False, repr=False, compare=False)
    """What precedes the body in ``src``, if the body is Python without doubt and so need not be compiled to know."""


def node_lines(code: PythonCode) -> dict[Node, int]:
    """Return for each node that is a statement in ``code`` the number of its first line, counted from 1."""
    lines = code.src.split("\n")
    offset = code._prologue_start - code._skipped
    numbers: dict[Node, int] = {}
    for line, index in itertools.islice((code._lineno_map or {}).items(), code._skipped, None):
        number = offset + line
        if index is not None and number <= len(lines) and not _COMMENT(lines[number - 1]):
            numbers.setdefault(code._nodes[index], number)
    return numbers
