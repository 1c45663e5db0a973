"""Finds all sites of a model at which torch.fx would raise were the others fixed, and has torch.fx raise there.

Runs are repeated with other answers until each condition has had both, as long as there is time. Nothing is forked and
nothing of the engine is used: the torch.fx of this interpreter says what an error is.
"""

import time
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.parity.oracle.causes import text_of
from tests.parity.oracle.state import Snapshot
from tests.parity.oracle.steps import Evidence, Knowledge, Occurrence, Plan, Run, Site, Step
from tests.parity.oracle.tracer import OracleTracer, OutOfTimeError
from tests.parity.oracle.values import Feed

Inputs = tuple[Any, ...] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is done for one model.

    Attributes:
        seconds: The processor time for all runs.
        runs: The number of runs until every condition has had both answers.
        further: The number of runs after that, with answers in other combinations.
    """

    seconds: float = 20.0
    runs: int = 200
    further: int = 40


@dataclass(slots=True)
class Sites:
    """What a search found.

    Attributes:
        sites: Where torch.fx raises, in the order in which the runs came there.
        possible: Where the model's own code raises on a path that only assumed answers lead to, while no explored path
            around it comes to the end: a matter of judgement.
        dismissed: Where the model's own code raises on such a path, and others come to the end.
        instances: The paths of the modules that came to each site.
        evidence: How each site was reached.
        cut: Why not everything was explored; empty if it was.
        runs: How many runs were made.
        seconds: The processor time that they took.
        diverged: How many runs did not repeat what they should have.
        dead_ends: How often code was left unexplored because something has no answer.
    """

    sites: list[Site] = field(default_factory=list)
    possible: list[Site] = field(default_factory=list)
    dismissed: list[Site] = field(default_factory=list)
    instances: dict[Any, set[str]] = field(default_factory=dict)
    evidence: dict[Any, Evidence] = field(default_factory=dict)
    cut: str = ""
    runs: int = 0
    seconds: float = 0.0
    diverged: int = 0
    dead_ends: int = 0


def sites(root: Any, inputs: Inputs = None, concrete_args: Any = None, budget: Budget | None = None) -> Sites:
    """Return where torch.fx raises in a model, were everything else fixed."""
    return _Search(root, inputs, concrete_args, budget or Budget()).sites()


def confirm(root: Any, evidence: Evidence, inputs: Inputs = None, concrete_args: Any = None) -> Site | None:
    """Return the site at which torch.fx itself raises once it is left alone after some steps; None if nowhere."""
    knowledge = Knowledge(answered=evidence.answered, recorded=evidence.recorded)
    knowledge.refused = dict.fromkeys(evidence.answered, TypeError())
    snapshot = Snapshot(root)
    tracer = OracleTracer(Plan(evidence.script, leave=True), knowledge, Feed(root, inputs), time.process_time() + 60)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = tracer.run(root, concrete_args)
    finally:
        snapshot.restore()
    last = run.occurrences[-1] if run.occurrences else None
    raised = run.error is not None and last is not None and last.site.message == text_of(run.error)
    return last.site if raised and last is not None else None


class _Search:
    """The runs that are left to do, and what those done have shown."""

    def __init__(self, root: Any, inputs: Inputs, concrete_args: Any, budget: Budget) -> None:
        self._root = root
        self._concrete_args = concrete_args
        self._budget = budget
        self._feed = Feed(root, inputs)
        self._snapshot = Snapshot(root)
        self._knowledge = Knowledge()
        self._found = Sites()
        self._occurrences: list[Occurrence] = []
        self._completed: set[str] = set()
        self._deadline = 0.0
        self._is_covered = False
        self._flips: list[tuple[Run, int]] = []

    def sites(self) -> Sites:
        """Do it."""
        begun = time.process_time()
        self._deadline = begun + self._budget.seconds
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._explore()
        except OutOfTimeError:
            if not self._is_covered:
                self._found.cut = "time"
        finally:
            self._snapshot.restore()
        self._judge()
        self._found.seconds = time.process_time() - begun
        return self._found

    def _explore(self) -> None:
        waiting = deque([Plan()])
        further = self._budget.further
        while waiting or self._flips:
            plan = waiting.popleft() if waiting else None
            if plan is None:
                plan, is_new = self._next_flip()
                further -= not is_new
                self._is_covered = not is_new
                if further < 0:
                    return
            if self._found.runs >= self._budget.runs + self._budget.further:
                self._found.cut = "runs"
                return
            waiting.extend(self._run(plan))

    def _run(self, plan: Plan) -> list[Plan]:
        """Do a run; return those that have to follow at once."""
        self._snapshot.restore()
        tracer = OracleTracer(plan, self._knowledge, self._feed, self._deadline)
        try:
            run = tracer.run(self._root, self._concrete_args)
        finally:
            self._found.runs += 1
            self._occurrences += tracer.outcome.occurrences
        self._completed |= run.completed
        self._found.diverged += run.diverged
        self._found.dead_ends += run.dead_ends
        first = len(plan.script)
        self._flips += [(run, index) for index, step in enumerate(run.steps) if index >= first and step.free]
        if run.again is None:
            return []
        self._knowledge.learn()
        return [Plan(tuple(run.steps[: run.again]), explore=plan.explore)]

    def _next_flip(self) -> tuple[Plan, bool]:
        """The most promising other answer, and whether it has never been given to its condition."""
        ranks = [self._rank(run, index) for run, index in self._flips]
        best = min(range(len(ranks)), key=ranks.__getitem__)
        run, index = self._flips.pop(best)
        step = run.steps[index]
        flipped = Step(step.kind, step.instruction, not step.act)
        return Plan((*run.steps[:index], flipped), explore=ranks[best] == 0), ranks[best] == 0

    def _rank(self, run: Run, index: int) -> int:
        step = run.steps[index]
        if (step.instruction, not step.act) not in self._knowledge.covered:
            return 0
        return 1 if (run.ways[index], not step.act) not in self._knowledge.ways else 2

    def _judge(self) -> None:
        """Sort the sites that were met into those that are one, may be one, and are none."""
        found = self._found
        verdicts: dict[Any, tuple[int, Site]] = {}
        for occurrence in self._occurrences:
            site = occurrence.site
            found.evidence.setdefault(site.key, occurrence.evidence)
            found.instances.setdefault(site.key, set()).add(occurrence.module_path)
            verdict = 0
            if site.cause != "symbolic" and occurrence.assumed:
                verdict = 2 if occurrence.module_path in self._completed and site.cause != "either" else 1
            known = verdicts.get(site.key)
            verdicts[site.key] = (verdict, site) if known is None else (min(known[0], verdict), known[1])
        for verdict, site in verdicts.values():
            (found.sites, found.possible, found.dismissed)[verdict].append(site)
