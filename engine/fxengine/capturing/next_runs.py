"""Capturing the runs that come after the first, where that has left something behind, and comparing their graphs.

Code keeps counters, caches and what it was given before in attributes, tables and objects. A graph knows of none of it;
it is right all the same as long as nothing that a run leaves behind makes the next one do something else.
"""

import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from fxengine.capturing.former import Former
from fxengine.capturing.outside import Outside
from fxengine.capturing.repeating import Numbers, first_difference
from fxengine.capturing.tracer import CaptureTracer
from fxengine.diagnosis import TracingProblem
from fxengine.errors import ChangingAttribute, EmbeddedDraw, Rule, TraceError
from fxengine.exploration.problems import Describer
from fxengine.module_snapshot import Change, Snapshot
from fxengine.node import Node
from fxengine.patching import Patches

__all__ = ["Left", "StateDependent", "difference", "left_behind", "patch_draws", "path_of", "problem_of"]

_FAR: Final = 999_983
"""How many runs on a counter is looked at: one that nobody divides by."""

_MOST_NAMED: Final = 3

_LEAST, _GREATEST = 0.0, 1.0 - 2.0**-24

_DRAWS: Final = ("random", "uniform", "rand", "random_sample")


class StateDependent(TraceError):  # noqa: N818 - named as the rules are.
    """What a run leaves behind makes the next one do something else."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a run has left behind.

    Attributes:
        changes: What is different in modules, what graphs repeat left out.
        names: How what is different is reached.
        drawn: Whether torch's random numbers were drawn.
        draws: Whether Python's or numpy's were.
        moved: Whether a generator of the model's own was moved by more than what a graph repeats.
        timed: Whether it has looked at a clock.
    """

    changes: tuple[Change, ...]
    names: tuple[str, ...]
    drawn: bool
    draws: bool
    moved: bool
    timed: bool

    def __bool__(self) -> bool:
        return bool(self.names or self.draws or self.moved or self.timed)


def left_behind(
    snapshot: Snapshot,
    outside: Outside,
    tracer: CaptureTracer,
    changes: Iterable[Change],
    repeated: Iterable[str],
) -> Left:
    """What a run has left behind; of the buffers and attributes at `repeated` the graph makes what the run made."""
    known = {*repeated, *tracer.adopted, *tracer.own_names}
    changes = [each for each in changes if each.kind != "data" and path_of(each) not in known]
    others = [name for name in outside.changed() if name not in known]
    names = dict.fromkeys([*map(path_of, changes), *others])
    return Left(
        tuple(changes),
        tuple(names),
        *snapshot.drawn(),
        outside.has_moved_generators(),
        tracer.recording.has_seen_a_clock,
    )


def path_of(change: Change) -> str:
    """The qualified name of what is different in a module."""
    return f"{change.module_path}.{change.name}" if change.module_path else change.name


def difference(left: Left, tracer: CaptureTracer, initial: frozenset[int], capture_next: Callable[..., Any]) -> Any:
    """Return where later runs do something else: a node, or the problem that stops them; None if nowhere.

    Args:
        left: What the first run has left behind.
        tracer: That of the first run.
        initial: The tensors that the model had before it, by identity.
        capture_next: Captures a run that goes on from what is there, drawing as it is told.
    """
    values = tracer.recording.values
    flagged = _called_otherwise(left, tracer)
    if flagged is not None:
        return flagged
    if left.moved:
        return next(iter(values.drawn), next(reversed(tracer.graph.nodes)))
    former, table = Former(values.held, initial), dict[Any, int]()
    first = Numbers(tracer.graph, values, tracer.root, table)

    def differs(draw: float | None) -> Any:
        other, problem = capture_next(former, draw)
        if problem is not None:
            return problem
        return first_difference(first, Numbers(other.graph, other.recording.values, other.root, table, (former, first)))

    for draw in (_LEAST, _GREATEST) if left.draws else (None,):
        found = differs(draw)
        if found is not None:
            return found
    return differs(None) if _go_far(left.changes) else None


def _called_otherwise(left: Left, tracer: CaptureTracer) -> Node | None:
    """The first call of a leaf that was moved, or has another setting or part: the graph calls it as it was."""
    set_otherwise = {each.module for each in left.changes if not isinstance(each.after, Tensor)}
    if not set_otherwise:
        return None

    def is_otherwise(path: str) -> bool:
        try:
            module = tracer.root.get_submodule(path)
        except AttributeError:  # What stood there is a list of modules by now.
            return True
        return not set_otherwise.isdisjoint(module.modules())

    return next(
        (each for each in tracer.graph.nodes if each.op == "call_module" and is_otherwise(str(each.target))), None
    )


def _go_far(changes: Iterable[Change]) -> bool:
    """Let counters be where they are after many runs, and return whether there are any."""
    found = False
    for change in changes:
        before, after = change.before, change.after
        if type(after) in {int, float} and type(before) in {int, float} and change.kind == "attribute":
            change.module.__dict__[change.name] = after + (after - before) * _FAR
            found = True
    return found


def patch_draws(patches: Patches, draw: float) -> None:
    """Let Python and numpy draw the least or the greatest number where they draw one between two bounds."""

    def drawing(original: Callable[..., Any]) -> Callable[..., Any]:
        is_uniform = getattr(original, "__name__", "") == "uniform"

        def drawn(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if isinstance(found, float):
                low, high = (*args, 0.0, 1.0)[:2] if is_uniform and len(args) > 1 else (0.0, 1.0)
                return low + (high - low) * draw
            return found

        return drawn

    for owner in (random, sys.modules.get("numpy.random")):
        for name in _DRAWS:
            if owner is not None and hasattr(owner, name):
                patches.attribute(owner, name, drawing)


def problem_of(left: Left, found: Any, describer: Describer) -> TracingProblem:
    """What is told of later runs that do something else.

    Args:
        left: What the first run has left behind.
        found: Where they do so: a node of theirs, or the problem that stops them.
        describer: Tells which files are the user's own.
    """
    rule: type[Rule] = ChangingAttribute
    named = ", ".join(f"`{name}`" for name in left.names[:_MOST_NAMED])
    more = len(left.names) - _MOST_NAMED
    named += f" and {more} more" if more > 0 else ""
    text = f"each run changes {named}, and a later one does something else here than the first"
    if not left.names:
        source = "what Python draws at random" if left.draws or left.moved else "what time it is"
        rule, text = EmbeddedDraw, f"{source} decides here what is done, in each run anew"
    where = found if isinstance(found, TracingProblem) else found.origin
    frames = () if where is None else where.frames
    if isinstance(found, Node) and found.op == "output":
        frames = describer.definition(rule)
    site = frames[-1] if frames else None
    return TracingProblem(
        rule=rule,
        message=text,
        headline=text,
        exception=StateDependent(text),
        frames=frames,
        site=site,
        anchor=describer.anchor(site, frames),
        kind="",
        provenance=(),
        hints=("keep what goes on from run to run in buffers: the graph changes these as the model does",),
        module_path="" if where is None else where.module_path,
        module_type=None if where is None else where.module_type,
    )
