"""What an annotation says that a value may be, as expressions.

Plain types have usual values, classes are called, of those that are only there to be inherited from a subclass is. What
a parameter is called chooses among the values that its annotation allows.
"""

import argparse
import dataclasses
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor, distributed, nn
from torch.distributions import Distribution
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from fxworker.absent import is_stand_in, path_of
from fxworker.choices import Group, Value, every_parameter_of, literal, written_tuple
from fxworker.conventions import KINDS_OF_EDGES, is_configuration, usual_values
from fxworker.examples import LIBRARY, READING, TOKENIZING, spaces_of
from fxworker.lineages import is_template, standing_for
from fxworker.packages import full_name
from fxworker.records import contained

ARGUMENTS: Final = Group("namespace", "argparse.Namespace")
"""What parsing a command line gives, which some libraries take where they take no other object."""

ARRAYS: Final = ("numpy.ones((64, 64), 'float32')",)

TENSORS: Final = ("torch.ones(64)", "torch.ones(64, 64)", "torch.ones(64, 1)", "torch.ones(1, 64, 64)")

PLAIN: Final[dict[Any, tuple[str, ...]]] = {
    int: ("64", "4", "2"),
    float: ("0.1", "1.0"),
    bool: ("False", "True"),
    str: ("''",),
    list: ("[2, 2, 2, 2]", "[64, 64]", "[]"),
    tuple: ("(2, 2)", "(64, 64)"),
    dict: ("{}",),
    set: ("set()",),
    slice: ("slice(0, 64)", "slice(0, 4)"),
    type(None): ("None",),
    Tensor: TENSORS,
}

_HALVES: Final = ("slice(0, 32)", "slice(32, 64)")

_OF_LANGUAGE: Final = {
    **dict.fromkeys(("AutoModel", "PreTrainedModel"), READING),
    **dict.fromkeys(("AutoTokenizer", "PreTrainedTokenizer", "PreTrainedTokenizerBase"), TOKENIZING),
    **dict.fromkeys(("PreTrainedTokenizerFast", "PythonBackend", "TokenizersBackend"), TOKENIZING),
}
"""Instances of what the models of a library inherit from, and its tokenizers, which are none themselves."""

_ENVIRONMENTS: Final = frozenset({"gym", "gymnasium"})
_SPACES: Final = {
    "Box": "-1.0, 1.0, (4,)",
    "Discrete": "4",
    "MultiBinary": "4",
    "MultiDiscrete": "[4, 4]",
    "Space": "",
}
"""The spaces of observations and actions that these packages have, and what they are made of."""

_PICTURES: Final = "0, 255, (3, 64, 64), 'uint8'"
"""What a space of pictures is made of."""

_PAIR: Final = 2

_UNIONS: Final = frozenset({typing.Union, types.UnionType})

MAPPINGS: Final = frozenset({dict, Mapping, MutableMapping})

_PLAINLY: Final[dict[Any, type]] = {
    **dict.fromkeys((Collection, Iterable, Sequence), list),
    **dict.fromkeys((Mapping, MutableMapping), dict),
}
"""Python's own classes that stand for any of a kind, and the plainest of that."""

_HOLDING: Final[dict[type, str]] = {
    nn.Sequential: "torch.nn.Sequential(torch.nn.Identity())",
    nn.ModuleList: "torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Identity()])",
    nn.ModuleDict: "torch.nn.ModuleDict({'a': torch.nn.Identity()})",
}
"""Modules that hold others, with something in them."""

_OPTIMIZER: Final = "torch.optim.Adam([torch.nn.Parameter(torch.ones(1))])"
_OF_TORCH: Final[dict[type, str]] = {
    Distribution: "torch.distributions.Normal(0.0, 1.0)",
    Optimizer: _OPTIMIZER,
    **({distributed.ProcessGroup: "torch.distributed.ProcessGroup(0, 1)"} if distributed.is_available() else {}),
    torch.Size: "torch.Size([4])",
    torch.Generator: "torch.Generator()",
    LRScheduler: f"torch.optim.lr_scheduler.ConstantLR({_OPTIMIZER})",
}
"""Instances of what torch has to be inherited from, or what it makes of arguments."""

