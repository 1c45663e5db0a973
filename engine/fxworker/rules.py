"""The problems beside those of tracing itself (`fxengine.errors`): of a file, its models, comments and configuration.

The server finds the last two by itself; they are listed here because every code is a class.
"""

from typing import Final

from fxengine.errors import Rule
from fxworker.postmortem import DIED, TIMED_OUT


class ImportFailed(Rule):
    """Executing what the file's models need raised: a syntax error, a failing import, a class body, a constant."""

    code = "FX101"
    title = "the file cannot be executed"


class ConstructionFailed(Rule):
    """The constructor, or the expression that builds the model, raised."""

    code = "FX102"
    title = "the model cannot be built"


class NoConstruction(Rule):
    """Nothing says with which arguments the model is to be built, and none could be inferred."""

    code = "FX103"
    title = "no way to build the model is known"


class TimedOut(Rule):
    """User code did not finish within the limit."""

    code = TIMED_OUT
    title = "the time limit passed"


class WorkerDied(Rule):
    """User code ended the process that it ran in."""

    code = DIED
    title = "the worker process died"


class UnusedIgnore(Rule):
    """A comment `# fx: ignore[…]` ignores nothing, or cannot."""

    code = "FX106"
    title = "a comment that ignores nothing"


class Misconfigured(Rule):
    """The project's `[tool.fxls]` says something that has no meaning."""

    code = "FX107"
    title = "a mistake in the configuration"


class ShapesDoNotFit(Rule):
    """The model does not run on the inputs that somebody wrote down for it."""

    code = "FX201"
    title = "shapes do not fit"


class InputsUnknown(Rule):
    """No inputs were found on which the model runs, and nobody wrote any down."""

    code = "FX202"
    title = "an input could not be inferred"


RULES: Final[tuple[type[Rule], ...]] = (
    ImportFailed,
    ConstructionFailed,
    NoConstruction,
    TimedOut,
    WorkerDied,
    UnusedIgnore,
    Misconfigured,
    ShapesDoNotFit,
    InputsUnknown,
)
