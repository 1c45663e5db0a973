"""Which runs are made: first along the likely answers, then to each answer that no run has tried.

Runs are independent: before each of them the model is put back as it was, and after the last one too. A model that
traces is run once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.diagnosis import Diagnosis, EnoughSeen, ForeignFunction, Guard, Observation, TracingProblem
from fxengine.example_inputs import Arguments
from fxengine.exploration.choices import Coverage, Decision, Way
from fxengine.exploration.deadlines import Deadline
from fxengine.exploration.findings import Findings
from fxengine.exploration.memory import Memory
from fxengine.exploration.numbers import Again
from fxengine.exploration.problems import Describer, traced_code
from fxengine.exploration.stand_ins import Leaves
from fxengine.exploration.steering import Knowledge, OutOfTime, Run
from fxengine.exploration.values import Source, Values
from fxengine.graph import Graph
from fxengine.module_snapshot import Change, Changed, Snapshot
from fxengine.node import Node
from fxengine.placeholders import PHBase
from fxengine.silent import find_silent
from fxengine.source import frame_at, parameter_place
from fxengine.tracer import Tracer

ConcreteArgs: TypeAlias = dict[str, Any] | tuple[Any, ...] | None
"""Values of parameters, by name or in their order."""

_MOST_REPETITIONS: Final = 32
"""How often one way is run again because it leads further."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What exploring may cost, beyond the trace itself.

    Attributes:
        seconds: The time, of the processor; on the clock it may be twice as much.
        runs: The number of runs.
    """

    seconds: float = 2.0
    runs: int = 200


def diagnose(
    root: nn.Module | Callable[..., Any],
    inputs: Source = None,
    *,
    concrete_args: ConcreteArgs = None,
    tracer: Tracer | None = None,
    user_paths: Collection[str] | None = None,
    budget: Budget | None = None,
) -> Diagnosis:
    """Trace a model in every way it can go; return its graph, and all that stops a trace.

    Args:
        root: A module or function. It is left as it was, but for the constants that the graph refers to.
        inputs: Example inputs, which decide what follows from metadata alone: a tensor, a sequence of positional
            arguments, a mapping of keyword arguments, or a pair `(args, kwargs)`; parameters that are not given have
            their defaults. Or a function that finds such a pair for a graph, as far as that has come; it is called when
            something is to be decided.
        concrete_args: Values of parameters that are not to be symbolic, by name or in their order, as `Tracer.trace`
            takes them.
        tracer: The tracer to use; by default one as `symbolic_trace` makes.
        user_paths: The files that the user is working on; every file that is not machinery if None.
        budget: What exploring may cost.

    Returns:
        A diagnosis. Whatever the model raises is a problem in it, `SystemExit` and `KeyboardInterrupt` too.

    Raises:
        TypeError: The model cannot be called with the inputs.
    """
    *_, diagnosis = diagnose_in_steps(
        root, inputs, concrete_args=concrete_args, tracer=tracer, user_paths=user_paths, budget=budget
    )
    return diagnosis


def diagnose_in_steps(
    root: nn.Module | Callable[..., Any],
    inputs: Source = None,
    *,
    concrete_args: ConcreteArgs = None,
    tracer: Tracer | None = None,
    user_paths: Collection[str] | None = None,
    budget: Budget | None = None,
    foreign: Iterable[ForeignFunction] = (),
    snapshot: Snapshot | None = None,
    memory: Memory | None = None,
) -> Iterator[Diagnosis]:
    """Yield a model's diagnosis twice: first with what stops a trace alone, then as `diagnose` returns it.

    The arguments are those of `diagnose`, but for three. `foreign` are functions that an earlier diagnosis has found to
    be so, which need no runs to be found again. Whether they are is asked at each call, so it does no harm if they no
    longer are. `snapshot` is what the model is, if that was looked at before, and `memory` keeps what values it has for
    another diagnosis of the same model. Between the two the model is as it was; the time that passes there is not
    counted.
    """
    tracer = Tracer() if tracer is None else tracer
    describer = Describer(root, tracer.traced_func_name, user_paths)
    leaves, snapshot = Leaves.named(foreign), snapshot or Snapshot(root)
    budget, memory = budget or Budget(), memory or Memory()
    exploration = _Exploration(describer, concrete_args, tracer, inputs, budget, leaves, snapshot, memory)
    return exploration.diagnoses()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is kept of a run: its graph, what the tracer was after it, and what it has done to the model."""

    graph: Graph
    root: nn.Module
    reached_end: bool
    assumed: bool
    guards: tuple[Guard, ...]
    stand_ins: frozenset[Node]
    decisions: Sequence[Decision]
    tracer: dict[str, Any]
    belongings: dict[str, Any]
    changes: tuple[Change, ...]
    has_drawn: bool


