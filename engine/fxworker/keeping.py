"""Bases that are absent and keep the arguments of a model's constructor, as a configuration that the model then reads.

Which stand-in becomes which base is not known here (`absent`).
"""

import ast
import sys
from collections.abc import Mapping
from functools import lru_cache, partial
from types import FrameType
from typing import Any

from torch import nn

from fxengine.syntax import tree_of
from fxworker.callers import calls_attribute
from fxworker.conventions import is_configuration
from fxworker.imported import file_of
from fxworker.records import KEEPING, Options, arguments_of, entries_of, inherited_by


class AbsentBeside:
    """What a class has as a base that derives from `nn.Module` first, and then from something absent.

    The class itself asks it for what is not found: before it comes `nn.Module`, which finds nothing.
    """

    _absent = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: D102 — It only notes what it is given.
        made = super().__new__(cls)
        made.__dict__["_given"] = arguments_of(cls, args, kwargs)
        return made

    def __init_subclass__(cls, **_kwargs: Any) -> None:
        super().__init_subclass__()
        if issubclass(cls, nn.Module) and cls.__getattr__ is nn.Module.__getattr__:
            cls.__getattr__ = _beside


def kept(made: nn.Module, name: str, frame: FrameType) -> Any:
    """Return what the base of a model has by a name that a frame asks for, `NotImplemented` where that is not known.

    It is a method that keeps arguments, or a configuration that has them.
    """
    if name in _called_for_nothing(type(made)) and name not in made.__dict__.get("_modules", ()):
        return partial(_keep_given if KEEPING.fullmatch(name) else _keep_arguments, made)
    if is_configuration(name) and "_given" in made.__dict__ and not calls_attribute(frame):
        return made.__dict__.setdefault(name, Options(made.__dict__["_given"]))
    return NotImplemented


def _beside(self: Any, name: str) -> Any:
    """Return what an absent base beside `nn.Module` has by a name."""
    found = kept(self, name, sys._getframe(1))
    return nn.Module.__getattr__(self, name) if found is NotImplemented else found


def _keep_given(made: nn.Module, *args: Any, **_kwargs: Any) -> None:
    """Stand for a method of the base that keeps a configuration it is given, or else the arguments."""
    given = [each for each in map(entries_of, args) if isinstance(each, Mapping)]
    saved = made.__dict__.setdefault("_saved", {})
    if len(given) == 1:
        saved.update(given[0])
        made.__dict__["_given"] = {**inherited_by(type(made)), **saved}
    else:
        _keep(made, sys._getframe(1).f_locals)
        saved.update(made.__dict__["_given"])


def _keep_arguments(made: nn.Module, *_args: Any, **_kwargs: Any) -> None:
    """Stand for a method of the base, which may look at what the constructor made of its arguments."""
    _keep(made, sys._getframe(1).f_locals)


def _keep(made: nn.Module, variables: dict[str, Any]) -> None:
    """Keep what a constructor, whose variables these are, made of its arguments."""
    if variables.get("self") is made:
        given = made.__dict__["_given"]
        given.update((name, variables[name]) for name in given if name in variables)


@lru_cache(maxsize=256)
def _called_for_nothing(cls: type) -> frozenset[str]:
    """Return the methods that a class and its bases call on themselves without keeping what they give."""
    own = [each for each in cls.__mro__ if not (each.__module__.startswith(("torch.", "fxworker.")) or each is object)]
    names, found = {each.__name__ for each in own}, set[str]()
    for path in {file_of(each.__module__) for each in own}:
        tree = tree_of(path) if path is not None else None
        for node in ast.walk(tree) if tree is not None else ():
            for each in ast.walk(node) if isinstance(node, ast.ClassDef) and node.name in names else ():
                match each:
                    case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))):
                        found.add(name)
                    case _:
                        pass
    return frozenset(found)
