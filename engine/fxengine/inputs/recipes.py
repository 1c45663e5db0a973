"""Recipes for example inputs: what a value is made of, how it is written down, and how it is made on a device.

A recipe is data. The same recipe gives a meta tensor for shape propagation, a real tensor for a profile, and the
Python source that a person reads and edits, such as ``torch.randn(2, 3, 224, 224)``.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import torch
from torch.nn.utils.rnn import PackedSequence

__all__ = [
    "Arguments",
    "Constant",
    "Fill",
    "Keyed",
    "Listing",
    "Place",
    "Recipe",
    "Record",
    "Structure",
    "TensorRecipe",
    "Verbatim",
    "call_arguments",
    "call_expression",
    "leaves",
    "packed",
    "tensors_in",
    "with_part",
    "with_shape",
]

Fill: TypeAlias = Literal["normal", "uniform", "sorted", "integers", "ones", "zeros", "full"]


@dataclass(frozen=True, slots=True)
class TensorRecipe:
    """A tensor of a given shape and content.

    Attributes:
        shape: Its sizes.
        fill: ``normal`` and ``uniform`` random numbers, such as are ``sorted`` along the last dimension, ``integers``
            below ``high``, ``ones``, ``zeros``, or ``full`` of ``high``.
        dtype: Its type.
        high: One more than the largest integer, or the number that it is full of.
        because: What in the model asks for it, in the user's words; not part of its identity.
    """

    shape: tuple[int, ...]
    fill: Fill = "normal"
    dtype: torch.dtype = torch.float32
    high: int = 2
    because: str = ""

    def __post_init__(self) -> None:
        """Let there be a number: below none, as an empty vocabulary asks for, there is none."""
        if self.fill == "integers" and self.high < 1:
            object.__setattr__(self, "high", 1)

    @property
    def expression(self) -> str:
        """Python source that makes it."""
        sizes = ", ".join(map(str, self.shape)) or "()"
        if self.fill == "integers":
            return f"torch.randint(0, {self.high}, {self.shape!r}{self._suffix(torch.int64)})"
        if self.fill == "full":
            return f"torch.full({self.shape!r}, {self.high}{self._suffix(torch.int64)})"
        names = {"normal": "randn", "uniform": "rand", "sorted": "rand", "ones": "ones", "zeros": "zeros"}
        made = f"torch.{names[self.fill]}({sizes}{self._suffix(torch.float32)})"
        return f"{made}.sort().values" if self.fill == "sorted" else made

    def make(self, device: torch.device, generator: torch.Generator | None) -> torch.Tensor:
        """Return the tensor on ``device``; drawn on the CPU, so that every device gets the same numbers."""
        if device.type == "meta":
            return torch.empty(self.shape, dtype=self.dtype, device=device)
        match self.fill:
            case "normal":
                value = torch.randn(self.shape, generator=generator)
            case "uniform":
                value = torch.rand(self.shape, generator=generator)
            case "sorted":
                value = torch.rand(self.shape, generator=generator).sort().values
            case "integers":
                value = torch.randint(0, self.high, self.shape, generator=generator)
                value.view(-1)[-1:] = self.high - 1  # What fits the largest fits whatever else is drawn.
            case "ones":
                value = torch.ones(self.shape)
            case "zeros":
                value = torch.zeros(self.shape)
            case "full":
                value = torch.full(self.shape, self.high)
        return value.to(device=device, dtype=self.dtype)

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def like(self, other: "TensorRecipe") -> bool:
        """Whether another makes the same, whatever the reason."""
        return replace(self, because="") == replace(other, because="")

    def with_shape(self, shape: tuple[int, ...], because: str = "") -> "TensorRecipe":
        """Return the same content in another shape."""
        return replace(self, shape=shape, because=because or self.because)

    def _suffix(self, default: torch.dtype) -> str:
        return "" if self.dtype is default else f", dtype={self.dtype}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written as it is: a number, a flag, None, a tuple of numbers."""

    value: Any
    because: str = ""

    @property
    def expression(self) -> str:
        """Python source that makes it."""
        return repr(self.value)

    def make(self, device: torch.device, generator: torch.Generator | None) -> Any:  # noqa: ARG002 - as its siblings.
        """Return the value."""
        return self.value


class Arguments(tuple[Any, ...]):
    """Values that are passed one by one, as `*args` takes them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """A list or tuple of recipes."""

    items: tuple["Recipe", ...]
    type: Callable[[Any], Any] = list
    because: str = ""

    @property
    def expression(self) -> str:
        """Python source that makes it."""
        inner = ", ".join(item.expression for item in self.items)
        if self.type is Arguments:
            return inner
        if self.type is tuple:
            return f"({inner},)" if len(self.items) == 1 else f"({inner})"
        return f"[{inner}]"

    @property
    def is_of_equals(self) -> bool:
        """Whether it has items, and all are equal; they need not be hashable."""
        return bool(self.items) and all(item == self.items[0] for item in self.items)

    def make(self, device: torch.device, generator: torch.Generator | None) -> Any:
        """Return the list or tuple with its items made."""
        return self.type([item.make(device, generator) for item in self.items])


@dataclass(frozen=True, slots=True)
class _Named:
    """Recipes by their names; a dictionary may have tuples of names as keys."""

    items: tuple[tuple[Any, "Recipe"], ...]
    because: str = ""


@dataclass(frozen=True, slots=True)
class Record(_Named):
    """A dictionary of recipes."""

    @property
    def expression(self) -> str:
        """Python source that makes it."""
        return "{" + ", ".join(f"{key!r}: {item.expression}" for key, item in self.items) + "}"

    def make(self, device: torch.device, generator: torch.Generator | None) -> dict[Any, Any]:
        """Return the dictionary with its items made."""
        return {key: item.make(device, generator) for key, item in self.items}


class Keyed(SimpleNamespace):
    """An object whose attributes are looked up by their names, too, as those of what holds the data of a graph."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)


