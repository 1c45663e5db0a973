"""`python -m tests.parity.oracle timm:vit_tiny_patch16_224 …`: where `diagnose` and torch.fx disagree on real models.

A name may be cut short with `*`: `own:*`, `fixture:truth/*`, `transformers:*`, `timm:*, fed` with inputs. The exit
status is 1 if they disagree anywhere. With `-v` every site is printed.
"""

import argparse
import fnmatch
import logging
import sys
import traceback
import warnings

from tests.parity.oracle.subjects import Subject, every
from tests.parity.oracle.verdicts import Limits, verdict


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
    for subject in every():
        if any(fnmatch.fnmatchcase(subject.name, pattern) for pattern in options.names):
            status |= _print(subject, options)
            sys.stdout.flush()
    return status


def _print(subject: Subject, options: argparse.Namespace) -> bool:
    """Print what is said of a subject, and whether it is not what it should be."""
    write = sys.stdout.write
    try:
        result = verdict(subject, Limits(options.seconds, options.seconds, options.further))
    except Exception:  # noqa: BLE001 - a model that one of the two cannot cope with is a finding.
        write(f"FAILS   {subject.name}\n{traceback.format_exc(limit=-3)}")
        return True
    found = result.found
    cut = [f"{side} cut: {why}" for side, why in (("ours", result.cut), ("theirs", found.cut)) if why]
    times = f"diagnosed {result.seconds:.1f} s, searched {found.seconds:.1f} s"
    parts = ", ".join([f"{result.agreed} sites, {found.runs} runs", times, *cut])
    write(f"{'DIFFERS' if result else 'agrees '} {subject.name}: {parts}\n")
    lines = str(result).splitlines()[:-1][: options.most]
    if options.verbose:
        lines += [f"{kind}: {site}" for kind in ("sites", "possible", "dismissed") for site in getattr(found, kind)]
    for line in lines:
        write(f"    {line}\n")
    return bool(result)


if __name__ == "__main__":
    raise SystemExit(main())
