"""Which answer each question about a truth value gets, in one run and in all runs together.

A run follows the decisions of an earlier one up to a point, and from there on takes what is true or likely, or, while
exploring, what nobody has tried yet. Within a run the same value has the same truth wherever that is asked for.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final

from fxengine.classification import Moment, Verdict, operand_span
from fxengine.errors import DynamicBool
from fxengine.exploration.answers import Outlook, is_in_while, outlook
from fxengine.exploration.places import Key, trail_of
from fxengine.proxy import Attribute, Proxy
from fxengine.source import ModuleSite, is_user_file

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
    """How a run begins: with the first `length` decisions of another run, and then with the opposite of the next.

    Attributes:
        decisions: The decisions of the other run.
        length: How many of them are repeated.
        flips: Whether the next one is turned round.
        daring: Those among the repeated ones that were taken only as nobody had tried them, by their indices.
    """

    decisions: Sequence[Decision] = ()
    length: int = 0
    flips: bool = False
    daring: tuple[int, ...] = ()

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
        doubted: Those that were tried where nothing was to be learned from it; each is forgiven that once.
        retries: Ways that do without the last of the answers after which a run has failed.
    """

    covered: set[tuple[Key, bool]] = field(default_factory=set[tuple[Key, bool]])
    waiting: dict[tuple[Key, bool], Way] = field(default_factory=dict[tuple[Key, bool], Way])
    doubted: set[tuple[Key, bool]] = field(default_factory=set[tuple[Key, bool]])
    retries: list[Way] = field(default_factory=list[Way])
    _outlooks: dict[Key, Outlook] = field(default_factory=dict[Key, Outlook])

    def next_way(self) -> Way | None:
        """The way to the first answer that has not been tried, or round a failure; None if all were."""
        while self.waiting:
            wanted = next(iter(self.waiting))
            way = self.waiting.pop(wanted)
            if wanted not in self.covered:
                return way
        return self.retries.pop(0) if self.retries else None

    def outlook(self, key: Key, frame: FrameType, subject: Any) -> Outlook:
        """What follows from the answer to a question that is asked in a frame, about a symbolic value."""
        known = self._outlooks.get(key)
        if known is None:
            operand = operand_span(Verdict(DynamicBool, subject), Moment(frame, frame.f_lasti))
            known = self._outlooks[key] = outlook(frame.f_code, frame.f_lasti, operand)
        return known


@dataclass(frozen=True, slots=True)
class _Truth:
    """The truth that a symbolic value has in a run, and the index of the decision that gave it."""

    answer: bool
    decided_at: int


@dataclass(slots=True)
class _Count:
    """How often a question was answered alike within one call of a module."""

    answer: bool
    times: int = 0


class Choices:
    """The decisions of one run. Mutable.

    Attributes:
        decisions: What was decided, in order.
        assumed_in: The user's frame and instruction that led to the last answer that was assumed.
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
        self.assumed_in: tuple[FrameType, int] | None = None
        self._coverage = coverage
        self._way = way
        self._boundary = boundary
        self._explores = explores
        self._counts: dict[tuple[Key, ModuleSite | None], _Count] = {}
        self._truths: dict[Hashable, _Truth] = {}
        self._daring = list(way.daring)
        self._dared: dict[Key, bool] = {}
        self._retried: set[int] = set()

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
        value, index = _identity_of(subject), len(self.decisions)
        known = self._truths.get(value)
        answer = self._way.answer(index, key)
        counted = self._counts.get((key, site))
        if answer is None:
            likely = view.likely if true is None else true
            answer = known.answer if known is not None else self._open(key, likely)
            if likely in view.idle and self._dared.get(key) is not likely:
                # Another value at the same place: an assertion that was passed once is passed.
                answer = self._dared.get(key, answer)
            if true is None and counted is not None and counted.answer is answer:
                answer = answer is not self._goes_on(counted.times, frame)
            if known is None and answer is not likely:
                self._daring.append(index)
        if answer is not (view.likely if true is None else true):
            self._dared[key] = answer
        if counted is None:
            counted = self._counts[key, site] = _Count(answer)
        counted.times = counted.times + 1 if counted.answer is answer else 1
        counted.answer = answer
        if known is None or known.answer is not answer:
            self._truths[value] = _Truth(answer, index)
        self._cover(key, answer, view, index if known is None else known.decided_at)
        self.decisions.append(Decision(key, answer, assumed=answer is not true))
        if answer is not true:
            self.assumed_in = _asked_in(frame)
        return answer

    def taught_nothing(self) -> None:
        """Have the last answer tried again in another way, for here it led to a value that may be anything."""
        if self.decisions:
            last = self.decisions[-1].key, self.decisions[-1].answer
            if last not in self._coverage.doubted:
                self._coverage.doubted.add(last)
                self._coverage.covered.discard(last)

    def failed(self) -> None:
        """Have the last answer that was taken for the sake of trying it left out, for the run has failed after it."""
        if self._daring and self._daring[-1] not in self._retried:
            *before, last = self._daring
            self._retried.add(last)
            self._coverage.retries.append(Way(self.decisions, last, flips=True, daring=tuple(before)))

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

    def _cover(self, key: Key, answer: bool, view: Outlook, decided_at: int) -> None:
        """Note an answer as tried, and the way to the other one, which turns off where the truth was decided."""
        coverage, other = self._coverage, (key, not answer)
        coverage.covered.add((key, answer))
        if other[1] in view.idle:
            coverage.covered.add(other)
        if other not in coverage.covered and other not in coverage.waiting:
            daring = tuple(index for index in self._daring if index < decided_at)
            coverage.waiting[other] = Way(self.decisions, decided_at, flips=True, daring=daring)


def _identity_of(subject: Any) -> Hashable:
    """What is the same for symbolic values that are the same: the node, or the attribute of what it is one of."""
    if isinstance(subject, Attribute):
        return _identity_of(subject.root), subject.attr
    return subject.node if isinstance(subject, Proxy) else id(subject)


def _asked_in(frame: FrameType | None) -> tuple[FrameType, int] | None:
    """The innermost frame of the user's that leads to `frame`, and its instruction; None if there is none."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame, frame.f_lasti)
