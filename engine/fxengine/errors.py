"""What can go wrong while a model is traced: the exception of torch.fx, and the rule that each failure belongs to.

The exceptions and their messages are torch.fx's. The rules (`FX001` to `FX009`) are the engine's own: whoever raises on
behalf of a symbolic value says at once which rule it is, in a `Refusal`, so that nothing has to be guessed from the
text of a message afterwards. The rules from `FX301` on are about what raises nothing and makes a graph that does
something else than the model.
"""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

Severity = Literal["error", "warning", "information", "hint"]
"""How much a problem matters to whoever has not said otherwise."""

# Code that catches torch.fx's exception means ours too.
_Counterpart: Any = getattr(sys.modules.get("torch.fx.proxy"), "TraceError", ValueError)


class TraceError(_Counterpart):
    """A symbolic value was used in a way that tracing cannot record. It is a `ValueError`, as torch.fx's is."""


OF_THE_CODE: Final = (NameError, ImportError)
"""What code raises for a fault of its own, whatever it is given."""


class Rule:
    """A kind of tracing problem. Subclasses are the rules; they are never instantiated.

    Attributes:
        code: The stable name, never renumbered.
        title: What the rule is about, in a few words.
        severity: How much it matters, unless a problem says otherwise of itself.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity] = "error"


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


class BakedTraining(Rule):
    """User code asks whether it is training, and the graph keeps the answer of the mode that it was traced in."""

    code = "FX301"
    title = "the training mode is baked in"
    severity = "warning"


class EmbeddedConstructor(Rule):
    """A tensor that `forward` makes is made once, while tracing, although its size or device may change."""

    code = "FX302"
    title = "a constructor's tensor is embedded"
    severity = "information"


class EmbeddedDraw(Rule):
    """A random number or tensor is drawn once, while tracing, and the graph keeps it."""

    code = "FX303"
    title = "a random draw is embedded"
    severity = "warning"


class WrapWithoutEffect(Rule):
    """A function that is registered as a leaf was traced through, as it was called by a name of another module."""

    code = "FX304"
    title = "`wrap` has no effect on a call"
    severity = "warning"


class UnusedInput(Rule):
    """An input that nothing in the graph uses."""

    code = "FX305"
    title = "an input is never used"
    severity = "hint"


class SpecialisedValue(Rule):
    """The graph holds for one value of something that could have others."""

    code = "FX306"
    title = "a value is specialised"
    severity = "information"


class InPlaceChange(Rule):
    """A buffer, a parameter, an argument or an attribute is changed in place; the graph may repeat that or not."""

    code = "FX307"
    title = "an in-place change"
    severity = "warning"


class ChangingAttribute(Rule):
    """A branch depends on an attribute of a module that changes between calls."""

    code = "FX308"
    title = "a branch on an attribute that changes between calls"
    severity = "warning"


class SwallowedError(Rule):
    """User code caught a tracing error, and the graph follows the handler."""

    code = "FX309"
    title = "a tracing error is swallowed"
    severity = "warning"


class ImplicitDimension(Rule):
    """A softmax is not told along which dimension, and torch takes one by how many there are."""

    code = "FX310"
    title = "a softmax without a dimension"
    severity = "warning"


class LostResult(Rule):
    """Nothing uses what is computed, or what is returned is not the value but what makes or holds it."""

    code = "FX311"
    title = "a result is lost"
    severity = "warning"


class MisplacedSoftmax(Rule):
    """A softmax goes along another dimension than the one that is summed up, along a single value, or the batch."""

    code = "FX312"
    title = "a softmax along a wrong dimension"
    severity = "warning"


SILENT_RULES: tuple[type[Rule], ...] = (
    BakedTraining,
    EmbeddedConstructor,
    EmbeddedDraw,
    WrapWithoutEffect,
    UnusedInput,
    SpecialisedValue,
    InPlaceChange,
    ChangingAttribute,
    SwallowedError,
    ImplicitDimension,
    LostResult,
    MisplacedSoftmax,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tracer's note that it raised `error` for `rule`, on behalf of the symbolic value `subject` (None: no value)."""

    rule: type[Rule]
    subject: Any
    error: BaseException


_READABLE: Final = 20_000
"""Characters of a message."""


def kept_in(error: BaseException, kind: type[BaseException], name: str) -> Any:
    """Return what Python keeps in an exception of this kind under a name, whatever the user's class says it is."""
    return vars(kind)[name].__get__(error)


_IN_SCRIPT: Final = "The following operation failed in the TorchScript interpreter."
_SAID_IN_SCRIPT: Final = "\nRuntimeError: "
"""How the text of an error begins that scripted code has raised, and what comes before the message in it."""


def text_of(error: BaseException) -> str:
    """Return an exception's message; the class may be the user's own, and asking for its text may raise anything.

    The middle of a text that nobody could read is left out: what looks through messages would take its time. Of what
    failed in scripted code only what is wrong is told, and not where in the script: that stands around it.
    """
    try:
        text = str(error)
        if text.startswith(_IN_SCRIPT):
            text = text.rpartition(_SAID_IN_SCRIPT)[2].strip() or text
        return text if len(text) <= _READABLE else f"{text[: _READABLE // 2]} … {text[-_READABLE // 2 :]}"
    except BaseException as second:  # noqa: BLE001 — It is the user's code that runs here.
        return f"<its text cannot be had: {type(second).__name__}>"


def said_by_torch_fx(error: BaseException) -> str:
    """Return an exception's message as it reads under torch.fx, whose symbolic values are of classes of its own."""
    return text_of(error).replace("fxengine.proxy.", "torch.fx.proxy.")
