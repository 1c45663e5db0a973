"""What makes an instance of a class besides its constructor: functions of its file, and methods of its own.

Functions need not have been executed with the file, since its models do not need them: they are, with what they need,
beside the file's module and for one search alone.
"""

import ast
import contextlib
import linecache
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from fxworker.choices import required_parameters
from fxworker.command_lines import no_required_arguments
from fxworker.conventions import is_configuration
from fxworker.executing import compiled, with_flags
from fxworker.importing import importing
from fxworker.loading import Loaded
from fxworker.settings import Settings
from fxworker.slicing import slice_of

_MAKING: Final = re.compile(r"from_|create|build|make|default|tiny|small|init_|(\w+_)?model(_|$)")
_EXECUTED: Final = "configurations"
"""What the configurations of a file are kept as that were executed for a search."""

_SETTINGS: Final = "settings"
"""What is kept as that which the project says about values."""

_MOST: Final = 2
"""How many methods, and how many functions, are looked at."""


def methods_making(cls: Any) -> list[str]:
    """Return the names of the class's own methods that make an instance, other than with trained weights.

    First come those that are meant for others, and want little for it.
    """
    found = [
        name
        for name, value in vars(cls).items()
        if isinstance(value, classmethod | staticmethod) and _MAKING.match(name) and "pretrained" not in name
    ]
    return sorted(found, key=lambda name: (name[:1] == "_", len(required_parameters(getattr(cls, name)))))[:_MOST]


def functions_making(name: str, loaded: Loaded) -> list[str]:
    """Return the names of functions of a file that return an instance of a class, alone or as one of several."""
    body = loaded.tree.body if loaded.tree is not None else []
    found = [each.name for each in body if isinstance(each, ast.FunctionDef) and name in _returned_by(each)]
    return sorted(found)[:_MOST]


def scope_with(names: Iterable[str], loaded: Loaded, scope: dict[str, Any]) -> dict[str, Any]:
    """Return a scope that has names of a file which were not executed with it, as far as they can be."""
    missing = [each for each in names if each not in scope]
    if not missing or loaded.tree is None:
        return scope
    path = str(loaded.module.__file__)
    done = {each.node.lineno for each in loaded.slice.statements}
    found = dict(scope)
    slice_ = slice_of(loaded.tree, "".join(linecache.getlines(path)), path, missing)
    for statement, flags in with_flags(slice_):
        if statement.node.lineno not in done:
            # A parser that misses arguments ends the program.
            with contextlib.suppress(Exception, SystemExit), no_required_arguments():
                code = compiled(statement.node, path, flags)
                importing(partial(exec, code, found))
    return found


def with_configurations(loaded: Loaded, scope: dict[str, Any]) -> dict[str, Any]:
    """Return a scope that has what the file calls configurations, also if its models do not need them."""
    body = loaded.tree.body if loaded.tree is not None else []
    targets = (each for statement in body if isinstance(statement, ast.Assign) for each in statement.targets)
    names = [each.id for each in targets if isinstance(each, ast.Name) and is_configuration(each.id)]
    missing = [each for each in names if each not in scope]
    if missing and _EXECUTED not in loaded.inner:
        found = scope_with(missing, loaded, scope)
        loaded.inner[_EXECUTED] = {each: found[each] for each in missing if each in found}
    return {**loaded.inner[_EXECUTED], **scope} if missing else scope


def settings_of(loaded: Loaded) -> Settings:
    """Return what the project says about the values that a file's constructors read."""
    return loaded.inner.setdefault(_SETTINGS, Settings(loaded.settings, str(loaded.module.__file__)))


def made_in(value: Any, cls: type) -> Any:
    """Return the instance of a class that a function gave: itself, or the first of several; None if there is none.

    What only says that it is one, as a wrapper does that hands everything on, stands for the one that it has.
    """
    several = value if isinstance(value, tuple | list) else (value,)
    found = next((each for each in several if isinstance(each, cls)), None)
    if found is None or issubclass(type(found), cls) or not hasattr(found, "__dict__"):
        return found
    return next((each for each in vars(found).values() if issubclass(type(each), cls)), found)


def _returned_by(function: ast.FunctionDef) -> set[str]:
    """Return the names of the classes whose instances a function returns, as far as it shows."""
    made: dict[str, str] = {}
    found = set[str]()
    for node in _statements(function.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if called := _called_in(
                value, made
            ):
                made[name] = called
            case ast.Return(value=ast.expr() as value):
                several = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
                found.update(_called_in(each, made) for each in several)
            case _:
                pass
    return found


def _called_in(value: ast.expr, made: dict[str, str]) -> str:
    """Return the name of the class whose instance an expression is, "" for none: `Net(3)`, or `net.to(device)`."""
    match value:
        case ast.Name(id=name):
            return made.get(name, "")
        case ast.Call(func=ast.Name(id=called)):
            return called
        case ast.Call(func=ast.Attribute(value=inner)):
            return _called_in(inner, made)
        case _:
            return ""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a function's body, those in its blocks too, not those of definitions."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.stmt):
                    yield from _statements([part])
                elif isinstance(part, ast.ExceptHandler | ast.match_case):
                    yield from _statements(part.body)
