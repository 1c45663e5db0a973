"""Arguments that a part of a model gets from weights which are not there: `Net(**checkpoint["hyper_parameters"])`.

They are searched for as those of any model, and the part is given those that the call lacks. Nothing else is changed:
what is built is one of the models that such a file would make.
"""

import ast
import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, Final, TypeAlias, TypeVar

import torch
from torch import nn

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.syntax import nodes_around
from fxworker.arguments import Search
from fxworker.callers import EXPRESSION
from fxworker.choices import attribute_of, call_in
from fxworker.lacking import value_in
from fxworker.offline import AbsentWeights
from fxworker.packages import with_packages
from fxworker.retrying import again

_MOST: Final = 3
"""How many classes of a model are given arguments."""

_SECONDS: Final = 1.0
"""How long such arguments are searched for."""

_Result = TypeVar("_Result")
_Attempt: TypeAlias = Callable[..., Any]
_Arguments: TypeAlias = Mapping[str, CodeType]


def with_arguments_supplied(work: Callable[[], _Result], attempt: _Attempt) -> _Result:
    """Do something in which parts may get arguments from weights that are not there, and return what it gives.

    Args:
        work: What is done.
        attempt: Returns what a callable builds, for `real` only if it says so.
    """
    supplied: dict[type, _Arguments] = {}

    def is_supplied(error: Exception) -> bool:
        cls = _starved(error)
        arguments = _arguments_of(cls, attempt) if cls is not None and cls not in supplied else {}
        if cls is not None and arguments:
            supplied[cls] = arguments
        return bool(arguments)

    def supplying() -> _Result:
        with contextlib.ExitStack() as given:
            for cls, arguments in supplied.items():
                given.enter_context(_given(cls, arguments))
            return work()

    return again(supplying, is_supplied, _MOST)


def _starved(error: Exception) -> type | None:
    """Return the class of modules that a call lacks arguments for whose keywords come from absent weights, or None."""
    moments = moments_of(error.__traceback__) if isinstance(error, TypeError) and " missing " in text_of(error) else []
    around = nodes_around(moments[-1].path, moments[-1].source.span) if moments else []
    match around[-1:]:
        case [ast.Call(func=callee, keywords=keywords)]:
            frame = moments[-1].frame
            cls = _called(callee, frame)
            is_spread = any(each.arg is None and _is_of_weights(each.value, frame) for each in keywords)
            return cls if is_spread and isinstance(cls, type) and issubclass(cls, nn.Module) else None
        case _:
            return None


def _called(callee: ast.expr, frame: FrameType) -> Any:
    """Return what an expression calls, as far as names and attributes say it."""
    if isinstance(callee, ast.Attribute):
        return attribute_of(_called(callee.value, frame), callee.attr)
    return value_in(callee, frame)


def _is_of_weights(node: ast.expr, frame: FrameType) -> bool:
    """Whether an expression is made of weights that are not there."""
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return any(isinstance(value_in(each, frame), AbsentWeights) for each in names)


@functools.lru_cache(maxsize=64)
def _arguments_of(cls: type, attempt: _Attempt) -> _Arguments:
    """Return arguments that build a class, as code that makes them; empty where none are found."""
    search = Search(cls.__name__, cls, _scope_of(cls), functools.partial(attempt, real=False))
    expression, _ = search.run(seconds=_SECONDS) or ("", None)
    call = call_in(expression) if expression else None
    keywords = {each.arg: ast.Expression(each.value) for each in call.keywords if each.arg} if call is not None else {}
    return {name: compile(each, EXPRESSION, "eval") for name, each in keywords.items()}


def _scope_of(cls: type) -> dict[str, Any]:
    """Return the names that the arguments of a class may be made of."""
    module = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    return {"torch": torch, "nn": nn, "SimpleNamespace": SimpleNamespace, **module, cls.__name__: cls}


@contextlib.contextmanager
def _given(cls: type, arguments: _Arguments) -> Generator[None]:
    """Let calls of a class in the body have arguments that they lack."""
    own = vars(cls).get("__init__")
    construct, scope = cls.__init__, _scope_of(cls)
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def constructed(self: Any, *args: Any, **kwargs: Any) -> None:
        known = signature.bind_partial(self, *args, **kwargs).arguments
        lacking = {name: code for name, code in arguments.items() if name not in known}
        made = {name: eval(code, with_packages(code, scope)) for name, code in lacking.items()}  # noqa: S307 — Ours.
        construct(self, *args, **made, **kwargs)

    cls.__init__ = constructed
    try:
        yield
    finally:
        if own is None:
            del cls.__init__
        else:
            cls.__init__ = own
