"""What all runs together have found: each problem once, however many paths and instances lead to it.

An exception of the user's own is doubtful when it was met on a path that was only assumed: it counts unless some path
goes round it. Everything else counts as it is found. Mutable; one for each diagnosis.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from fxengine.diagnosis import TracingProblem
from fxengine.errors import Rule
from fxengine.exploration.problems import Place


@dataclass(slots=True)
class Record:
    """A problem, the instances that reach it, and the module that no path may come out of if it is to count.

    Attributes:
        problem: The problem as it was met first.
        instances: The paths of the modules in which it was met, in order.
        doubtful: The path of the module that the exception left; None if the problem counts anyway.
    """

    problem: TracingProblem
    instances: dict[str, None]
    doubtful: str | None

    def met(self, instance: str, doubtful: str | None) -> None:
        """Note that the problem was met in a module."""
        self.instances[instance] = None
        if doubtful is None:
            self.doubtful = None


@dataclass(slots=True)
class Findings:
    """Problems in the order in which they were met first.

    Attributes:
        completed: The paths of the modules that some run came out of as it should, or did not only as nothing was known
            of a symbolic value.
    """

    completed: set[str] = field(default_factory=set[str])
    _records: dict[Hashable, Record] = field(default_factory=dict[Hashable, Record])
    _swallowed: dict[Hashable, Record] = field(default_factory=dict[Hashable, Record])
    _known: dict[Hashable, Record] = field(default_factory=dict[Hashable, Record])

    def add(self, problem: TracingProblem, doubtful: str | None = None) -> Record:
        """Take in a problem; it may be known already."""
        return _merged(self._records, problem, doubtful)

    def add_again(self, rule: type[Rule], place: Place, instance: str, doubtful: str | None = None) -> bool:
        """Take in that a module has met a problem; False if it is not known."""
        record = self._records.get((rule.code, place.site, place.anchor))
        if record is not None:
            record.met(instance, doubtful)
        return record is not None

    def add_swallowed(self, problem: TracingProblem) -> None:
        """Take in a refusal that the user's own code has caught."""
        _merged(self._swallowed, problem, None)

    def known(self, question: Hashable) -> Record | None:
        """The problem that a question was, if it has come up before."""
        return self._known.get(question)

    def remember(self, question: Hashable, record: Record) -> None:
        """Note that a question is a problem."""
        self._known[question] = record

    def problems(self) -> tuple[TracingProblem, ...]:
        """What stops a trace."""
        found: dict[Hashable, TracingProblem] = {}
        for record in self._records.values():
            if record.doubtful is None or record.doubtful not in self.completed:
                # What follows from a slip says what the slip is, whatever rules it breaks one after the other.
                found.setdefault((record.problem.site, record.problem.headline), _with_instances(record))
        return tuple(found.values())

    def swallowed(self) -> tuple[TracingProblem, ...]:
        """What would stop it, were it not for the user's own handlers."""
        found = {_identity(each) for each in self.problems()}
        return tuple(_with_instances(each) for key, each in self._swallowed.items() if key not in found)


def _identity(problem: TracingProblem) -> Hashable:
    return problem.code, problem.site, problem.anchor


def _merged(records: dict[Hashable, Record], problem: TracingProblem, doubtful: str | None) -> Record:
    key = _identity(problem)
    record = records.get(key)
    if record is None:
        record = records[key] = Record(problem, {}, doubtful)
    record.met(problem.module_path, doubtful)
    return record


def _with_instances(record: Record) -> TracingProblem:
    return replace(record.problem, instances=tuple(record.instances))