_SEQUENCES: Final = frozenset({tuple, list, set, frozenset, Sequence, Iterable, Collection})


class Hints:
    """Makes values for annotations.

    Args:
        scope: The names of the file.
        root: The class that is searched for, which is never a part of itself.
    """

    def __init__(self, scope: Mapping[str, Any], root: Any) -> None:
        self._scope = scope
        self._root = root

    def instances_of(self, cls: type) -> list[Value]:
        """Return values that are instances of a class."""
        return [*PLAIN.get(_PLAINLY.get(cls, cls), ())] or [*self._of_class(cls)]

    def values(self, hint: Any, name: str) -> Iterator[Value]:
        """Yield values for an annotation that is more than a plain type."""
        origin = typing.get_origin(hint)
        arguments = typing.get_args(hint)
        if origin is typing.Annotated:
            yield from self.values(arguments[0], name)
        elif origin is typing.Literal:
            yield from map(repr, arguments)
        elif origin in _UNIONS:
            # What is empty, or nothing, is allowed and says least.
            for each in sorted(arguments, key=lambda each: each in {str, bool, bytes}):
                if each is not type(None):
                    yield from _fitting(usual_values(name), each) or self.values(each, name)
                    yield from PLAIN.get(each, ())[:1]
            if type(None) in arguments and any(isinstance(each, type) and is_template(each) for each in arguments):
                # There may be no class of that kind.
                yield "None"
        elif origin is not None and arguments:
            yield from self._of_generic(hint, origin, arguments, name)
        elif hint is type:
            yield "torch.nn.Identity"
        elif hint is not Any and (is_stand_in(hint) or isinstance(hint, type)):
            yield from (
                self._of_absent(hint, name) if is_stand_in(hint) else self._of_space(hint) or self._of_class(hint)
            )

    def _of_absent(self, hint: Any, name: str) -> Iterator[Value]:
        """Yield a call of a class of a package that is not installed, as the file would write it.

        One that is called a container may be made of what is looked up in it.
        """
        path = path_of(hint)
        around, _, last = path.rpartition(".")
        if path.partition(".")[0] in _ENVIRONMENTS and last in _SPACES:
            yield from spaces_of(last, name)
        known = {path_of(each): name for name, each in self._scope.items() if is_stand_in(each)}
        head = known[path] if path in known else f"{known[around]}.{last}" if around in known else ""
        if head and not is_configuration(last):
            yield from [Group("mapping", head)] * (contained(path, (), {}) is not None)
            yield f"{head}()"

    def _of_generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...], name: str) -> Iterator[Value]:
        """Yield values for an annotation with others in brackets."""
        if origin is type:
            yield from self._classes_below(arguments[0])
        elif origin is Callable:
            yield from self._of_callable(arguments)
        elif origin in MAPPINGS and len(arguments) == _PAIR:
            keys = self._keys_of(arguments[0])
            entries = [*self._of_entries(keys, arguments[1], name)]
            # What has no expression of its own is made of parts.
            is_class = isinstance(arguments[1], type) and arguments[1] is not Any
            made = [] if entries or not is_class else [*self.values(arguments[1], name)][:1]
            size = len(keys) or _PAIR
            yield from entries or [Group("mapping", cls=arguments[1], size=size, keys=tuple(keys)) for _ in made]
        elif origin in _SEQUENCES:
            yield from self._of_items(hint, name)
        elif isinstance(origin, type):
            yield from self._of_class(origin)

    def _classes_below(self, bound: Any) -> Iterator[str]:
        """Yield the names of classes that are of a kind, torch's for two dimensions first."""
        if bound is nn.Module or not _is_module(bound):
            yield from (["torch.nn.Identity"] if bound is nn.Module else [])
            yield from (["torch.optim.Adam"] if bound is Optimizer else [])
            return
        own = [name for name, cls in vars(nn).items() if _is_module(cls) and issubclass(cls, bound)]
        own.sort(key=lambda name: ("Lazy" in name, not name.endswith("2d"), name))
        yield from (f"torch.nn.{name}" for name in own[:2])
        yield from filter(None, map(self._visible, () if own else standing_for(bound, but=self._root)))

    def _of_items(self, hint: Any, name: str) -> Iterator[Value]:
        """Yield values for the annotation of a sequence that says what its items are."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple and Ellipsis not in arguments and len(set(arguments)) > 1:
            yield from self._of_record(arguments, "'a'")
            return
        if typing.get_origin(arguments[0]) is tuple and len(set(typing.get_args(arguments[0]))) > 1:
            # What tells them apart differs.
            records = [[*self._of_record(typing.get_args(arguments[0]), letter)] for letter in ("'a'", "'b'")]
            if all(records):
                yield f"[{', '.join(first for first, *_ in records)}]"
            return
        if origin is not tuple and typing.get_args(arguments[0]) == (str, str, str):
            yield KINDS_OF_EDGES
            return
        fitting = _fitting(usual_values(name), arguments[0]) or PLAIN.get(arguments[0], ())[:1]
        inner = [*(fitting or self.values(arguments[0], name))]
        inner = inner or (["torch.nn.Identity()"] if arguments[0] in (typing.Callable, Callable) else [])
        count = len(arguments) if origin is tuple and Ellipsis not in arguments else 2
        plain = [each for each in inner if isinstance(each, str)]
        if plain:
            # Texts that say nothing are told apart at least.
            items = [repr(chr(ord("a") + at)) for at in range(count)] if plain[0] == "''" else plain[:1] * count
            # Several slices make up a whole.
            items = [_HALVES[at % len(_HALVES)] for at in range(count)] if arguments[0] is slice else items
            yield written_tuple(items) if origin is tuple else f"[{', '.join(items)}]"
        elif inner and isinstance(arguments[0], type):
            yield Group("list", cls=arguments[0], size=count)

    def _of_record(self, hints: Sequence[Any], text: str) -> Iterator[str]:
        """Yield a tuple of what several annotations say, with a text where one is wanted."""
        found = [text if each is str else self._plain(each) for each in hints if each is not Ellipsis]
        if all(found):
            yield written_tuple(found)

    def _keys_of(self, hint: Any) -> list[str]:
        """Return the keys of a mapping with two entries, of texts, numbers, members of an enumeration, or records."""
        hint = next(iter(typing.get_args(hint)), hint) if typing.get_origin(hint) in _UNIONS else hint
        if hint in {str, int}:
            return [("'a'", "0")[hint is int], ("'b'", "1")[hint is int]]
        if isinstance(hint, enum.EnumType):
            name = self._visible(hint)
            return [f"{name}.{each}" for each in [*hint.__members__][:_PAIR]] if name else []
        records = [
            [*self._of_record(typing.get_args(hint), letter)]
            for letter in ("'a'", "'b'")
            if typing.get_origin(hint) is tuple
        ]
        return [first for first, *_ in filter(None, records)]

    def _of_entries(self, keys: Sequence[str], value: Any, name: str) -> Iterator[str]:
        """Yield a mapping of some keys to what an annotation says."""
        of_name = [each for each in _fitting(usual_values(name), value) if isinstance(each, str)]
        found = next(iter(of_name), "") or self._plain(value)
        if keys and found:
            yield f"{{{', '.join(f'{each}: {found}' for each in keys)}}}"

    def _of_callable(self, arguments: Sequence[Any]) -> Iterator[Value]:
        """Yield what can be called as an annotation says, and returns what it says."""
        *given, returned = arguments or (None,)
        taken: Sequence[Any] = given[0] if given and isinstance(given[0], list) else given
        if _is_module(returned):
            is_sized = list(taken).count(int) >= _PAIR
            yield "torch.nn.Linear" if is_sized else "torch.nn.Identity"
        elif returned in {Tensor, None, type(None)} or (found := self._plain(returned)) in {"", "torch.nn.Identity()"}:
            yield "torch.nn.Identity()"
        else:
            yield f"lambda *_, **__: {found}"

    def _plain(self, hint: Any) -> str:
        """Return the first expression without parts for an annotation, "" where there is none."""
        values = (*PLAIN.get(hint, ()), *self.values(hint, "")) if isinstance(hint, Hashable) else ()
        return next((each for each in values if isinstance(each, str)), "")

    def _of_space(self, hint: type) -> list[Value]:
        """Return spaces of observations or actions as their packages make them; none for another class."""
        package = hint.__module__.partition(".")[0]
        if package not in _ENVIRONMENTS or hint.__name__ not in {*_SPACES, "Dict"}:
            return []
        spaces = vars(sys.modules[f"{package}.spaces"])
        kinds = ("Box", "Discrete") if hint.__name__ == "Space" else (hint.__name__,)
        names = [(each, self._visible(spaces[each])) for each in (*kinds, "Box", "Dict") if each in spaces]
        inner = f"{package}.spaces." if package in self._scope else ""
        heads = {each: name or inner + each for each, name in names if name or inner}
        found: list[Value] = [f"{heads[each]}({_SPACES[each]})" for each in kinds if each in heads and each in _SPACES]
        if hint.__name__ in {"Box", "Space"} and "Box" in heads:
            found.append(f"{heads['Box']}({_PICTURES})")
        if hint.__name__ in {"Dict", "Space"} and heads.keys() >= {"Box", "Dict"}:
            found.append(f"{heads['Dict']}({{'a': {heads['Box']}({_SPACES['Box']})}})")
        return found

    def _of_class(self, hint: type) -> Iterator[Value]:
        name = self._visible(hint)
        if issubclass(hint, enum.Enum):
            member = next(iter(hint), None)
            if member is not None and name:
                yield f"{name}.{member.name}"
        elif hint is argparse.Namespace:
            yield ARGUMENTS
        elif known := usual(hint):
            yield known
        elif hint in _HOLDING:
            yield _HOLDING[hint]
        elif hint is nn.Module:
            # Some models look at the parameters of what they hold.
            yield from ("torch.nn.Identity()", "torch.nn.Linear(64, 64)")
        elif hint not in PLAIN and hint not in {self._root, inspect.Parameter.empty}:
            # The last says that there is no annotation, and a file may have a name for it.
            for cls in standing_for(hint, but=self._root):
                name = self._visible(cls)
                if name:
                    yield made(name, cls)

    def _visible(self, cls: type) -> str:
        """Return the name that a class has in the file, in torch, or in its package if that is the project's; or ""."""
        name = next((name for name, value in self._scope.items() if value is cls), "")
        if not name and vars(nn).get(cls.__name__) is cls:
            return f"torch.nn.{cls.__name__}"
        top = cls.__module__.partition(".")[0]
        is_other = top in self._scope and self._scope[top] is not sys.modules.get(top)
        if name or top in sys.stdlib_module_names or top in {"torch", "numpy"} or is_other:
            return name
        return full_name(cls)


