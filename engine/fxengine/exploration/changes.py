"""Values that operations change in place: which state of a value an operation sees, and what a change makes of it.

A graph records `x.unsqueeze_(0)` as an operation like any other, and what comes after it still refers to `x`. So a
value has states, one for each change, and who reads it sees the one that the last change before it has left.
"""

import copy
import functools
import operator
from typing import Any, Final

from torch import Tensor

from fxengine.node import Node

_ITEMS: Final = frozenset({operator.setitem, operator.delitem})


def state_for(value: Node, reader: Node | None) -> Node:
    """The value, or the operation that has changed it last before a reader; None reads after all that is recorded."""
    first = value
    while (changed := _changed_by(first)) is not None:
        first = changed
    states = [first]
    for state in states:
        # The list grows while it is walked: what was changed may be changed again.
        states.extend(user for user in state.users if _changed_by(user) is state and _is_before(user, reader))
    return max(states) if len(states) > 1 else first


def is_change(node: Node) -> bool:
    """Whether an operation changes its first argument in place."""
    return _changed_by(node) is not None


def changed(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation makes of its first argument, which is left as it is."""
    first, *others = args
    made = first.clone() if isinstance(first, Tensor) else copy.copy(first)
    target: Any = node.target
    if node.op == "call_method":
        getattr(made, target)(*others, **kwargs)
    else:
        target(made, *others, **kwargs)
    return made


def _changed_by(node: Node) -> Node | None:
    """The value that an operation changes in place; None if it changes none."""
    if node.op not in {"call_method", "call_function"} or not node.args or not _changes(node.target):
        return None
    value = node.args[0]
    return value if isinstance(value, Node) else None


@functools.lru_cache(maxsize=1024)
def _changes(target: Any) -> bool:
    """Whether a method or function changes its first argument, as its name tells."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return (name[-1:] == "_" and name[-2:] != "__") or target in _ITEMS


def _is_before(node: Node, reader: Node | None) -> bool:
    return reader is None or (node is not reader and node < reader)
