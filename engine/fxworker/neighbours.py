"""What the file itself has for a place: its objects, its configuration classes and its modules, the likeliest first."""

import enum
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from torch import nn

from fxworker.choices import Group, Value, attribute_of
from fxworker.conventions import is_configuration
from fxworker.evidence import Kind
from fxworker.having import has_field, refuses, takes_any
from fxworker.hints import PLAIN, made, usual

_MOST: Final = 12
"""How many entries of a table are looked at."""

_MODULE: Final = re.compile(
    r".*(net|network|model|module|encoder|decoder|backbone|head|layer|block|body|stem|generator|transformer|wrapped|fn"
    r"|attn|attention|feed_?forward)\d*"
)

_WIDENED: Final = "expansion"
"""What blocks say of how much wider they give what they take."""

_BLOCK: Final = (
    "type('Block', (torch.nn.Conv2d,), {'expansion': 1, '__init__': "
    "lambda self, entering, leaving, stride=1, *_, **__: torch.nn.Conv2d.__init__(self, entering, leaving, 1, stride)})"
)
"""What stands in for a class of blocks that are given how many channels enter and leave, and how far to go at once."""


class Neighbours:
    """What stands beside a class.

    Args:
        scope: The names of its file.
        root: The class, which is never a part of itself.
    """

    def __init__(self, scope: Mapping[str, Any], root: Any) -> None:
        self._scope = scope
        self._root = root

    def has_module(self, name: str) -> bool:
        """Whether a place has the name of a module of the file: `encoder`."""
        wanted = name.replace("_", "").lower()
        return any(key.lower() == wanted and _is_module(cls) for key, cls in self._scope.items())

    def for_place(
        self, name: str, kind: Kind | None, fields: Iterable[str], *, called: bool, owner: str = ""
    ) -> list[Value]:
        """Return what there is for a place.

        Args:
            name: What it is called.
            kind: What is wanted there.
            fields: What is read from it.
            called: Whether it is called as a class is.
            owner: What that is called whose place it is; the class that is to be made, if "".
        """
        fields = list(fields)
        found: list[Value] = []
        if kind in {"object", "mapping", None} and (fields or is_configuration(name)):
            found += self._instances(name, fields)
            found += self._configurations(name, fields) if kind != "mapping" else []
        is_module = is_module_name(name) or self.has_module(name)
        if kind in {"object", "callable", "class", None} and (is_module or kind == "class"):
            modules = self._modules(name, fields, owner, called=kind == "class" or called)
            modules += [_BLOCK] if _WIDENED in fields and not modules else []
            modules += [Group("module")] if kind == "object" else []
            # Of what is read from it a module has some.
            found = [*modules, *found] if any(hasattr(nn.Module, each) for each in fields) else [*found, *modules]
        return found

    def _instances(self, name: str, fields: list[str]) -> list[Value]:
        """Return the names of the file's objects that have what is read, those in tables of configurations too."""
        found: list[Value] = []
        for key, value in self._scope.items():
            if inspect.ismodule(value) or inspect.isclass(value) or callable(value) or key.startswith("__"):
                continue
            if key.lower() == name.lower() or _has_all(value, fields):
                found.append(key)
            elif is_configuration(key) and isinstance(value, dict):
                found += [f"{key}[{one!r}]" for one, each in _first(value) if _gives_all(each, fields)]
        return sorted(found, key=str)

    def _configurations(self, name: str, fields: list[str]) -> list[Value]:
        """Return constructions of the file's configuration classes that have what is read, the likeliest first."""
        ranked: list[tuple[float, str, Value]] = []
        for key, cls in self._scope.items():
            if not isinstance(cls, type) or issubclass(cls, nn.Module | enum.Enum) or cls in PLAIN or refuses(cls):
                continue
            share = sum(has_field(cls, each) for each in fields) / len(fields) if fields else 0.0
            if share == 0.0 and len(fields) > 1 and not takes_any(cls):
                continue
            if share < 0.5 and not (is_configuration(key) and is_configuration(name)):
                continue
            likeness = _overlap(key, getattr(self._root, "__name__", "")) / 100
            ranked.append((-share - likeness, key, made(key, cls)))
        return [value for *_, value in sorted(ranked, key=lambda each: each[:2])][:4]

    def _modules(self, name: str, fields: list[str], owner: str, *, called: bool) -> list[Value]:
        """Return the file's modules whose name is like that of the place, or that have what is read from it.

        Of several those come first that are called as the owner is: the `layer` of an `Encoder` is an `EncoderLayer`.
        """
        owner = owner or getattr(self._root, "__name__", "")
        words = [each for each in re.findall(r"[a-z]+", name.lower().replace("attn", "attention")) if len(each) > 2]
        ranked: list[tuple[float, str, Value]] = []
        for key, cls in self._scope.items():
            if not _is_module(cls) or cls in {nn.Module, self._root} or self._root in getattr(cls, "__mro__", ()):
                continue
            if inspect.isabstract(cls):
                continue
            alike = sum(each in key.lower() for each in words)
            having = sum(hasattr(cls, each) and not hasattr(nn.Module, each) for each in fields)
            if alike or having:
                likeness = alike + having + _overlap(key, owner) / 100
                ranked.append((-likeness, key, key if called else usual(cls) or Group("call", key, cls)))
        return [value for *_, value in sorted(ranked, key=lambda each: each[:2])][:3]


def _has_all(value: Any, fields: list[str]) -> bool:
    """Whether an object, or a mapping, has what is read, as far as it shows without being asked."""
    have = value if isinstance(value, Mapping) else attribute_of(value, "__dict__")
    return bool(have) and bool(fields) and all(each in have for each in fields)


def _gives_all(value: Any, fields: list[str]) -> bool:
    """Whether a configuration gives what is read, as attributes or as entries."""
    plain = isinstance(value, type | str | int | float | list | tuple | nn.Module)
    return not plain and (_has_all(value, fields) or all(attribute_of(value, each) is not None for each in fields))


def _first(table: dict[Any, Any]) -> list[tuple[str, Any]]:
    """Return the first entries of a table, by name."""
    return [(key, value) for key, value in table.items() if isinstance(key, str)][:_MOST]


def is_module_name(name: str) -> bool:
    """Whether a place is called as modules are."""
    return _MODULE.fullmatch(name) is not None


def _is_module(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _overlap(name: str, other: str) -> int:
    """Return how many letters two names have in common from their beginning."""
    count = 0
    for one, two in zip(name.lower(), other.lower(), strict=False):
        if one != two:
            break
        count += 1
    return count
