"""What runs of the oracle consist of: decisions, the sites that they lead to, and what one run leaves for the next."""

import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.parity.oracle.instructions import Handler, Instruction, Place


class Fate(enum.Enum):
    """What becomes of an exception on its way out of the model."""

    COMES_OUT = enum.auto()
    BECOMES_ANOTHER = enum.auto()
    IS_SWALLOWED = enum.auto()
    UNKNOWN = enum.auto()


class Step(NamedTuple):
    """A decision of a run: what was asked, by which instruction, and what was done about it.

    `act` is the truth value given to a condition, or else `answer`, `raise` or `opaque`. A free one may be flipped.
    """

    kind: str
    instruction: Instruction
    act: bool | str
    free: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """Where torch.fx raises, and what.

    Attributes:
        place: The innermost user instruction; None if there is no user code at all.
        exception: The name of the exception's type.
        message: Its text.
        cause: `symbolic` if a symbolic value is at fault, `own` if the model's code raised, `either` if it was handed
            both a symbolic value and one that may be anything, else `unclear`.
    """

    place: Place | None
    exception: str
    message: str
    cause: str

    @property
    def key(self) -> tuple[Place | None, str]:
        """What makes it this site."""
        return self.place, self.exception

    def __str__(self) -> str:
        return f"{self.place}: {self.exception}: {' '.join(self.message.split())[:90]} ({self.cause})"


@dataclass(frozen=True, slots=True)
class Evidence:
    """How to make torch.fx raise at a site: the decisions up to there, and the instructions that are answered.

    Attributes:
        script: The decisions.
        answered: The instructions of C code that are given what they ask for.
        recorded: The calls that are recorded if they fail.
    """

    script: tuple[Step, ...]
    answered: frozenset[Instruction]
    recorded: frozenset[Instruction]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A site met by a run; `assumed` if something before it was answered that is not known to be so."""

    site: Site
    evidence: Evidence
    module_path: str
    assumed: bool


@dataclass(slots=True)
class Knowledge:
    """What the runs of one search have found out so far.

    Attributes:
        covered: The conditions and the answers that they were given.
        ways: The same with the calls that led to the condition.
        fates: What became of exceptions of a type that met certain handlers.
        answered: The instructions of C code that are given what they ask for.
        refused: The instructions of C code that failed.
        recorded: The calls of functions that cannot take symbolic values: they become nodes where they fail.
        failed: The calls that have failed so far.
    """

    covered: set[tuple[Instruction, bool]] = field(default_factory=set)
    ways: set[tuple[Any, bool]] = field(default_factory=set)
    fates: dict[tuple[tuple[Handler, ...], type], Fate] = field(default_factory=dict)
    answered: frozenset[Instruction] = frozenset()
    refused: dict[Instruction, BaseException] = field(default_factory=dict)
    recorded: frozenset[Instruction] = frozenset()
    failed: set[Instruction] = field(default_factory=set)

    def learn(self) -> None:
        """Answer from now on what was refused, and record the calls that have failed."""
        self.answered |= self.refused.keys()
        self.recorded |= self.failed


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do: replay a script, leave the step after it to torch.fx, and then explore or keep to usual."""

    script: tuple[Step, ...] = ()
    leave: bool = False
    explore: bool = False


@dataclass(slots=True)
class Run:
    """What a run did.

    Attributes:
        steps: Its decisions.
        ways: For each step the calls that led to it.
        occurrences: The sites that it met.
        completed: The paths of the modules whose forward came to its end; the root's is empty.
        error: What ended it, or None.
        again: How many of the steps to repeat, as the next was raised for real and is now known to come out.
        diverged: Whether the script did not fit.
        dead_ends: How often code was left unexplored because something has no answer.
    """

    steps: list[Step] = field(default_factory=list)
    ways: list[Any] = field(default_factory=list)
    occurrences: list[Occurrence] = field(default_factory=list)
    completed: set[str] = field(default_factory=set)
    error: BaseException | None = None
    again: int | None = None
    diverged: bool = False
    dead_ends: int = 0