class _Exploration:
    """The runs of one diagnosis. Mutable."""

    def __init__(
        self,
        describer: Describer,
        concrete_args: ConcreteArgs,
        tracer: Tracer,
        inputs: Source,
        budget: Budget,
        leaves: Leaves,
        snapshot: Snapshot,
        memory: Memory,
    ) -> None:
        self._root = root = describer.root
        self._concrete_args: Any = concrete_args
        self._fixed = _by_name(describer, concrete_args)
        self._tracer = tracer
        self._budget = budget
        self._deadline = Deadline(budget.seconds)
        self._snapshot = snapshot
        self._tracer_state = _copied(vars(tracer))
        function = getattr(type(root), describer.method, None) if isinstance(root, nn.Module) else root
        source = partial(self._sought, inputs) if callable(inputs) else inputs
        values = Values(function, root if isinstance(root, nn.Module) else None, source, self._deadline, memory)
        self._knowledge = Knowledge(values, leaves=leaves, survey=snapshot.survey)
        self._describer = describer
        self._runs = 0
        self._cut = ""

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Make the runs; yield what they tell, then that with what no run tells by itself."""
        best = self._follow(Way(), explores=False)
        assert best is not None  # The first run goes on however long it takes.
        cut = ""
        while not cut and (way := self._knowledge.coverage.next_way()) is not None:
            cut = self._over()
            found = None if cut else self._follow(way, explores=True)
            if found is None:
                cut = self._over()
            elif found.reached_end and not best.reached_end:
                best = found
        vars(self._tracer).update(best.tracer)
        findings = self._knowledge.findings
        explored = Diagnosis(
            best.graph,
            findings.problems(),
            (*self._guards(), *best.guards),
            best.root,
            silent=findings.swallowed(),
            cut=cut or self._cut,
            reached_end=best.reached_end,
            captured=best.reached_end and not best.assumed,
            stand_ins=best.stand_ins,
            foreign=self._knowledge.leaves.names,
            handed=tuple(best.tracer.get("_handed", ())),
            completed=frozenset(findings.completed),
        )
        with self._deadline.paused():
            yield explored
        silent = self._silent(best)
        for path, value in best.belongings.items():
            _put(best.root, path, value)
        yield replace(explored, silent=(*explored.silent, *silent), cut=cut or self._cut)

    def _follow(self, way: Way, *, explores: bool) -> _Outcome | None:
        """Run a way, again and again while that leads further, and return how it came furthest.

        None if there was no time for it; the first run of the likely answers has all the time that it takes.
        """
        best = None
        for _ in range(_MOST_REPETITIONS):
            deadline = self._deadline if explores or best is not None else None
            run = Run(self._tracer, self._knowledge, self._describer, way, deadline, explores=explores)
            try:
                graph = run.execute(self._concrete_args)
            except Again:
                self._restore()
                continue
            except OutOfTime:
                self._restore()
                self._cut = self._over()
                return best
            if run.ended is not None:
                _close(graph, run.stopped_at)
            changed = self._snapshot.changed()
            outcome = self._outcome(run, graph, changed)
            self._restore(changed)
            self._runs += 1
            if best is None or (outcome.reached_end, len(graph.nodes)) >= (best.reached_end, len(best.graph.nodes)):
                best = outcome
            if not run.learned:
                break
            if over := self._over():
                self._cut = over
                break
        if best is None:
            # Every run was given up since some number was wanted elsewhere: without numbers none is.
            self._knowledge.grants.places.clear()
            return self._follow(way, explores=explores)
        return best

    def _outcome(self, run: Run, graph: Graph, changed: Sequence[Changed]) -> _Outcome:
        tracer = self._tracer
        return _Outcome(
            graph,
            tracer.root,
            run.ended is None,
            run.assumed,
            tuple(run.guards.values()),
            frozenset(run.stand_ins.nodes),
            run.choices.decisions,
            dict(vars(tracer)),
            _belongings(graph, tracer.root) if changed else {},
            self._snapshot.changes(changed),
            self._snapshot.has_drawn(),
        )

    def _guards(self) -> tuple[Guard, ...]:
        """The inputs that were fixed to values; those of which `PH` is a part are inputs still."""
        code = traced_code(self._root, self._tracer.traced_func_name) if self._fixed else None
        return tuple(
            Guard(name, value, None if code is None else frame_at(code, parameter_place(code, name)))
            for name, value in self._fixed.items()
            if not any(isinstance(leaf, PHBase) for leaf in pytree.tree_leaves(value))
        )

    def _silent(self, outcome: _Outcome) -> tuple[TracingProblem, ...]:
        """What a run has done without a word that its graph does not do."""
        return find_silent(
            Observation(
                self._root,
                self._tracer,
                outcome.graph,
                outcome.changes,
                outcome.has_drawn,
                self._fixed,
                self._describer.user_paths,
                self._knowledge.findings.problems(),
                outcome.reached_end,
                partial(self._replay, outcome),
            )
        )

    def _replay(self, outcome: _Outcome, context: AbstractContextManager[object]) -> Graph | None:
        """Make a run again while a context is entered, and leave no trace of it; None if there is no time for it."""
        if over := self._over():
            self._cut = over
            return None
        known = self._knowledge
        forgotten = replace(known, findings=Findings(), coverage=Coverage(), escaping=dict(known.escaping))
        self._restore()
        way = Way(outcome.decisions, len(outcome.decisions))
        run = Run(self._tracer, forgotten, self._describer, way, self._deadline, explores=True)
        self._runs += 1
        try:
            with context:
                graph = run.execute(self._concrete_args)
        except OutOfTime:
            self._cut = self._over()
            return None
        except (Again, EnoughSeen):
            return None
        finally:
            self._restore()
            vars(self._tracer).update(outcome.tracer)
        if run.ended is not None:
            _close(graph, run.stopped_at)
        return graph

    def _restore(self, changed: Sequence[Changed] | None = None) -> None:
        """Put back what the last run has changed; `changed` are the modules in which it did, if that is known."""
        self._snapshot.restore(changed)
        state = vars(self._tracer)
        state.clear()
        state.update(_copied(self._tracer_state))

    def _sought(self, find: Callable[[Graph], Arguments | None], graph: Graph) -> Arguments | None:
        """Find inputs for the model as it was before the run that asks for them."""
        with self._snapshot.put_back():
            return find(graph)

    def _over(self) -> str:
        """Why no more may be explored, as a sentence; empty if there is time."""
        budget = self._budget
        if self._deadline.is_over() or self._knowledge.values.is_cut:
            return f"not every way through the model was tried: that takes more than {budget.seconds:g} s"
        if self._runs >= budget.runs:
            return f"not every way through the model was tried: there are more than {budget.runs}"
        return ""


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a tracer with containers of their own."""
    return {name: value.copy() if type(value) in {dict, list, set} else value for name, value in state.items()}


