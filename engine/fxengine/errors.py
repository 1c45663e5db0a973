"""What can go wrong while a model is traced: the exception of torch.fx, and the rule that each failure belongs to.

The exceptions and their messages are torch.fx's. The rules (`FX001` to `FX009`) are the engine's own: whoever raises on
behalf of a symbolic value says at once which rule it is, in a `Refusal`, so that nothing has to be guessed from the
text of a message afterwards.
"""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

# Code that catches torch.fx's exception means ours too.
_Counterpart: Any = getattr(sys.modules.get("torch.fx.proxy"), "TraceError", ValueError)


class TraceError(_Counterpart):
    """A symbolic value was used in a way that tracing cannot record. It is a `ValueError`, as torch.fx's is."""


class Rule:
    """A kind of tracing problem. Subclasses are the rules; they are never instantiated.

    Attributes:
        code: The stable name, never renumbered.
        title: What the rule is about, in a few words.
    """

    code: ClassVar[str]
    title: ClassVar[str]


class DynamicBool(Rule):
    """A symbolic value is asked for a bool, by `if`, `while`, `assert`, `and`, `in`, or a chained comparison."""

    code = "FX001"
    title = "a symbolic value is asked for a bool"


class DynamicLength(Rule):
    """`len` of a symbolic value."""

    code = "FX002"
    title = "`len` of a symbolic value"


class DynamicIteration(Rule):
    """A symbolic value is iterated, starred, or unpacked to an unknown count."""

    code = "FX003"
    title = "a symbolic value is iterated"


class DynamicNumber(Rule):
    """A symbolic value stands where Python or C wants a number."""

    code = "FX004"
    title = "a symbolic value where a number is wanted"


class ItemAssignment(Rule):
    """An item of a symbolic value is assigned or deleted."""

    code = "FX005"
    title = "item assignment on a symbolic value"


class ForeignCall(Rule):
    """A constructor, C function or foreign library was handed a symbolic value that it cannot take."""

    code = "FX006"
    title = "a call that cannot take a symbolic value"


class ForeignModule(Rule):
    """A module or parameter is used that is not part of the root."""

    code = "FX007"
    title = "a module or parameter outside of the traced root"


class UnsupportedArgument(Rule):
    """An object that the graph cannot hold became an argument."""

    code = "FX008"
    title = "an argument that the graph cannot hold"


class RaisedWhileTracing(Rule):
    """Any other exception of the user's code, or of what it calls, while it is traced."""

    code = "FX009"
    title = "an exception while tracing"


RULES: tuple[type[Rule], ...] = (
    DynamicBool,
    DynamicLength,
    DynamicIteration,
    DynamicNumber,
    ItemAssignment,
    ForeignCall,
    ForeignModule,
    UnsupportedArgument,
    RaisedWhileTracing,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tracer's note that it raised `error` for `rule`, on behalf of the symbolic value `subject` (None: no value)."""

    rule: type[Rule]
    subject: Any
    error: BaseException


def text_of(error: BaseException) -> str:
    """Return an exception's message; the class may be the user's own, and asking for its text may raise anything."""
    try:
        return str(error)
    except BaseException as second:  # noqa: BLE001 — It is the user's code that runs here.
        return f"<its text cannot be had: {type(second).__name__}>"
