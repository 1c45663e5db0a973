"""What is known at one place of a function that is read."""

from dataclasses import dataclass

from fxls.syntactic.values import Class, Value


class Return(Exception):  # noqa: N818 — Not an error: the way out of what is read.
    """Nothing behind this statement runs."""


@dataclass
class Scope:
    """A function that is read: its names, what it returns so far, and whose method it is. Mutable."""

    names: dict[str, Value]
    returned: list[Value]
    yielded: list[Value]
    me: Value | None = None
    cls: Class | None = None
