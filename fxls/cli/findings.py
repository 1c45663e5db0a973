"""What a check found, with places as people count them: lines and code points from 1."""

import linecache
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fxls.cli.files import shown
from fxls.cli.tracing import Traced
from fxls.features.places import PlacedProblem
from fxls.features.problems import problems
from fxls.features.wording import signature
from fxls.text.mapper import Mapper
from fxworker.wire import Edit, Location, Problem, Severity, TargetReport


@dataclass(frozen=True, slots=True)
class Place:
    """A range of a file; lines and columns count from 1, columns count code points, the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and where it lies. `targets` are the models in which it was met, the first of which was `fed` this."""

    problem: Problem
    place: Place
    targets: tuple[str, ...]
    fed: str = ""


@dataclass(frozen=True, slots=True)
class FileFindings:
    """What was found in one file, and the reports of its models without their graphs (see `findings_of`).

    `nodes` says how many nodes the graphs of the models have that have any, by their names.
    """

    shown: str
    findings: tuple[Finding, ...]
    targets: tuple[TargetReport, ...]
    nodes: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class Sources:
    """The texts that places are counted in: those that were traced, and others read from disk when asked for."""

    mappers: dict[str, Mapper] = field(default_factory=dict[str, Mapper])

    def mapper(self, path: str) -> Mapper:
        """Return the coordinates of a file; those of an empty text where it cannot be read."""
        mapper = self.mappers.get(path)
        if mapper is None:
            mapper = self.mappers[path] = Mapper("".join(linecache.getlines(path)), "utf-32")
        return mapper

    def place(self, location: Location) -> Place:
        """Return a location as people count it."""
        mapper, span = self.mapper(location.path), location.span
        return Place(
            shown(location.path),
            span.line,
            mapper.code_point(span.line, span.column),
            span.end_line,
            mapper.code_point(span.end_line, span.end_column),
        )

    def written(self, edit: Edit) -> str:
        """Return the text of an edit as it is to stand in its file."""
        return self.mapper(edit.location.path).fitting(edit.text)


def findings_of(traced: Traced, sources: Sources) -> FileFindings:
    """Return what is wrong in a file, in the order of its text; what lies in a library stands at its own place.

    Of the graphs it is kept how many nodes they have: of a large project all together would fill the memory.
    """
    sources.mappers[traced.file.path] = traced.snapshot.mapper
    targets = traced.report.targets if traced.report is not None else ()
    fed = {each.qualname: signature(each) for each in targets}
    found = [_finding(each, sources, fed) for each in problems(traced.snapshot)]
    found.extend(Finding(each, sources.place(each.location), ()) for each in traced.configuration_problems)
    nodes = {each.qualname: len(each.nodes) for each in targets if each.nodes}
    light = (replace(each, nodes=(), code="", problems=()) for each in targets)
    return FileFindings(traced.file.shown, tuple(found), tuple(light), nodes)


def counts(files: Iterable[FileFindings]) -> dict[Severity, int]:
    """Return how many findings there are of each severity."""
    numbers: dict[Severity, int] = {"error": 0, "warning": 0, "information": 0, "hint": 0}
    for file in files:
        for finding in file.findings:
            numbers[finding.problem.severity] += 1
    return numbers


def _finding(placed: PlacedProblem, sources: Sources, fed: Mapping[str, str]) -> Finding:
    first = fed.get(placed.targets[0], "") if placed.targets else ""
    return Finding(placed.problem, sources.place(placed.problem.location), placed.targets, first)
