"""What expressions of a forward stand for while it is read: arguments, parts of them, objects of the model, nothing.

Nothing is run but Python's own questions about plain values.
"""

import ast
import builtins
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final

from torch import Tensor, nn

from fxengine.proxy import Proxy
from fxengine.syntax import COMPARISONS

__all__ = [
    "COUNTING",
    "EXTENT",
    "KEEPS_SHAPE",
    "MOST_ROUNDS",
    "OF_MAPPINGS",
    "ROUNDING",
    "SHAPE",
    "SIZING",
    "UNKNOWN",
    "Absent",
    "Given",
    "Part",
    "Raised",
    "Scope",
    "Turned",
    "compared",
    "first_of",
    "inherited",
    "is_plain",
    "merged",
    "of_python",
    "ordered",
    "rounds",
    "still",
    "truth",
    "turned",
    "variable",
]

MOST_ROUNDS: Final = 5
"""How often a loop is read that goes over layers and inputs together."""

KEEPS_SHAPE: Final = frozenset({
    "contiguous", "float", "half", "double", "bfloat16", "to", "type", "type_as", "clone", "detach", "clamp", "cuda",
    "cpu", "relu", "gelu", "sigmoid", "tanh", "dropout", "silu", "softmax", "normalize", "requires_grad_",
})  # fmt: skip
"""Functions and methods behind which a tensor has the shape that it had before."""

SIZING: Final = frozenset({"view", "reshape", "expand", "zeros", "ones", "randn", "rand", "new_zeros", "new_ones"})
"""Functions and methods of which the arguments are sizes."""

COUNTING: Final = frozenset({"range", "arange"})
"""What counts up to its arguments."""

ROUNDING: Final = frozenset({"int", "round", "ceil", "floor", "trunc", "abs"})
"""What gives a number that is as much a size as what it is given."""

OF_MAPPINGS: Final = frozenset({"get", "items", "keys", "setdefault", "update"})
"""What mappings can be asked, and tensors cannot."""

_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
"""How numbers are compared."""

_ON_PLAIN: Final = frozenset[Any]({getattr, hasattr, isinstance, len, callable, int, bool, float, max, min, type})
"""What is simply called with what is known."""

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    **COMPARISONS,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


@dataclass(frozen=True, slots=True)
class Given:
    """A tensor of the shape of an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Raised:
    """A tensor of the shape of an argument, with one dimension of one more in front."""

    name: str


@dataclass(frozen=True, slots=True)
class Part:
    """An item of an argument."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class Turned:
    """The items of an argument, the last of them first."""

    name: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The default None of a parameter that was not passed."""

    name: str


class _Unknown:
    """A value of which nothing is known."""


UNKNOWN: Final = _Unknown()

SHAPE: Final = _Unknown()
"""The sizes of a tensor, of which nothing else is known."""

EXTENT: Final = _Unknown()
"""One of them."""

Scope = dict[str, Any]
"""What the local variables of a function stand for."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """What `zip` returns."""

    columns: tuple[Any, ...]


def variable(function: FunctionType, name: str) -> Any:
    """Return what a name that is not local to a function stands for there."""
    if name in function.__code__.co_freevars and function.__closure__:
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # Not bound yet.
            return UNKNOWN
    return function.__globals__.get(name, getattr(builtins, name, UNKNOWN))


def inherited(owner: Any, function: FunctionType, name: str) -> Any:
    """Return the method of a module that a function's own class inherits: `super().forward`."""
    lineage = type(owner).__mro__ if isinstance(owner, nn.Module) else ()
    cls = variable(function, "__class__")
    following = lineage[lineage.index(cls) + 1 :] if cls in lineage else ()
    method = next((vars(each)[name] for each in following if name in vars(each)), None)
    return MethodType(method, owner) if isinstance(method, FunctionType) else UNKNOWN


