"""torch.fx's symbolic values, asking the oracle's tracer where torch.fx would refuse.

`len` asks always. What C code asks for (a number, a format, an item assignment) cannot be asked for without changing
what C code does with the value, so those methods exist only while a `Gate` is open: for the one instruction that is
known to have failed, in the runs after that.
"""

import functools
import operator
import sys
from collections.abc import Callable, Collection
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch.fx
from torch.fx import proxy as fx_proxy
from torch.utils import _pytree as pytree

from tests.parity.oracle.calls import Replaced, holder_of, lookup_of
from tests.parity.oracle.instructions import Instruction


class Proxy(torch.fx.Proxy):
    """A symbolic value of an `OracleTracer`."""

    def __getattr__(self, name: str) -> "Attribute":
        return Attribute(self, name)

    def __len__(self) -> int:
        return self.tracer.length(self, super().__len__)  # type: ignore[attr-defined]


class Attribute(Proxy, fx_proxy.Attribute):
    """An attribute of a symbolic value that has not become a node yet."""


# Messages name the type.
Proxy.__module__ = Attribute.__module__ = fx_proxy.__name__


class Gate:
    """Gives symbolic values the methods of numbers and item assignment while certain instructions run.

    Args:
        answered: Those instructions.
        recorded: Calls that are made by `call`.
        admits: Asked before the gate is opened for a frame, which is about to execute one of them.
        number: What a symbolic value is as a number; called with the value and a conversion.
        assign: Records the assignment or deletion of an item; called with the operator and its arguments.
        call: Calls a function with symbolic values; called with the function, its arguments and keyword arguments.
    """

    def __init__(
        self,
        answered: Collection[Instruction],
        recorded: Collection[Instruction],
        admits: Callable[[FrameType], bool],
        number: Callable[[Proxy, Callable[[Any], Any]], Any],
        assign: Callable[..., None],
        call: Callable[[Callable[..., Any], Any, Any], Any],
    ) -> None:
        self._instructions = frozenset(answered)
        self._lookups = dict(found for each in recorded if (found := lookup_of(each)) is not None)
        self._names = {_name_of(each.code) for each in (*answered, *recorded)}
        self._replaced = Replaced()
        self._admits = admits
        self._call = call
        self._previous: Any = None
        self._methods: dict[str, Callable[..., Any]] = {
            "__index__": lambda value: number(value, operator.index),
            "__int__": lambda value: number(value, int),
            "__float__": lambda value: number(value, float),
            "__complex__": lambda value: number(value, complex),
            "__round__": lambda value, *digits: number(value, lambda known: round(known, *digits)),
            "__format__": lambda value, how: number(value, lambda known: _plain_format(known, how)),
            "__setitem__": lambda *args: assign(operator.setitem, *args),
            "__delitem__": lambda *args: assign(operator.delitem, *args),
        }

    def __enter__(self) -> None:
        if self._names:
            self._previous = sys.gettrace()
            # As in fxengine/silent/observers.py: CPython 3.12 and 3.13 want to be asked twice for instructions.
            sys._getframe().f_trace_opcodes = True
            sys.settrace(self._called)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._names:
            sys.settrace(self._previous)
            self._close()

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if event != "call" or _name_of(frame.f_code) not in self._names:
            return None
        frame.f_trace = self._stepped
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        self._close()
        at = Instruction.at(frame.f_code, frame.f_lasti)
        if event == "opcode" and at in self._instructions and self._admits(frame):
            for name, method in self._methods.items():
                setattr(Proxy, name, method)
        function = self._lookups.get(at) if event == "opcode" else None
        holder = None if function is None else holder_of(function, frame)
        if holder is not None:
            self._replaced.replace(*holder, self._stand_in)
        return self._stepped

    def _stand_in(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in place of a function."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(leaf, torch.fx.Proxy) for leaf in pytree.tree_leaves((args, kwargs))):
                return self._call(function, args, kwargs)
            return function(*args, **kwargs)

        return call

    def _close(self) -> None:
        self._replaced.put_back()
        for name in self._methods:
            if name in Proxy.__dict__:
                delattr(Proxy, name)


def _name_of(code: CodeType) -> tuple[str, int, str]:
    """What finds a function; torch.fx makes a new code object of the traced one for each trace."""
    return code.co_filename, code.co_firstlineno, code.co_name


def _plain_format(value: Any, how: str) -> str:
    if isinstance(value, torch.Tensor):
        raise TypeError("the numbers of a tensor without data cannot be printed")
    return format(value, how)
