"""What an expression of a model's code may stand for, as far as its syntax tells.

Only two things are ever reported about: a value that is symbolic for certain, and a module that is no part of the
model. Whatever is less certain is `PERHAPS`, of which nothing is said.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Symbolic:
    """What torch.fx has in place of a tensor, or of what a tensor is asked; `metadata` is of a shape or a type."""

    metadata: bool = False


@dataclass(frozen=True, slots=True)
class Perhaps:
    """Something that may be symbolic, or hold something symbolic.

    It is `opaque` where it came out of a call that cannot be traced: nothing that it is asked counts.
    """

    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Plain:
    """Something that is not symbolic; nothing else is known of it."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that the model owns and that is no parameter: it has its value while the model is traced."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that stands in the text."""

    value: Any


@dataclass(frozen=True, slots=True)
class Items:
    """A list, tuple, set or dict: its items if they are known, else what each of them may be.

    `holds` says that something symbolic is among them for certain, though nobody knows which it is.
    """

    items: "tuple[Value, ...] | None"
    each: "Value"
    mapping: bool = False
    holds: bool = False


@dataclass(frozen=True, slots=True)
class External:
    """Something that is imported, by its dotted name: `torch.zeros`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """A class of the file."""

    node: ast.ClassDef
    bases: "tuple[Value, ...]"
    methods: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]


@dataclass(frozen=True, slots=True)
class Module:
    """An instance of a class of the file or of a library, with what its constructor stored.

    `registered` says that it is a part of the model: one in a plain list, or made in `forward`, is not.
    """

    of: "Class | External"
    attributes: "Mapping[str, Value]" = field(default_factory=dict, compare=False, hash=False)
    parts: "tuple[Value, ...]" = ()
    registered: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of the file, with the names around it, and the instance that it is bound to."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    around: "Mapping[str, Value]"
    bound: "Value | None" = None
    cls: Class | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a value about which only its name is known."""

    owner: "Value"
    name: str


Value: TypeAlias = (
    Symbolic | Perhaps | Plain | Buffer | Constant | Items | External | Class | Module | Function | Method
)

SYMBOLIC: Final = Symbolic()
METADATA: Final = Symbolic(metadata=True)
PERHAPS: Final = Perhaps()
OPAQUE: Final = Perhaps(opaque=True)
PLAIN: Final = Plain()
NONE: Final = Constant(None)


def holds_symbolic(value: Value, depth: int = 4) -> bool:
    """Whether a value is symbolic, or a collection that holds such a value for certain."""
    if isinstance(value, Items) and depth:
        parts = value.items if value.items is not None else (value.each,)
        return value.holds or any(holds_symbolic(part, depth - 1) for part in parts)
    return isinstance(value, Symbolic)


def may_be_symbolic(value: Value, depth: int = 4) -> bool:
    """Whether a value may be symbolic, or hold something that is."""
    match value:
        case Symbolic() | Perhaps():
            return True
        case Items() if depth:
            return any(may_be_symbolic(part, depth - 1) for part in (*(value.items or ()), value.each))
        case Method():
            return may_be_symbolic(value.owner, depth - 1)
        case _:
            return False


def combined(values: Iterable[Value]) -> Value:
    """Return what an operation on values gives: symbolic if one of them is, and no metadata if one is none."""
    values = list(values)
    symbolic = [each for each in values if isinstance(each, Symbolic)]
    if symbolic:
        return METADATA if all(each.metadata for each in symbolic) else SYMBOLIC
    if any(holds_symbolic(each) for each in values):
        return SYMBOLIC
    if any(each == OPAQUE for each in values):
        return OPAQUE
    return PERHAPS if any(may_be_symbolic(each) for each in values) else PLAIN


def joined(one: Value, other: Value) -> Value:
    """Return what a value is that may be either of two."""
    if one is other or one == other:
        return one
    if isinstance(one, Symbolic) and isinstance(other, Symbolic):
        return SYMBOLIC
    if isinstance(one, Items) and isinstance(other, Items) and one.mapping == other.mapping:
        each = other.each if one.items == () else one.each if other.items == () else joined(one.each, other.each)
        if one.items is not None and other.items is not None and len(one.items) == len(other.items):
            return Items(tuple(map(joined, one.items, other.items)), each, one.mapping)
        return Items(None, each, one.mapping, holds_symbolic(one) and holds_symbolic(other))
    return PERHAPS if may_be_symbolic(one) or may_be_symbolic(other) or _may_run(one) or _may_run(other) else PLAIN


def joined_all(values: Iterable[Value]) -> Value:
    """Return what a value is that may be any of several; plain if there are none."""
    found: Value | None = None
    for value in values:
        found = value if found is None else joined(found, value)
    return PLAIN if found is None else found


def collection(items: Iterable[Value], *, mapping: bool = False) -> Items:
    """Return a collection of known items."""
    items = tuple(items)
    return Items(items, joined_all(items), mapping)


def truth(value: Value) -> bool | None:
    """Return whether a value is true, None where that is not known."""
    match value:
        case Constant():
            return bool(value.value)
        case Items(items=items) if items is not None:
            return bool(items)
        case Function() | Class() | External() | Method():
            return True
        case _:
            return None


def _may_run(value: Value) -> bool:
    """Whether calling a value may give anything: a module or function of the file, or nothing known."""
    return isinstance(value, Module | Function | Class)


def outcome_of(value: Value) -> Value:
    """Return what comes out of something that is not known: perhaps something symbolic, if such a thing went in."""
    if isinstance(value, Symbolic):
        return PERHAPS
    if isinstance(value, Perhaps):
        return value
    return PERHAPS if may_be_symbolic(value) or not isinstance(value, Plain | Constant | Buffer) else PLAIN
