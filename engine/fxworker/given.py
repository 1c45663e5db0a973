"""What the parts of a model are given where that calls them, as an argument list that somebody could have written.

Of several parts the first counts that is called with what can be written down, and of a model that stops somewhere one
whose call came to its end before. A model that wants data on its way to all of them is run on some, if it is small.
What a part lacks by itself and has when it is called, such as sizes that its owner sets, belongs to what it is given.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.inputs.probe import Outcome
from fxengine.inputs.recipes import (
    Constant,
    Listing,
    Recipe,
    Record,
    Structure,
    TensorRecipe,
    Verbatim,
    call_expression,
)
from fxengine.inputs.values import is_small, run_for_values
from fxengine.shapes_only import ShapesOnly, needs_data
from fxworker.argument_lists import Arguments

_FEW: Final = 64
"""The most whole numbers in a tensor that are written down one by one."""

_PART: Final = "part"
"""What the part is called in the expression that sets what it has."""

_DEEP: Final = 6
"""How far containers and objects may be in one another."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a part.

    Attributes:
        path: The path of the part.
        given: What it is given, as an argument list.
        state: The numbers and texts that it has then and had not before, by the names of its attributes.
    """

    path: str
    given: str
    state: tuple[tuple[str, Any], ...] = ()

    def with_state(self, expression: str) -> str:
        """Return an expression of the part in the state in which it is called."""
        if not self.state:
            return expression
        setting = "".join(f", {_PART}.__setattr__({name!r}, {value!r})" for name, value in self.state)
        return f"[{_PART} := {expression}{setting}][0]"


@dataclass(frozen=True, slots=True)
class Writing:
    """How values are written down.

    Attributes:
        recipes: How some tensors are made, by their identities.
        names: What the names stand for that may be used.
    """

    recipes: Mapping[int, Recipe]
    names: Mapping[str, Any]

    def recipe(self, value: Any, depth: int = 0) -> Recipe:
        """Return how a value is made that is like one that a part was given.

        Raises:
            TypeError: There is no way to write it down.
        """
        if depth > _DEEP:
            raise TypeError(type(value).__name__)
        inner = functools.partial(self.recipe, depth=depth + 1)
        return self.recipes.get(id(value)) or _plain(value) or self._made_of(value, inner)

    def _made_of(self, value: Any, inner: Callable[[Any], Recipe]) -> Recipe:
        """Return how something is made that has parts.

        Raises:
            TypeError: There is no way to write it down.
        """
        match value:
            case tuple() | list() if not hasattr(value, "_fields"):
                kind = list if isinstance(value, list) else tuple
                return Listing(tuple(map(inner, value)), kind)
            case dict() if not dataclasses.is_dataclass(value):
                return Record(tuple((key, inner(each)) for key, each in value.items()))
            case _:
                return self._structure(value, _held(value), inner)

    def _structure(self, value: Any, held: Mapping[str, Any], inner: Callable[[Any], Recipe]) -> Recipe:
        """Return how an object is made of what it holds: one of its class, or one with the same attributes.

        Raises:
            TypeError: Neither can be written down.
        """
        cls = type(value)
        if not held or not all(name.isidentifier() for name in held):
            raise TypeError(cls.__name__)
        items = tuple((name, inner(each)) for name, each in held.items())
        is_known = cls.__module__.startswith("torch.") or self.names.get(cls.__name__) is cls
        made = Structure(items, type=cls)
        if is_known and all(map(made.takes, held)):
            return made
        # A tuple is unpacked more often than asked for its attributes.
        return Listing(tuple(each for _, each in items), tuple) if isinstance(value, tuple) else Structure(items)


def first_call(
    root: nn.Module, parts: Collection[str], arguments: Arguments, writing: Writing, *, fits: bool
) -> Call | None:
    """Return the first call of some parts when a model is called that is worth something; None for none.

    Args:
        root: The model.
        parts: The paths of the parts.
        arguments: What the model is called with.
        writing: How what the parts are given is written down.
        fits: Whether the model is meant to run on that: then a call counts whatever becomes of it.
    """
    begun, ended = list[Call](), list[Call]()
    with _listening(root, parts, writing, begun, ended):
        error = _error_of(root, arguments)
        wants_data = error is not None and needs_data(error)
        if wants_data and not begun:
            _run_for_real(root, arguments)
    counting = begun if fits or wants_data else ended
    return next(iter(ended or counting), None)


def _error_of(root: nn.Module, arguments: Arguments) -> Exception | None:
    """Return what a model raises that is called without data, None if it runs."""
    args, kwargs = arguments
    try:
        with torch.no_grad(), ShapesOnly(root):
            root(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 — The user's code; it may have called the part by then.
        return error
    return None


def _run_for_real(root: nn.Module, arguments: Arguments) -> None:
    """Run a model with data, if it is small, whatever comes of it."""
    args, kwargs = arguments
    given = {str(name): _with_data(each) for name, each in (*enumerate(args), *kwargs.items())}
    if is_small(root, given):
        with contextlib.suppress(Exception):
            run_for_values(root, given, len(args), Outcome(0))


def _with_data(value: Any) -> Recipe:
    return _tensor(value) if isinstance(value, Tensor) and value.is_meta else Constant(value)


@contextlib.contextmanager
def _listening(
    root: nn.Module, parts: Collection[str], writing: Writing, begun: list[Call], ended: list[Call]
) -> Generator[None]:
    """Note the calls of some parts, those that nobody can write down apart: when they begin, and when they have ended.

    A part may be called by its forward alone.
    """

    def noting(path: str, part: nn.Module) -> Callable[..., Any]:
        forward, held = part.forward, dict(vars(part))

        @functools.wraps(forward)
        def noted(*args: Any, **kwargs: Any) -> Any:
            call = None
            if not ended:
                with contextlib.suppress(Exception):
                    named = {name: writing.recipe(each) for name, each in kwargs.items()}
                    given = call_expression(tuple(map(writing.recipe, args)), named)
                    call = Call(path, given, tuple(_set_since(held, part)))
                    begun.append(call)
            result = forward(*args, **kwargs)
            if call is not None:
                ended.append(call)
            return result

        return noted

    own = {path: vars(root.get_submodule(path)) for path in parts}
    before = {path: each.get("forward") for path, each in own.items()}
    for path, each in own.items():
        each["forward"] = noting(path, root.get_submodule(path))
    try:
        yield
    finally:
        for path, each in own.items():
            if before[path] is None:
                del each["forward"]
            else:
                each["forward"] = before[path]


def _set_since(held: Mapping[str, Any], part: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the numbers and texts that a part has and lacked when it held what is given, by name."""
    for name, value in vars(part).items():
        several = value if isinstance(value, tuple | list) else (value,)
        if held.get(name) is None and several and all(isinstance(each, int | float | str) for each in several):
            yield name, value