def of_python(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a builtin function, a class, or what rounds a number returns."""
    if getattr(function, "__name__", "") in ROUNDING and isinstance(next(iter(args), None), Given):
        return args[0]
    if function is enumerate and args:
        return _Rows((range(MOST_ROUNDS), args[0]))
    if function in {reversed, list, tuple} and args and isinstance(args[0], Given | Turned):
        return turned(args[0]) if function is reversed else args[0]
    if function is zip:
        return _Rows(tuple(args))
    if function is isinstance and len(args) == 2 and isinstance(args[0], Given):
        kinds = args[1] if isinstance(args[1], tuple) else (args[1],)
        return True if Tensor in kinds else UNKNOWN
    if function in _ON_PLAIN:
        return _tried(function, [None if isinstance(each, Absent) else each for each in args], kwargs)
    return args[0] if args and getattr(function, "__name__", "") in KEEPS_SHAPE else UNKNOWN


def turned(items: Given | Turned) -> Given | Turned:
    """Return what stands for the items of an argument in the other order."""
    return Turned(items.name) if isinstance(items, Given) else Given(items.name)


def rounds(items: Any) -> Iterator[Any]:
    """Yield what the target of a loop stands for: the first thing, or all where layers go with items of an input."""
    modules = _modules_beside(items)
    for index in range(min(modules, MOST_ROUNDS)) if modules else (0,):
        yield _nth_of(items, index)


def _modules_beside(items: Any) -> int:
    """Return how many modules are gone over together with an argument, 0 where there are no such."""
    if not isinstance(items, _Rows):
        return 0
    columns = [column for each in items.columns for column in (each.columns if isinstance(each, _Rows) else (each,))]
    counts = [len(each) for each in columns if isinstance(each, nn.ModuleList | nn.Sequential)]
    return min(counts, default=0) if any(isinstance(each, Given | Turned) for each in columns) else 0


def first_of(items: Any) -> Any:
    """Return the first thing that iterating yields."""
    return _nth_of(items, 0)


def _nth_of(items: Any, index: int) -> Any:
    """Return one of the things that iterating yields."""
    if isinstance(items, _Rows):
        return tuple([_nth_of(column, index) for column in items.columns])
    if isinstance(items, nn.ModuleList | nn.Sequential | list | tuple | range) and len(items):
        return next(itertools.islice(items, index % len(items), None))  # Not by its key: modules may have names.
    if isinstance(items, Turned):
        return Part(items.name, -1 - index)
    return Part(items.name, index) if isinstance(items, Given) else UNKNOWN


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text or such, or holds several."""
    return value is None or isinstance(value, bool | int | float | str | tuple | list)


def still(value: Any) -> Any:
    """A value that modules hold; what a trace that is under way has left there says nothing, and is not to be asked."""
    return UNKNOWN if isinstance(value, Proxy) else value


def truth(value: Any) -> bool | None:
    """Whether a value is true, None if that is not known."""
    if isinstance(value, Absent):
        return False
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict | nn.Module):
        return True if isinstance(value, nn.Module) else bool(value)
    return None


def compared(kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """Return what a comparison gives, where it is about None or about settings."""
    if kind in {ast.Is, ast.IsNot}:
        values = [None if isinstance(each, Absent) else each for each in (left, right)]
        if any(isinstance(each, _Unknown) for each in values):
            return UNKNOWN
        return (values[0] is values[1]) is (kind is ast.Is)
    if all(is_plain(each) for each in (left, right)):
        return _tried(_COMPARISONS[kind], [left, right], {})
    return UNKNOWN


def ordered(test: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a decision compares by size, where both sides are called by a name or are constants."""
    match test:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from ordered(part)
        case ast.Compare(left=ast.Name() | ast.Attribute() as left, ops=[kind], comparators=[right]):
            if isinstance(kind, _ORDERS) and isinstance(right, ast.Name | ast.Attribute | ast.Constant):
                yield left, right
        case _:
            pass


def _tried(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a function of plain things returns, or that nothing is known."""
    if any(isinstance(each, _Unknown | Given | Absent) for each in (*args, *kwargs.values())):
        return UNKNOWN
    try:
        return function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - `len` and `getattr` run the user's code.
        return UNKNOWN


def merged(one: Scope, other: Scope) -> Scope:
    """Return what is known after either of two ways: where they differ, an argument that is still the same."""
    merged: Scope = {}
    for name in {**one, **other}:
        values = (one.get(name, UNKNOWN), other.get(name, UNKNOWN))
        given = next((each for each in values if isinstance(each, Given)), UNKNOWN)
        merged[name] = values[0] if values[0] is values[1] else given
    return merged