_NAMED_IN_FULL = ("torch.", "torch_geometric.")
"""Modules of classes that a file need not have a name for."""

_KEYED = (
    "type('Keyed', (SimpleNamespace,), {'__getitem__': lambda self, name: getattr(self, name), "
    "'__contains__': lambda self, name: hasattr(self, name)})"
)
"""The same class where nothing of ours is known by its name."""


@dataclass(frozen=True, slots=True)
class Structure(_Named):
    """An object with attributes: of a class that the model's code knows by its name, or of no class that matters."""

    type: Callable[..., Any] = SimpleNamespace

    @property
    def expression(self) -> str:
        """Python source that makes it."""
        module = self.type.__module__
        name = f"{module}.{self.type.__name__}" if module.startswith(_NAMED_IN_FULL) else self.type.__name__
        name = _KEYED if self.type is Keyed else name
        return f"{name}({', '.join(f'{key}={item.expression}' for key, item in self.items)})"

    def takes(self, name: str) -> bool:
        """Whether the object can be made with something of this name."""
        if self.type in {SimpleNamespace, Keyed}:
            return True
        taken = inspect.signature(self.type).parameters
        return name in taken or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())

    def make(self, device: torch.device, generator: torch.Generator | None) -> Any:
        """Return the object with its attributes made."""
        return self.type(**Record(self.items).make(device, generator))


@dataclass(frozen=True, slots=True)
class Verbatim:
    """What an expression makes that names nothing but `torch`."""

    source: str
    because: str = ""

    @property
    def expression(self) -> str:
        """Python source that makes it."""
        return self.source

    def make(self, device: torch.device, generator: torch.Generator | None) -> Any:  # noqa: ARG002 - as its siblings.
        """Return the value."""
        return eval(self.source, {"torch": torch})  # noqa: S307 - written by us.


def packed(steps: int, examples: int, width: int, because: str = "") -> Structure:
    """Return sequences that are packed, all of one length."""
    data = TensorRecipe((steps * examples, width))
    sizes = Verbatim(f"torch.full(({steps},), {examples})")  # Never without data: torch reads them.
    return Structure((("data", data), ("batch_sizes", sizes)), because, PackedSequence)


Recipe: TypeAlias = TensorRecipe | Constant | Listing | Record | Structure | Verbatim

Place: TypeAlias = tuple[str | int, ...]
"""Where a recipe stands in an assignment: the parameter, then the index, key or attribute in each container."""


def tensors_in(recipes: Mapping[str, Recipe]) -> list[tuple[str, Place, TensorRecipe]]:
    """Return the tensors among what is passed: the parameter of each, its place in that, and itself."""
    return [
        (name, tuple(place), part)
        for name, recipe in recipes.items()
        for (_, *place), part in leaves(recipe, (name,))
        if isinstance(part, TensorRecipe)
    ]


def leaves(recipe: Recipe, place: Place) -> Iterator[tuple[Place, Recipe]]:
    """Yield what a recipe is made of in the end, with the place of each part."""
    match recipe:
        case Listing():
            for index, item in enumerate(recipe.items):
                yield from leaves(item, (*place, index))
        case Record() | Structure():
            for key, item in recipe.items:
                yield from leaves(item, (*place, key))
        case _:
            yield place, recipe


def with_part(recipe: Recipe, rest: Place, part: Recipe) -> Recipe:
    """Return a recipe with another part at the place that ``rest`` leads to from it."""
    if not rest:
        return part
    match recipe:
        case Listing():
            items = list(recipe.items)
            items[int(rest[0])] = with_part(items[int(rest[0])], rest[1:], part)
            return replace(recipe, items=tuple(items))
        case Record() | Structure():
            found = tuple(
                (key, with_part(item, rest[1:], part) if key == rest[0] else item) for key, item in recipe.items
            )
            return replace(recipe, items=found)
        case _:
            return recipe


def with_shape(recipes: Mapping[str, Recipe], shape: tuple[int, ...]) -> dict[str, Recipe]:
    """Return what is passed with another shape of its first tensor; there has to be one."""
    name, place, part = tensors_in(recipes)[0]
    return {**recipes, name: with_part(recipes[name], place, part.with_shape(shape))}


def call_arguments(values: Mapping[str, Any], positional: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call that passes so many of the values by position, and the rest by name."""
    args: list[Any] = []
    names = list(values)
    for name in names[:positional]:
        args.extend(values[name] if isinstance(values[name], Arguments) else (values[name],))
    return tuple(args), {name: values[name] for name in names[positional:]}


def call_expression(args: tuple[Recipe, ...], kwargs: Mapping[str, Recipe]) -> str:
    """Return what stands between the parentheses of a call with these arguments."""
    positional = [text for recipe in args if (text := recipe.expression)]
    return ", ".join([*positional, *(f"{name}={recipe.expression}" for name, recipe in kwargs.items())])