def _close(graph: Graph, stopped_at: Node | None) -> None:
    """Give the graph an output: the value that the trace stopped at, or else the last one that it computed."""
    last = next((node for node in reversed(graph.nodes) if node.op != "placeholder"), None)
    graph.output(stopped_at if stopped_at is not None and stopped_at.graph is graph else last)


def _belongings(graph: Graph, root: nn.Module) -> dict[str, Any]:
    """What a graph refers to, by its path in the root."""
    targets = {str(node.target) for node in graph.nodes if node.op in {"get_attr", "call_module"}}
    return {path: _at(root, path) for path in targets}


def _put(root: nn.Module, path: str, value: Any) -> None:
    """Make sure that a path in the root leads to a value that a graph refers to.

    Where a tensor is, as one was before, it is that which the graph refers to, whatever the run has put there later. A
    parameter does not become one of the root's by that: to the next trace it is as strange as it was to this one.
    """
    now = _at(root, path)
    if now is not value and not isinstance(now, Tensor):
        owner, _, name = path.rpartition(".")
        put = object.__setattr__ if isinstance(value, nn.Parameter) else setattr
        put(_at(root, owner), name, value)


def _at(root: nn.Module, path: str) -> Any:
    """What is at a path in a module, or None."""
    value: Any = root
    for name in path.split(".") if path else ():
        value = getattr(value, name, None)
    return value


def _by_name(describer: Describer, concrete_args: ConcreteArgs) -> dict[str, Any]:
    """The values of parameters that were given, by the parameters' names as far as they have any."""
    if not isinstance(concrete_args, tuple):
        return concrete_args or {}
    code = traced_code(describer.root, describer.method)
    if code is None:
        return {}
    first = 1 if isinstance(describer.root, nn.Module) else 0
    names = code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount]
    # Others are refused by the tracer, or are the items of `*args`.
    return dict(zip(names, concrete_args, strict=True)) if len(names) == len(concrete_args) else {}
