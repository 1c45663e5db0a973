"""How often the hints of the syntax alone are right, and what they miss, against real traces of the same files.

Where nothing may be executed, `fxls.syntactic` says what a trace is likely to stop at (FX001 to FX007). Here every file
is traced as well, each in a process of its own, and the two are compared: a site is a code and a line. A hint counts as
right if the trace has a problem of that code whose lines meet the hint's. Nobody knows what is in models that could not
be traced, or whose trace did not come to its end: what was found there makes hints right, and nothing else of them
counts. Precision is the share of right ones among the hints, recall the share of the problems that were hinted at.

    python benchmarks/syntactic.py [fixtures | LIBRARY | FOLDER | FILE]... [--files N] [--seed N] [--each] [--kept FILE]

`--kept` names a file that keeps what the traces said, so that the hints alone can be judged again.
"""

import argparse
import json
import sys
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from _children import in_children

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build import files_of, sampled

from fxls.discovery import discover
from fxls.discovery.roots import roots_of
from fxls.syntactic import likely_problems
from fxworker.loading import Document
from fxworker.texts import digest
from fxworker.tracing import trace, warm_up
from fxworker.wire import Problem, TraceRequest
from tests.support.corpus import CORPUS

PLACES: Final = ("fixtures", "timm", "torchvision", "vit_pytorch", "transformers", "diffusers")
FIXTURES: Final = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
CODES: Final = ("FX001", "FX002", "FX003", "FX004", "FX005", "FX006", "FX007")
SECONDS: Final = 60.0
"""What the trace of a file may take."""

MEMORY: Final = 6 << 30


@dataclass(frozen=True, slots=True)
class Site:
    """Where a problem stands: its code, and its lines."""

    code: str
    first: int
    last: int

    def meets(self, other: "Site") -> bool:
        """Whether two sites are of one code and have a line in common."""
        return self.code == other.code and self.first <= other.last and other.first <= self.last


@dataclass(slots=True)
class Verdict:
    """What a trace said of a file: its problems, and the models that it went through; `further` are the others'."""

    sites: list[Site] = field(default_factory=list)
    further: list[Site] = field(default_factory=list)
    traced: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Score:
    """How hints fared, by code."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Score") -> None:
        """Add the score of another file."""
        self.right += other.right
        self.wrong += other.wrong
        self.missed += other.missed
        self.found += other.found

    def precision(self, code: str = "") -> float:
        """Return the share of right ones among the hints, 1 where there are none."""
        right, wrong = (each[code] if code else each.total() for each in (self.right, self.wrong))
        return right / (right + wrong) if right + wrong else 1.0

    def recall(self, code: str = "") -> float:
        """Return the share of the trace's problems that were hinted at, 1 where there are none."""
        found, missed = (each[code] if code else each.total() for each in (self.found, self.missed))
        return found / (found + missed) if found + missed else 1.0


def main(arguments: list[str]) -> int:
    """Compare, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="*", default=PLACES, help="`fixtures`, libraries, folders or files")
    parser.add_argument("--files", type=int, default=30, help="so many files of each place at most")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of files")
    parser.add_argument("--each", action="store_true", help="print every wrong and missing hint")
    parser.add_argument("--kept", type=Path, help="a file that keeps what the traces said")
    options = parser.parse_args(arguments)
    sys.path.append(str(CORPUS))
    warm_up()
    kept: dict[str, Any] = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    total = Score()
    for place in options.places:
        files = sorted(map(str, FIXTURES.rglob("*.py"))) if place == "fixtures" else [*files_of(place)]
        score, count = Score(), 0
        for path in files if place == "fixtures" else sampled(files, options.files, options.seed):
            text = Path(path).read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
            verdict = remembered(kept, path, text)
            if verdict is not None:
                count += 1
                score.add(compared(path, text, verdict, each=options.each))
            if options.kept:
                options.kept.write_text(json.dumps(kept))
        show(Path(place).name, count, score)
        total.add(score)
    if len(options.places) > 1:
        show("all", 0, total)
    return 0


def compared(path: str, text: str, verdict: Verdict, *, each: bool = False) -> Score:
    """Return how the hints of a file fare against what its trace said."""
    problems = likely_problems(path, text)
    hints = [(site_of(problem), problem) for problem in problems if problem.target in verdict.traced]
    score, lines = Score(), text.split("\n")

    def tell(kind: str, site: Site, message: str) -> None:
        if each:
            print(f"  {kind:6} {path}:{site.first} {site.code} {lines[site.first - 1].strip()[:90]}  {message}")

    for site, problem in dict(hints).items():
        if any(site.meets(true) for true in (*verdict.sites, *verdict.further)):
            score.right[site.code] += 1
        else:
            score.wrong[site.code] += 1
            tell("WRONG", site, f"({problem.target})")
    for true in verdict.sites:
        if any(true.meets(site) for site, _ in hints):
            score.found[true.code] += 1
        else:
            score.missed[true.code] += 1
            tell("MISSED", true, "")
    return score


def remembered(kept: dict[str, Any], path: str, text: str) -> Verdict | None:
    """Return what the trace of a file says, from what is kept if it is there; None where nothing could be traced."""
    key = f"{path} {digest(text)}"
    if key not in kept:
        kept[key] = traced_apart(path, text)
    if kept[key] is None or not kept[key]["traced"]:
        return None
    sites, further = ([Site(**each) for each in kept[key][name]] for name in ("sites", "further"))
    return Verdict(sites, further, set(kept[key]["traced"]))


def traced_apart(path: str, text: str) -> Any:
    """Return the verdict on a file as JSON has it, made in a process of its own; None if that hung or died."""
    verdict = next(in_children(partial(judged, path), [text], SECONDS, MEMORY))[1]
    return None if verdict is None else {**asdict(verdict), "traced": sorted(verdict.traced)}


def judged(path: str, text: str) -> Verdict:
    """Trace a file here."""
    index = discover(path, text)
    request = TraceRequest(1, path, text, index.targets, roots_of(path, imported=index.imported))
    document = Document.of(request)
    document.enter(request)
    document.import_ahead(request)
    report = trace(request, document, lambda _index, _guess: None)
    traced = {each.qualname for each in report.targets if each.status != "not traced" and each.reached_end}
    traced -= {each.qualname for each in report.targets if each.enclosed_by and each.enclosed_by not in traced}
    sites, further = dict[Site, None](), dict[Site, None]()
    for each in report.targets:
        here = [problem for problem in each.problems if problem.code in CODES and problem.location.path == path]
        (sites if each.qualname in traced else further).update(dict.fromkeys(map(site_of, here)))
    return Verdict([*sites], [each for each in further if each not in sites], traced)


def site_of(problem: Problem) -> Site:
    """Return where a problem stands."""
    span = problem.location.span
    return Site(problem.code, span.line, span.end_line)


def show(name: str, files: int, score: Score) -> None:
    """Print the rows of a place: all codes together, then each."""
    counted = f"{files} files, " if files else ""
    print(f"{name}: {counted}precision {score.precision():.2f} of {score.right.total() + score.wrong.total()} hints, "
          f"recall {score.recall():.2f} of {score.found.total() + score.missed.total()} problems")  # fmt: skip
    for code in CODES:
        hints, problems = score.right[code] + score.wrong[code], score.found[code] + score.missed[code]
        if hints or problems:
            shares = f"{score.precision(code):.2f} of {hints}, {score.recall(code):.2f} of {problems}"
            print(f"    {code}: {shares}")
    sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
