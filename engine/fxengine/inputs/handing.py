"""Whose parameters a forward has that takes any arguments and hands them on: those of a method, a part, a function.

Such are forwards that put something around another one, and decorators that do not say what they decorate.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, Final, TypeAlias

from torch import nn

from fxengine.inputs.symbols import UNKNOWN, inherited, variable
from fxengine.source import is_user_file
from fxengine.syntax import definition_of

__all__ = ["receiver"]

_Taker: TypeAlias = nn.Module | Callable[..., Any]

_MOST_STEPS: Final = 5
"""How often arguments are handed on at most."""

_Code: TypeAlias = tuple[FunctionType, Any]
"""A Python function, and the object that is its first argument, None if there is none."""


def receiver(root: _Taker) -> _Taker:
    """Return what says which arguments a model takes: itself, or what its ``*args`` are handed on to as they are."""
    for _ in range(_MOST_STEPS):
        following = next(_handed_to(root), None)
        if following is None:
            break
        root = following
    return root


def _handed_to(root: _Taker) -> Iterator[_Taker]:
    """Yield what a function calls with its ``*args`` alone, if these are all that it takes by position."""
    code = _code_of(root)
    definition = _definition_of(code[0]) if code is not None else None
    if code is None or definition is None:
        return
    _, owner = code
    spread = definition.args.vararg
    own = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
    if spread is None or len(own) > (owner is not None) or _is_bound_in(spread.arg, definition):
        return
    scope = dict.fromkeys(own, owner)
    for node in ast.walk(definition):
        match node:
            case ast.Call(func=called, args=[*first, ast.Starred(value=ast.Name(id=name))]) if name == spread.arg:
                before = [_value(each, code, scope) for each in first]
                taker = _taker(_value(called, code, scope), owner if before or not own else None, before)
                found = _code_of(taker)
                if found is not None and is_user_file(found[0].__code__.co_filename):
                    yield taker
            case _:
                pass


def _taker(called: Any, owner: Any, before: list[Any]) -> Any:
    """Return what takes the arguments alone of a call that may have others before them, None if nothing does.

    Of a function that a decorator was given the first argument is the ``owner``, written down or among the others.
    """
    if isinstance(called, FunctionType) and owner is not None:
        return MethodType(called, owner) if all(each is owner for each in before) else None
    return None if before else called


def _code_of(taker: Any) -> _Code | None:
    """Return the function that takes the arguments of a call, None where it is none of Python's."""
    function = taker.forward if isinstance(taker, nn.Module) else taker
    owner = taker if isinstance(taker, nn.Module) else getattr(taker, "__self__", None)
    found = inspect.unwrap(function) if callable(function) else None
    bare = found.__func__ if isinstance(found, MethodType) else found
    return (bare, owner) if isinstance(bare, FunctionType) else None


def _definition_of(function: FunctionType) -> ast.FunctionDef | None:
    code = function.__code__
    found = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
    return found if isinstance(found, ast.FunctionDef) else None


def _is_bound_in(name: str, definition: ast.FunctionDef) -> bool:
    """Whether a name gets a value in a function."""
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for each in ast.walk(definition)
    )


def _value(expression: ast.expr, code: _Code, scope: dict[str, Any]) -> Any:
    """Return what an expression stands for that leads to a part or a method by names; of several parts the first."""
    function, owner = code
    match expression:
        case ast.Name(id=name):
            return scope[name] if name in scope else variable(function, name)
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name):
            return inherited(owner, function, name)
        case ast.Attribute(value=base, attr=name):
            whole = _value(base, code, scope)
            return getattr(whole, name, UNKNOWN) if whole is owner or isinstance(whole, nn.Module) else UNKNOWN
        case ast.Subscript(value=base):
            whole = _value(base, code, scope)
            parts = whole.children() if isinstance(whole, nn.ModuleList | nn.ModuleDict) else ()
            return next(iter(parts), UNKNOWN)
        case _:
            return UNKNOWN
