"""Which trace is running, and classes that behave differently while one is.

The one piece of state is a context variable, so that every thread and every task has its own answer.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import torch

from fxengine.wrapping import find_proxy

if TYPE_CHECKING:
    from fxengine.tracer import Tracer

__all__ = [
    "ProxyableClassMeta",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "running_tracer",
    "thread_says",
    "unknown_to_torch",
]

_proxyable_classes: Final[dict[type, None]] = {}
"""The classes whose construction is recorded; instances of them become attributes of the root."""

running_tracer: Final[ContextVar["Tracer | None"]] = ContextVar("fxengine_running_tracer", default=None)
"""The innermost tracer that is running in this context."""


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is running in this context."""
    return running_tracer.get() is not None


def is_fx_symbolic_tracing() -> bool:
    """Whether a symbolic trace is running in this context and torch is not compiling."""
    return is_fx_tracing() and not torch.compiler.is_compiling()


@contextmanager
def unknown_to_torch() -> Generator[None]:
    """Let torch take it for a while that no trace runs: by a flag, from 2.14 on by one per thread."""
    theirs: Any = sys.modules.get("torch.fx._symbolic_trace")
    if theirs is None:
        yield
    elif hasattr(theirs, "_set_is_fx_tracing"):
        with thread_says(theirs, False):
            yield
    else:
        before = theirs._is_fx_tracing_flag
        theirs._is_fx_tracing_flag = False
        try:
            yield
        finally:
            theirs._is_fx_tracing_flag = before


@contextmanager
def thread_says(theirs: Any, is_tracing: bool) -> Generator[None]:
    """Let torch's flag of this thread, which a module of `theirs` has from 2.14 on, say whether a trace runs."""
    before = theirs._get_is_fx_tracing()
    theirs._set_is_fx_tracing(is_tracing)
    try:
        yield
    finally:
        theirs._set_is_fx_tracing(before)


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction is recorded when it is given symbolic values.

    Example:
        `TensorPair(x, y)` becomes a node if `x` or `y` is symbolic::

            class TensorPair(metaclass=fxengine.ProxyableClassMeta):
                def __init__(self, left, right):
                    self.left, self.right = left, right
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        _proxyable_classes[cls] = None

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return an instance, or a symbolic value that stands for it."""
        instance = cls.__new__(cls)  # pyright: ignore[reportCallIssue]
        if is_fx_tracing():
            proxy = find_proxy((args, kwargs))
            if proxy is not None:
                return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(instance, *args, **kwargs)
        return instance


def is_proxyable(cls: type) -> bool:
    """Whether the class is made by `ProxyableClassMeta`, ours or torch.fx's."""
    theirs = getattr(sys.modules.get("torch.fx._symbolic_trace"), "_proxyable_classes", ())
    return cls in _proxyable_classes or cls in theirs
