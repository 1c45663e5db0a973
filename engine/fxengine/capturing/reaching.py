"""Which globals of other files the functions of a model reach, by the names in their code, and in that of others."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from fxengine.module_snapshot import MISSING
from fxengine.source import is_user_file

__all__ = ["globals_reached", "is_of_user"]

_MOST: Final = 400
"""How many functions are looked at."""


def globals_reached(
    functions: Iterable[FunctionType], methods: Mapping[str, list[FunctionType]]
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield the namespaces of files that these functions, and those and `methods` that they name, reach, with names."""
    found: dict[int, tuple[dict[str, Any], dict[str, None]]] = {}
    seen: set[int] = set()
    pending = [*functions]
    while pending and len(seen) < _MOST:
        function = pending.pop()
        namespace = function.__globals__
        if id(function) in seen or not is_of_user(namespace):
            continue
        seen.add(id(function))
        wrapped = getattr(function, "__wrapped__", None)
        if type(wrapped) is FunctionType:
            pending.append(wrapped)
        names = _names_in(function.__code__)
        pending += [method for name in names for method in methods.get(name, ())]
        for owner in (namespace, *_modules_among(names, namespace)):
            reached = found.setdefault(id(owner), (owner, {}))[1]
            for name in names:
                value = owner.get(name, MISSING)
                if type(value) is FunctionType:
                    pending.append(value)
                elif value is not MISSING:
                    reached[name] = None
    for namespace, names in found.values():
        yield namespace, [*names]


def is_of_user(namespace: dict[str, Any]) -> bool:
    """Whether a namespace is that of a file that is neither torch's nor Python's own."""
    return is_user_file(str(namespace.get("__file__") or "<string>"))


def _modules_among(names: Iterable[str], namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """The namespaces of the user's modules among names."""
    found = [vars(value) for name in names if type(value := namespace.get(name)) is ModuleType]
    return [each for each in found if is_of_user(each)]


@functools.lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in code, that of functions within included."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names_in(each)]
    return tuple(dict.fromkeys((*code.co_names, *inner)))