def usual(hint: type) -> str:
    """Return an instance of what a library has to be inherited from, also by another name of torch's; or ""."""
    if hint.__module__.partition(".")[0] == LIBRARY and hint.__name__ in _OF_LANGUAGE:
        return _OF_LANGUAGE[hint.__name__]
    named = {each for each, value in vars(hint).items() if callable(value)}
    return next((text for cls, text in _OF_TORCH.items() if hint is cls or (hint.__base__ is cls and not named)), "")


def made(name: str, cls: type) -> Group:
    """Return an instance of a class: one of mappings is made of one, or of keywords where it takes nothing else.

    One that is data is made of its fields, also where these can be read as a mapping.
    """
    if not issubclass(cls, Mapping) or inspect.isabstract(cls) or dataclasses.is_dataclass(cls):
        return Group("call", name, cls)
    kinds = {each.kind for each in every_parameter_of(cls).values()}
    return Group("namespace" if kinds == {inspect.Parameter.VAR_KEYWORD} else "mapping", name)


def _fitting(values: tuple[str, ...], hint: Any) -> list[Value]:
    return [each for each in values if is_of(each, hint)]


def is_of(expression: str, hint: Any) -> bool:
    """Whether a literal is of a plain type."""
    return type(literal(expression)) is hint


def _is_module(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)
