"""What the annotations of a constructor stand for, each by itself: one that cannot be evaluated says nothing.

A text is evaluated where it stands: with the names of its module, and of the class that it stands in.
"""

import sys
import typing
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from fxengine.inputs.signature import meant_by
from fxworker.choices import attribute_of


def annotations_of(cls: Any) -> dict[str, Any]:
    """Return the types that are meant by the annotations of the parameters of a class, or of a function, evaluated."""
    function = cls.__init__ if isinstance(cls, type) else cls
    scopes = list(_scopes(cls, function))
    try:
        found = typing.get_type_hints(function, localns=scopes[0][1])
    except Exception:  # noqa: BLE001 — Annotations are user code.
        found = _one_by_one(function, scopes)
    return {name: meant_by(hint) for name, hint in found.items()}


def _one_by_one(function: Any, scopes: list[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, Any]:
    """Return those annotations of a function that can be evaluated in one of some scopes."""
    found: dict[str, Any] = {}
    for name, annotation in (attribute_of(function, "__annotations__") or {}).items():
        for names, own in scopes:
            try:
                found |= typing.get_type_hints(
                    SimpleNamespace(__annotations__={name: annotation}), dict(names), dict(own)
                )
                break
            except Exception:  # noqa: BLE001, S112 — As above.
                continue
    return found


def _scopes(cls: Any, function: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the names of modules and classes that annotations may stand in: a record has those of its bases, too."""
    lineage = cls.__mro__ if isinstance(cls, type) else ()
    owner = next((each for each in lineage if "__init__" in vars(each)), None)
    yield attribute_of(function, "__globals__") or {}, dict(vars(owner)) if owner is not None else {}
    for each in lineage:
        yield vars(sys.modules.get(each.__module__, SimpleNamespace())), vars(each)
