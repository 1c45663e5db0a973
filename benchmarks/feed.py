"""Which models run on the inputs that were inferred for them: for each library how many could be built and fed.

A model counts as *fed* if eager runs on the inputs: with real random weights where these are fewer than a hundred
million, else without data. Nothing is said about any model; each gets 30 seconds in a process of its own. Whatever
was not fed is listed with the reason.

    python benchmarks/feed.py [LIBRARY_OR_PACKAGE...] [--every N] [--only PART_OF_NAME] [--each]
"""

import argparse
import contextlib
import statistics
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import torch
from _children import in_children
from _libraries import LIBRARIES, Case, Model, cases

from fxengine.inputs import infer_inputs, materialize
from fxengine.shapes_only import ShapesOnly, needs_data
from fxworker.feeding import Arguments, arguments_of

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
    real = sum(each.numel() for each in model.root.parameters()) <= _REAL
    start = time.perf_counter()
    for expression in model.said:
        with contextlib.suppress(Exception):
            arguments = arguments_of(expression, model.scope)
            if not ran(case, model, arguments, real=real):
                return Feeding("call", expression, "", time.perf_counter() - start, real)
    start = time.perf_counter()
    found = infer_inputs(model.root, budget_s=_SECONDS)
    seconds = time.perf_counter() - start
    if not found.complete:
        failure = found.failures[0] if found.failures else None
        reason = f"{failure.error} <- {failure.expression}" if failure is not None else "nothing was tried"
        return Feeding("", "", reason, seconds, real)
    reason = ran(case, model, materialize(found), real=real)
    return Feeding("inferred", found.expression, reason, seconds, real)


def ran(case: Case, model: Model, arguments: Arguments, *, real: bool) -> str:
    """Return why eager does not run on the arguments, "" if it does."""
    args, kwargs = arguments
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


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", help=f"{', '.join(LIBRARIES)}, or any package that can be imported")
    parser.add_argument("--every", type=int, default=1, help="only each so-many-th model")
    parser.add_argument("--only", default="", help="only models with this in their name")
    parser.add_argument("--each", action="store_true", help="print each model, not only those that failed")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: list[str] = []
    for library in options.libraries or LIBRARIES:
        chosen = [case for case in cases(library, options.every) if options.only in case.name]
        rows.append(measured(library, chosen, each=options.each))
    print("\n" + "\n".join(rows))
    return 0


def measured(library: str, chosen: list[Case], *, each: bool) -> str:
    """Feed the models of a library, print what failed, and return a line that sums up."""
    found: list[Feeding] = []
    unbuilt = 0
    for case, result, reason, _ in in_children(feed, chosen):
        name = f"{library}:{case.name}"
        match result:
            case Feeding():
                found.append(result)
                if result.reason or each:
                    print(f"{name}: {result.reason or 'fed'} [{result.expression}] {result.seconds:.2f} s", flush=True)
            case _ if reason:
                found.append(Feeding("", "", reason, 30.0, real=False))
                print(f"{name}: {reason}", flush=True)
            case _:
                unbuilt += 1
                if each:
                    print(f"{name}: not built: {result}", flush=True)
    return summary(library, len(chosen), unbuilt, found)


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