def _tensor(value: Tensor) -> Recipe:
    """Return how a tensor is made that is like another one: of whole numbers with the same ones, if these are known."""
    shape, dtype = tuple(value.shape), value.dtype
    if dtype is torch.bool:
        return TensorRecipe(shape, "ones", dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return TensorRecipe(shape, "normal", dtype)
    if value.is_meta or not value.numel():
        return TensorRecipe(shape, "zeros", dtype)
    if value.numel() <= _FEW:
        return Verbatim(f"torch.tensor({value.tolist()}, dtype={dtype})")
    return TensorRecipe(shape, "integers", dtype, high=int(value.max()) + 1)


def _plain(value: Any) -> Recipe | None:
    """Return how something is made that has no parts, None for what has some."""
    match value:
        case Tensor():
            return _tensor(value)
        case float() if not math.isfinite(value):
            return Verbatim(f"float('{value}')")
        case None | bool() | int() | float() | str() | slice() | range():
            return Constant(value)
        case torch.dtype() | torch.layout():
            return Verbatim(str(value))
        case torch.device():
            return Verbatim(f"torch.device({str(value)!r})")
        case _:
            return None


def _held(value: Any) -> dict[str, Any]:
    """Return what an object is made of, by name; nothing for one that does something when it is called."""
    if isinstance(value, tuple):
        return dict(zip(getattr(value, "_fields", ()), value, strict=False))
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init}
    return {} if callable(value) else dict(getattr(value, "__dict__", {}))
