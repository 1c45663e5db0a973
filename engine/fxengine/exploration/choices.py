"""Which answer each question about a truth value gets, in one run and in all runs together.

A run follows the decisions of an earlier one up to a point, and from there on takes what is true or likely, or, while
exploring, what nobody has tried yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final

from fxengine.classification import Moment, Verdict, operand_span
from fxengine.errors import DynamicBool
from fxengine.exploration.answers import Outlook, is_in_while, outlook
from fxengine.exploration.places import Key, trail_of
from fxengine.source import ModuleSite

_TIMES_IN_A_LOOP: Final = 2
_TIMES: Final = 64
"""How often in a row a question gets the same answer, in a `while` loop and elsewhere, if nothing says it is true."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to a question; `assumed` if nothing says that it is the true one."""

    key: Key
    answer: bool
    assumed: bool


@dataclass(frozen=True, slots=True)
class Way:
    """How a run begins: with the first `length` decisions of another run, and then with the opposite of the next."""

    decisions: Sequence[Decision] = ()
    length: int = 0
    flips: bool = False

    def answer(self, at: int, key: Key) -> bool | None:
        """The answer to the question that is asked as number `at`; None if that is open."""
        if at >= self.length + self.flips or self.decisions[at].key != key:
            return None
        return self.decisions[at].answer is not (self.flips and at == self.length)


@dataclass(slots=True)
class Coverage:
    """What has been tried, and what is still to be. Mutable; one for all runs.

    Attributes:
        covered: The questions with the answers that were tried, or need not be.
        waiting: Those that are still to be tried, each with the way that leads there.
    """

    covered: set[tuple[Key, bool]] = field(default_factory=set[tuple[Key, bool]])
    waiting: dict[tuple[Key, bool], Way] = field(default_factory=dict[tuple[Key, bool], Way])
    _outlooks: dict[Key, Outlook] = field(default_factory=dict[Key, Outlook])

    def next_way(self) -> Way | None:
        """The way to the first answer that has not been tried; None if all were."""
        while self.waiting:
            wanted = next(iter(self.waiting))
            way = self.waiting.pop(wanted)
            if wanted not in self.covered:
                return way
        return None

    def outlook(self, key: Key, frame: FrameType, subject: Any) -> Outlook:
        """What follows from the answer to a question that is asked in a frame, about a symbolic value."""
        known = self._outlooks.get(key)
        if known is None:
            operand = operand_span(Verdict(DynamicBool, subject), Moment(frame, frame.f_lasti))
            known = self._outlooks[key] = outlook(frame.f_code, frame.f_lasti, operand)
        return known


@dataclass(slots=True)
class _Count:
    """How often a question was answered alike within one call of a module."""

    answer: bool
    times: int = 0


class Choices:
    """The decisions of one run. Mutable.

    Attributes:
        decisions: What was decided, in order.
    """

    def __init__(self, coverage: Coverage, way: Way, boundary: CodeType | None, *, explores: bool) -> None:
        """Prepare for a run.

        Args:
            coverage: What other runs have tried.
            way: How to begin.
            boundary: The code that runs a module's forward.
            explores: Whether to prefer what has not been tried to what is likely.
        """
        self.decisions: list[Decision] = []
        self._coverage = coverage
        self._way = way
        self._boundary = boundary
        self._explores = explores
        self._counts: dict[tuple[Key, ModuleSite | None], _Count] = {}

    @property
    def assumed(self) -> bool:
        """Whether any answer was not known to be true."""
        return any(decision.assumed for decision in self.decisions)

    def follow(self, key: Key, answer: bool) -> bool:
        """Decide as is said, whatever the likely answer is; for a question that is of no interest."""
        self.decisions.append(Decision(key, answer, assumed=True))
        return answer

    def decide(self, key: Key, frame: FrameType, site: ModuleSite | None, subject: Any, true: bool | None) -> bool:
        """The answer to a question.

        Args:
            key: Where it is asked.
            frame: The frame that asks.
            site: The call of the module that is running.
            subject: The symbolic value that it is about.
            true: The true answer, if it is known.
        """
        view = self._coverage.outlook(key, frame, subject)
        answer = self._way.answer(len(self.decisions), key)
        counted = self._counts.get((key, site))
        if answer is None:
            answer = self._open(key, view.likely if true is None else true)
            if true is None and counted is not None and counted.answer is answer:
                answer = answer is not self._goes_on(counted.times, frame)
        if counted is None:
            counted = self._counts[key, site] = _Count(answer)
        counted.times = counted.times + 1 if counted.answer is answer else 1
        counted.answer = answer
        self._cover(key, answer, view)
        self.decisions.append(Decision(key, answer, assumed=answer is not true))
        return answer

    def _open(self, key: Key, likely: bool) -> bool:
        """The likely answer; while exploring the other one if nobody has tried that yet."""
        covered = self._coverage.covered
        untried = self._explores and (key, likely) in covered and (key, not likely) not in covered
        return likely is not untried

    def _goes_on(self, times: int, frame: FrameType) -> bool:
        """Whether a question has had the same answer so often that it seems to go on like this for ever."""
        if times < _TIMES_IN_A_LOOP:
            return False
        return times >= _TIMES or any(is_in_while(*each) for each in trail_of(frame, self._boundary))

    def _cover(self, key: Key, answer: bool, view: Outlook) -> None:
        """Note an answer as tried, and the way to the other one."""
        coverage, other = self._coverage, (key, not answer)
        coverage.covered.add((key, answer))
        if other[1] in view.idle:
            coverage.covered.add(other)
        if other not in coverage.covered and other not in coverage.waiting:
            coverage.waiting[other] = Way(self.decisions, len(self.decisions), flips=True)
