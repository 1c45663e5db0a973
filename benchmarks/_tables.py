"""What is common to the tables of libraries: their arguments, and going over the models of each."""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from _children import in_children
from _libraries import LIBRARIES, Case, cases

__all__ = ["arguments", "chosen", "outcomes"]

_Outcome = TypeVar("_Outcome")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what all tables take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help=f"{', '.join(LIBRARIES)}, or any package that can be imported")
    parser.add_argument("--every", type=int, default=1, help="only each so-many-th model")
    parser.add_argument("--limit", type=int, default=0, help="only so many models of a library, evenly spread")
    parser.add_argument("--shift", type=int, default=0, help="so many models further on, of those that are left out")
    parser.add_argument("--only", default="", help="only models with this in their name")
    parser.add_argument("--each", action="store_true", help="print each model, not only those that failed")
    return parser


def chosen(options: argparse.Namespace) -> Iterator[tuple[str, list[Case]]]:
    """Yield each library that was asked for with those of its models that were."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for library in options.libraries or LIBRARIES:
        found = [case for case in cases(library, options.every) if options.only in case.name]
        if 0 < options.limit < len(found):
            count = len(found)
            found = [found[(index * count // options.limit + options.shift) % count] for index in range(options.limit)]
        yield library, found


def outcomes(
    work: Callable[[Case], Any],
    models: list[Case],
    lost: Callable[[str], _Outcome],
    line: Callable[[_Outcome, float], str],
    *,
    each: bool,
) -> tuple[list[_Outcome], int]:
    """Return how the models went, and how many could not be built.

    Args:
        work: What is done with each, in a process of its own; returns an outcome, or why it was not built.
        models: The models.
        lost: Makes the outcome of one whose process did not answer, of the reason.
        line: Makes the line that is printed for an outcome and the seconds that it took; "" for none.
        each: Whether those are printed too that were not built.
    """
    found: list[_Outcome] = []
    unbuilt = 0
    for case, result, reason, taken in in_children(work, models):
        if result is None or isinstance(result, str):
            if not reason:
                unbuilt += 1
                if each:
                    print(f"{case.library}:{case.name}: not built: {result}", flush=True)
                continue
            found.append(lost(reason))
        else:
            found.append(result)
        text = line(found[-1], taken)
        if text:
            print(f"{case.library}:{case.name}: {text}", flush=True)
    return found, unbuilt
