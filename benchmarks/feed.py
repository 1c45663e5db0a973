"""Which models run on the inputs that were inferred for them: for each library how many could be built and fed.

A model counts as *fed* if eager runs on the inputs: with real random weights where these are fewer than a hundred
million, else without data. Nothing is said about any model; each gets 30 seconds in a process of its own. Whatever
was not fed is listed with the reason.

    python benchmarks/feed.py [LIBRARY_OR_PACKAGE...] [--every N] [--limit N] [--shift N] [--only PART] [--each]
"""

import contextlib
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from _libraries import Case, Model, inputs_for, made
from _tables import arguments, chosen, outcomes
from torch import nn

from fxengine.shapes_only import ShapesOnly, needs_data
from fxworker.argument_lists import Arguments

_SECONDS: Final = 5.0
"""The budget of one search, in processor time."""

_REAL: Final = 100_000_000
"""The most parameters of a model that is run on real data."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """How feeding one model went.

    Attributes:
        source: Where the inputs come from: `call`, `inferred`, or "" where there are none.
        expression: The inputs as source.
        reason: Why the model is not fed, "" if it is.
        seconds: What finding the inputs took.
        real: Whether it ran on real data.
    """

    source: str
    expression: str
    reason: str
    seconds: float
    real: bool


def feed(case: Case) -> Feeding | str:
    """Return how feeding a model went, or why it could not be built."""
    # What a library compiles is run as it is, as in the worker.
    torch.compiler.set_stance("force_eager")
    try:
        model = case.build()
    except BaseException as error:  # noqa: BLE001 - the libraries' code raises whatever it likes.
        return told(error)
    if type(model.root).forward is nn.Module.forward:
        return "it has no forward"
    real = model.size <= _REAL
    start = time.perf_counter()
    for expression in model.said:
        with contextlib.suppress(Exception):
            if not ran(case, model, made(expression, model, 0), real=real):
                return Feeding("call", expression, "", time.perf_counter() - start, real)
    start = time.perf_counter()
    fitting, found = inputs_for(case, model, _SECONDS)
    seconds = time.perf_counter() - start
    if fitting is not case:
        case, model = fitting, fitting.build()
    if not isinstance(found, str) and not found.complete:
        failure = found.failures[0] if found.failures else None
        reason = f"{failure.error} <- {failure.expression}" if failure is not None else "nothing was tried"
        return Feeding("", "", reason, seconds, real)
    reason = ran(case, model, made(found, model, 0), real=real)
    expression = found if isinstance(found, str) else found.expression
    return Feeding("inferred", expression, reason, seconds, real)


def ran(case: Case, model: Model, given: Arguments, *, real: bool) -> str:
    """Return why eager does not run on the arguments, "" if it does."""
    args, kwargs = given
    try:
        with torch.no_grad():
            if real:
                root = case.build(real=True).root
                torch.manual_seed(0)
                root(*args, **kwargs)
            else:
                with ShapesOnly(model.root):
                    model.root(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the libraries' code raises whatever it likes.
        return "" if not real and needs_data(error) else f"eager: {told(error)}"
    return ""


def told(error: BaseException) -> str:
    """Return the first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def main(given: list[str]) -> int:
    """Measure, print, and return the exit status."""
    options = arguments(__doc__).parse_args(given)
    rows: list[str] = []
    for library, models in chosen(options):
        found, unbuilt = outcomes(feed, models, lost, partial(line, each=options.each), each=options.each)
        rows.append(summary(library, len(models), unbuilt, found))
    print("\n" + "\n".join(rows))
    return 0


def lost(reason: str) -> Feeding:
    """Return the outcome of a model whose process did not answer."""
    return Feeding("", "", reason, 30.0, real=False)


def line(feeding: Feeding, _taken: float, *, each: bool) -> str:
    """Return what is printed for a model."""
    if not feeding.reason and not each:
        return ""
    return f"{feeding.reason or 'fed'} [{feeding.expression}] {feeding.seconds:.2f} s"


def summary(library: str, count: int, unbuilt: int, found: list[Feeding]) -> str:
    """Return how many models were built and fed, where from, and how long finding inputs took."""
    fed = [each for each in found if not each.reason]
    seconds = sorted(each.seconds for each in found) or [0.0]
    sources = Counter[Any](each.source for each in fed)
    share = 100 * len(fed) / max(1, len(found))
    times = f"{1e3 * statistics.median(seconds):.0f} ms (95%: {1e3 * seconds[int(0.95 * (len(seconds) - 1))]:.0f} ms)"
    return (
        f"{library}: {count} models, {count - unbuilt} built, {len(fed)} fed ({share:.1f}%; {sources['call']} by call "
        f"sites, {sum(each.real for each in fed)} on real data), finding inputs takes {times}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
