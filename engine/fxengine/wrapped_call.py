"""Calls of modules with generated code: an exception out of that code is shown with the line of it."""

import linecache
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

__all__ = ["_WrappedCall", "new_call_wrapped"]


class _WrappedCall:
    """Calls a graph module; an exception out of generated code is shown with the generated line."""

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        """Call instances of ``cls`` by ``cls_call``, or as its base class does if that is None."""
        self.cls = cls
        self.cls_call = cls_call

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            base: Any = super(self.cls, obj)
            return base.__call__(*args, **kwargs)
        except Exception as error:  # The user's operators raise whatever they like; it goes on to the caller.
            innermost = traceback.extract_tb(error.__traceback__)[-1]
            if "eval_with_key" not in innermost.filename:
                raise
            print(self._generate_error_message(innermost), file=sys.stderr)  # noqa: T201 - beside the exception.
            raise error.with_traceback(None)  # noqa: B904 - the same error, without the frames of the machinery.

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        """Return the present exception's traceback and the generated code around the line that raised it."""
        number = frame_summary.lineno
        line = frame_summary.line
        assert number is not None, "frame_summary.lineno is None"
        assert line is not None, "frame_summary.line is None"
        source = linecache.getlines(frame_summary.filename)
        message = f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:"
        before = "".join(source[number - 2 : number])
        after = "\n".join(source[number : number + 2])
        return "\n".join([traceback.format_exc(), message, before, f"{'~' * len(line)}~~~ <--- HERE", after])


def new_call_wrapped() -> Callable[..., Any]:
    """Return the function that stands for ``__call__`` on the class of a graph module.

    ``torch.compile`` keeps what it has compiled by code object, and gives up after eight versions of one. So each class
    gets a function with code of its own.
    """
    function = types.FunctionType(_call_wrapped.__code__.replace(), globals(), "call_wrapped")
    function.__annotations__ = _call_wrapped.__annotations__
    return function


def _call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a graph module."""
    # Also lets ``torch.compile`` know that what it has compiled is for this code: it watches what is looked at.
    if not self._code:
        raise RuntimeError("Code has not been generated!")
    return self._wrapped_call(self, *args, **kwargs)
