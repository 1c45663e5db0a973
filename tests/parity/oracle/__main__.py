"""`python -m tests.parity.oracle timm:vit_tiny_patch16_224 …`: where `diagnose` and torch.fx disagree on real models.

A name may be cut short with `*`: `own:*`, `fixture:truth/*`, `transformers:*`. The exit status is 1 if they disagree
anywhere. With `-v` every site is printed.
"""

import argparse
import fnmatch
import functools
import logging
import sys
import time
import warnings
from collections.abc import Iterator

import torch.fx

import fxengine
from tests.parity.oracle.comparison import compare
from tests.parity.oracle.search import Budget
from tests.parity.oracle.subjects import Subject, every


def main() -> int:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every site")
    parser.add_argument("--most", type=int, default=1000, help="print at most so many lines for a model")
    parser.add_argument("--seconds", type=float, default=10.0, help="for exploring a model, on each side")
    parser.add_argument("--further", type=int, default=20, help="how many runs with answers in other combinations")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    status = 0
    for subject in _named(options.names):
        if subject.inputs and "inputs" not in fxengine.diagnose.__kwdefaults__: continue
        begun = time.monotonic()
        root = subject.build()
        inputs = subject.inputs(root) if subject.inputs is not None else None
        built = time.monotonic()
        given = {} if inputs is None else {"inputs": inputs}
        budget = fxengine.exploration.Budget(options.seconds)
        diagnose = functools.partial(fxengine.diagnose, root, subject.concrete_args(fxengine), budget=budget, **given)
        try:
            result = compare(
                root, diagnose, inputs, subject.concrete_args(torch.fx), Budget(options.seconds, further=options.further)
            )
        except Exception as e:
            import traceback; traceback.print_exc(limit=-3,file=sys.stdout); sys.stdout.write(f"CRASH {subject.name} {e!r}\n"); status=1; continue
        found = result.found
        times = f"built {built - begun:.1f} s, diagnosed {result.seconds:.1f} s, searched {found.seconds:.1f} s"
        sys.stdout.write(
            f"{'DIFFERS' if result else 'agrees '} {subject.name}: {result.agreed} sites, {found.runs} runs, {times}"
            f"{', ours cut' if result.cut else ''}{f', theirs cut: {found.cut}' if found.cut else ''}\n"
        )
        if result or result.undecided or options.verbose:
            sys.stdout.writelines(f"    {line}\n" for line in str(result).splitlines()[:-1][: options.most])
        if options.verbose:
            for verdict in ("sites", "possible", "dismissed"):
                sys.stdout.writelines(f"    {verdict}: {site}\n" for site in getattr(found, verdict))
        sys.stdout.flush()
        status |= bool(result)
    return status


def _named(patterns: list[str]) -> Iterator[Subject]:
    for subject in every():
        if any(fnmatch.fnmatchcase(subject.name, pattern) for pattern in patterns):
            yield subject


if __name__ == "__main__":
    raise SystemExit(main())
