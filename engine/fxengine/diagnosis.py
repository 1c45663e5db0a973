"""What a diagnosis says: the problems of a trace, what its graph was specialised on, and the graph itself.

These are results only; `exploration` finds them, and `silent` finds the errors that no trace reports.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import nn

from fxengine.errors import Rule, Severity
from fxengine.graph import Graph
from fxengine.module_snapshot import Change
from fxengine.node import Node
from fxengine.provenance import Kind, Step
from fxengine.source import Handed, SourceFrame
from fxengine.tracer import Tracer

ForeignFunction: TypeAlias = tuple[str, str]
"""A global function that cannot take symbolic values: a module in which it is known, and its name there."""


@dataclass(frozen=True, slots=True)
class TracingProblem:
    """What stops a trace, or would stop it if nothing before it did.

    Attributes:
        rule: The rule that is broken; `code` is its name.
        message: What torch.fx would say; nothing for an error that it does not report.
        headline: What is wrong, in one line, in the user's own expressions.
        exception: The exception, with its traceback; None for an error that nobody raises.
        frames: The user frames that led to it, outermost first.
        site: The expression at fault; None if there is no source at all.
        anchor: The place in the user's own files: the site if it lies there, else the innermost call that led to it;
            None if no frame lies there.
        kind: What the value in question follows from: `metadata`, `data-dependent`, or empty if that is not known.
        provenance: How the value came from an input, input first.
        hints: What mends it, best first.
        module_path: The path of the module whose forward ran.
        module_type: The type of that module.
        instances: The paths of all modules in which the site is reached, `module_path` first.
        value: What the value in question is for the inputs in use, in print: `False`, `4`; of what is iterated how
            many there are, `4 items`; empty if that is not known.
        severity: How much it matters, where that is not what the rule says of all its problems; None where it is.
    """

    rule: type[Rule]
    message: str
    headline: str
    exception: BaseException | None
    frames: tuple[SourceFrame, ...]
    site: SourceFrame | None
    anchor: SourceFrame | None
    kind: Kind
    provenance: tuple[Step, ...]
    hints: tuple[str, ...]
    module_path: str
    module_type: type[Any] | None
    instances: tuple[str, ...] = ()
    value: str = ""
    severity: Severity | None = None

    @property
    def code(self) -> str:
        """The stable name of the rule, such as `FX001`."""
        return self.rule.code


@dataclass(frozen=True, slots=True)
class Guard:
    """Something that the graph holds true, because it was made for that case.

    Attributes:
        expression: What is fixed, as it reads in the source.
        value: The value that it is fixed to.
        frame: Where it stands in the source, if anywhere.
    """

    expression: str
    value: Any
    frame: SourceFrame | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What tracing a model in every way gave.

    Attributes:
        graph: The graph of the path on which every answer is the true one, or the likely one where no metadata says
            what is true, as far as it came. It is valid; where it ends early, its output is the value that it ended at,
            or the last one computed.
        problems: What stops a trace, in the order of their first occurrence; empty if nothing does.
        guards: What the graph was specialised on.
        root: The module that the graph refers to: the model, or a new module that holds a function's constants.
        silent: Errors that torch.fx does not report, because the trace goes on and gives a wrong graph.
        cut: Why not every way through the model was explored, as a sentence; empty if every one was.
        reached_end: Whether the graph goes to the end of the model, with answers that may be assumed.
        captured: Whether it does so with answers that are known to be true.
        stand_ins: The nodes of the graph that stand for calls which could not be traced.
        foreign: The functions whose calls could not be traced; told beforehand, they save the next diagnosis runs.
        handed: What modules that were traced through have returned that is no single value.
        completed: The paths of the modules whose calls some run came to the end of.
    """

    graph: Graph
    problems: tuple[TracingProblem, ...]
    guards: tuple[Guard, ...]
    root: nn.Module
    silent: tuple[TracingProblem, ...] = ()
    cut: str = ""
    reached_end: bool = True
    captured: bool = True
    stand_ins: frozenset[Node] = frozenset()
    foreign: tuple[ForeignFunction, ...] = ()
    handed: tuple[Handed, ...] = ()
    completed: frozenset[str] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether torch.fx traces the model."""
        return not self.problems


class EnoughSeen(BaseException):
    """Ends a repetition of a run, for whoever watches it knows what there was to know. No `Exception`: see `replay`."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a diagnosis leaves for those who look for silent errors: the run whose graph it returns.

    Attributes:
        root: What was traced.
        tracer: The tracer, as the run left it.
        graph: The run's graph, closed and valid.
        changes: What the run changed in the model.
        has_drawn: Whether random generators of the process were used in it.
        concrete_args: The values that inputs were fixed to.
        user_paths: The files that the user is working on; every file that is not machinery if None.
        problems: The problems that are reported anyway.
        reached_end: Whether the run came to the end of the model.
        replay: Makes the run again, with the same answers, while a context is entered; returns the graph, closed, as
            far as it came. None if there is no time for it, or if the context has raised `EnoughSeen`.
    """

    root: nn.Module | Callable[..., Any]
    tracer: Tracer
    graph: Graph
    changes: tuple[Change, ...]
    has_drawn: bool
    concrete_args: dict[str, Any] | None
    user_paths: Collection[str] | None
    problems: tuple[TracingProblem, ...]
    reached_end: bool
    replay: Callable[[AbstractContextManager[object]], Graph | None]
