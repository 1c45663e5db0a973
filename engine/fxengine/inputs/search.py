"""The search for inputs on which a model runs.

Best first: the assignment of recipes that is tried next is the one whose parent came furthest through the model,
less what it cost to think of. Every trial runs without data and takes milliseconds; the search ends at the first
that fits, or when the time is over, and then says what it tried.
"""

import functools
import heapq
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, log2
from typing import Any

import torch
from torch import nn

from fxengine.graph import Graph
from fxengine.inputs.absences import absent_names, missing_names
from fxengine.inputs.approaching import Approach
from fxengine.inputs.clues import BATCH, Clues
from fxengine.inputs.consumption import consumption
from fxengine.inputs.faults import is_fault
from fxengine.inputs.handing import receiver
from fxengine.inputs.levels import levels_said
from fxengine.inputs.moves import Moves
from fxengine.inputs.names import is_of_graph
from fxengine.inputs.probe import Outcome, first_line, probe
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.reading import counted, lengths_said, patterns_said
from fxengine.inputs.recipes import Constant, Place, Recipe, TensorRecipe, call_arguments, call_expression, leaves
from fxengine.inputs.repair import repairs
from fxengine.inputs.signature import (
    Parameter,
    consumers,
    parameters_by,
    sibling_of,
    takes_keys,
    takes_names,
    without_none,
)
from fxengine.inputs.tuning import Tuning, by_factor
from fxengine.inputs.values import are_kept, are_small, is_never_viewed, is_small, run_for_values
from fxengine.inputs.written_types import axes_written, kinds_written

__all__ = ["Attempt", "InferredInputs", "infer_inputs", "materialize"]

_MAX_SECOND_CHOICES = 4
"""How many of a parameter's proposals are tried unasked."""

_MAX_REPAIRS = 24
_WELL_FOUNDED = 0.4
_LATER = 0.5
"""How many repairs of one failure are kept: the first ones, and of the others those that cost no more than this; and
what it costs to be one of the others."""

_AHEAD = 1000.0
_KEPT_PROGRESS = 0.5
_OF_A_LINE = 0.25
_AGAIN = 0.25
_MOST_AGAIN = 6.0
_LOWERED = 1.0
_OF_ONE = 0.1
_OF_A_SIZE = 0.1
"""What a line counts beside a call. What a complaint adds to the cost of its repairs each time that it has been heard
before, and at most; what it costs to do without something that a flag asks for, with more than one example, and with a
size that two others have told."""

_HOPELESS = 40
"""Trials that all end with one and the same complaint, after which there are no more unless somebody says otherwise."""

_MORE_HOPELESS = 4
"""As how many of them one counts that ends in a fault of the code itself."""

_KEPT_ATTEMPTS = 5
_SHORTEST_TRIAL = 0.5
"""Seconds that a trial may take beyond the time that is left."""

_DRAWS = 4
"""How often other numbers are drawn where it may be chance that they fit."""

_MOST_PRODUCTS = 1 << 35
_LARGEST = 1 << 28
"""Products of numbers that are a run on real data that nobody waits for, and the most elements of a tensor in one."""

_MANY_CALLS = 4000
"""The most torch functions that a model calls which is run once more only to see whether other batches fit."""

_STUCK = 2
"""How often a layer has said the same before what may be left out is given beside the other inputs."""

_SMALLER = (4, 16)
"""By how much pictures are made smaller on which a run on real data takes too long."""

_BATCHES = (3, 1)
"""Sizes of a batch that are tried beside the one that was proposed."""

_OF_WEIGHTS = re.compile(
    r"\b(nan|inf|infinite|singular|ill-conditioned|converged?|definite|simplex|distribution|probabilit(y|ies))\b",
    re.IGNORECASE,
)
"""What is said of numbers that are too large, too small or too much alike for what is computed of them."""

_OF_SIZES = re.compile(r"\b(sizes?|shapes?|one element|only integer tensors of a single element)\b")
"""What is said of sizes, and of several numbers where one was wanted."""

_MAIN_INPUTS = re.compile(
    r"^(x|input_ids|pixel_values|inputs?_embeds|input_values|input_features|inputs?|images?|img|tokens?|sample|hidden_states)$"
)
_OF_OTHER_KINDS = re.compile(r"^(images?|pixel_values|texts?|audio|video)$")
"""What is called so is as much of an input as the first one, where none has to be given."""

_CPU = torch.device("cpu")
_META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Inputs that did not fit, how far the model came with them, and what it said."""

    expression: str
    error: str
    calls: int


@dataclass(frozen=True, slots=True)
class InferredInputs:
    """Example inputs for a model.

    Attributes:
        args: The positional arguments, tensors on meta: ready for shape propagation.
        kwargs: The keyword arguments, likewise.
        expression: The arguments as Python source, as they stand between the parentheses of a call.
        reason: What in the model asked for them, in the user's words.
        failures: What was tried in vain, the furthest first; empty if the first idea was right.
        complete: Whether the model ran on them, as far as it can run without data.
        needs_data: Whether the model reads values of tensors, so that it could not be run to its end without data.
        doubtful: Where inputs are not complete: the parameters that the furthest attempt failed on.
        recipes: How the arguments are made, for ``materialize``.
        positional: How many of the recipes are passed by position.
        bound_to_batch: Whether the model runs with this size of the batch and not with others that were tried.
        stopped: Where inputs are not complete: how the furthest attempt ended.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expression: str
    reason: str
    failures: tuple[Attempt, ...] = ()
    complete: bool = True
    needs_data: bool = False
    doubtful: tuple[str, ...] = ()
    recipes: Mapping[str, Recipe] = field(default_factory=dict[str, Recipe])
    positional: int = 0
    bound_to_batch: bool = False
    stopped: Outcome | None = field(default=None, compare=False, repr=False)

    @property
    def usable(self) -> bool:
        """Whether the model takes these inputs: it ran on them, or only stopped where it would with any others."""
        return self.complete or (self.stopped is not None and is_fault(self.stopped.error))


def infer_inputs(
    root: nn.Module | Callable[..., Any],
    graph: Graph | None = None,
    *,
    budget_s: float = 1.0,
    hopeless: int = _HOPELESS,
    wanted: Collection[str] = (),
) -> InferredInputs:
    """Return example inputs on which ``root`` runs, or the best that were found within the time.

    Args:
        root: The model, on whatever device (meta is best). It is run without data and left as it was.
        graph: Its graph, where it could be traced: tells which layer takes which parameter.
        budget_s: Seconds of processor time after which no new trial begins, so that it does not matter what else the
            machine does; one that has begun may take as long again.
        hopeless: Trials that all end with one and the same complaint, after which there are no more.
        wanted: Optional parameters that are to be passed, too.
    """
    return _Search(root, graph, time.process_time() + budget_s, hopeless, wanted).run()


def materialize(
    inputs: InferredInputs, device: torch.device | str = "cpu", seed: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as real values on ``device``: the same numbers for the same seed, on every device."""
    generator = torch.Generator().manual_seed(seed)
    return _make(inputs.recipes, inputs.positional, torch.device(device), generator)


def _make(
    recipes: Mapping[str, Recipe], positional: int, device: torch.device, generator: torch.Generator | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    values = {name: recipe.make(device, generator) for name, recipe in recipes.items()}
    return call_arguments(values, positional)


@dataclass(order=True, slots=True)
class _Candidate:
    priority: float
    serial: int
    key: str = field(compare=False)
    recipes: dict[str, Recipe] = field(compare=False)
    cost: float = field(compare=False)
    progress: float = field(compare=False)


class _Search:
    def __init__(
        self,
        root: nn.Module | Callable[..., Any],
        graph: Graph | None,
        deadline: float,
        hopeless: int,
        wanted: Collection[str],
    ) -> None:
        self.root = root
        self.deadline = deadline
        self.hopeless = hopeless
        taker = receiver(root)
        self.parameters = parameters_by(root, taker)
        self.takes_names = takes_names(root)
        self.clues = Clues(root if isinstance(root, nn.Module) else nn.Module())
        names = [parameter.name for parameter in self.parameters]
        read = consumption(taker, names, [parameter.name for parameter in self._passed()], self.clues)
        self.needed = read.needed
        self.wanted = wanted
        wishes = {**read.wishes, **(consumers(graph, self.clues) if graph is not None else {})}
        said = patterns_said(taker, names)
        for name, axes in axes_written(taker, names).items():
            said[name] = [axes, *said.get(name, ())]
        propose = partial(
            Proposer,
            self.clues,
            wishes,
            said,
            items=read.items,
            states=read.states,
            rows=read.rows,
            numbers=read.numbers,
            flags=read.flags,
            texts=read.texts,
            shares=read.shares,
            unpacked=read.unpacked,
            counted=counted(taker),
            lengths=lengths_said(taker, names),
            levels=levels_said(taker, names),
            kinds=kinds_written(taker, names),
            attributes=read.attributes,
            keys=read.keys,
            of_graph=is_of_graph(names),
        )
        self.proposer = propose()
        if not any(_is_picture(recipe) for recipe in self._first_choice().values()):
            self.proposer = propose(in_tokens=True)
        self.queue: list[_Candidate] = []
        self.serials = itertools.count()
        self.best: dict[str, float] = {}
        self.attempts: list[tuple[Outcome, dict[str, Recipe]]] = []
        self.complaints = Counter[str]()
        self.approach = Approach()
        self.fallback: tuple[dict[str, Recipe], Outcome, Outcome] | None = None
        self.of_weights = 0
        self.faults = 0

    def run(self) -> InferredInputs:
        """Try candidates until one fits or the time is over."""
        self._push(self._first_choice(), 0.0, 0, ahead=2)
        self._push_second_choices()
        while self.queue:
            candidate = heapq.heappop(self.queue)
            if candidate.priority > self.best[candidate.key]:
                continue
            self.best[candidate.key] = -inf
            limit = self.deadline + max(self.deadline - time.process_time(), _SHORTEST_TRIAL)
            loaded, begun = len(sys.modules), time.process_time()
            outcome = probe(self.root, candidate.recipes, self._positional(candidate.recipes), limit)
            if len(sys.modules) > loaded:  # What torch loads for its first message is no time of the search.
                self.deadline += time.process_time() - begun
            if outcome.accepted:
                if self.fallback is not None and outcome.error is not None and not self._is_seen(candidate.recipes):
                    continue  # Nobody can look at these, and such as were looked at do not fit.
                error = self._of_values(candidate.recipes, outcome, limit)
                if error is None:
                    return self._finish(*(self._larger(candidate.recipes) or self._tuned(candidate.recipes, outcome)))
                if self.fallback is None or (error.calls > self.fallback[2].calls and not self._is_of_weights(error)):
                    self.fallback = candidate.recipes, outcome, error
                outcome = error
                self._push_single(candidate, outcome)
            self.attempts.append((outcome, candidate.recipes))
            self.faults += is_fault(outcome.error)
            if time.process_time() > self.deadline or self._is_hopeless():
                break
            self._push_repairs(candidate, outcome)
            self.complaints[outcome.complaint] += 1
            self.of_weights += self._is_of_weights(outcome)
        best = functools.reduce(lambda kept, each: each if each[0].is_beyond(kept[0]) else kept, self.attempts)
        # What is about such numbers may be the fault of weights that were drawn at random; whatever else is not.
        kept = self.fallback
        is_furthest = kept is not None and (kept[2].calls >= best[0].calls or self._is_of_weights(best[0]))
        if kept is not None and is_furthest and _OF_WEIGHTS.search(str(kept[2].error)):
            return self._finish(*kept[:2])
        return self._finish(best[1], best[0])

    def _of_values(self, recipes: dict[str, Recipe], outcome: Outcome, limit: float) -> Outcome | None:
        """Return how a run ends in an error on real data that ended well, or nearly so, without; None if it does not.

        Where the model is too large for that, its inputs alone are real, if it has asked for their values.
        """
        parts = [part for name, recipe in recipes.items() for _, part in leaves(recipe, (name,))]
        tensors = [part for part in parts if isinstance(part, TensorRecipe)]
        asks = (
            outcome.error is not None or outcome.looks_up or not all(part.dtype.is_floating_point for part in tensors)
        )
        if not (asks or not tensors) or not isinstance(self.root, nn.Module):
            return None
        positional = self._positional(recipes)
        has_numbers = any(part.dtype.is_floating_point for part in tensors)
        if is_small(self.root, recipes) and outcome.products <= _MOST_PRODUCTS and outcome.largest <= _LARGEST:
            # What reads values may take another way with others; of numbers only some are places in a table.
            draws = 2 if outcome.error is not None else _DRAWS if outcome.looks_up and has_numbers else 1
            smaller = self._smaller(recipes, outcome)
            return run_for_values(self.root, recipes, positional, outcome, draws=draws, smaller=smaller)
        if outcome.rounded is not None:
            return replace(outcome, error=IndexError("index out of range in self"), operation=outcome.rounded)
        if outcome.error is None:
            return None
        # What looks at what is computed, to spare work, goes on without a look when it is compiled.
        for compiling in (False, True) if are_small(recipes) else ():
            found = probe(self.root, recipes, positional, limit, real=True, compiling=compiling)
            if not found.accepted or found.error is None:
                return None if found.accepted else found
        return self._either_way(recipes, limit)

    def _either_way(self, recipes: dict[str, Recipe], limit: float) -> Outcome | None:
        """Return how a run ends that goes on where only data could tell how; None where one ends well, or nobody knows.

        What a function of torch refuses is refused for what it is given; where the code itself raises, data may tell.
        """
        positional = self._positional(recipes)
        ends = [probe(self.root, recipes, positional, limit, answer=each) for each in (False, True)]
        refused = [each for each in ends if not each.accepted and each.operation is not None]
        is_certain = all(each.error is not None and (each.accepted or each in refused) for each in ends)
        return refused[0] if refused and is_certain and len({each.complaint for each in refused}) == 1 else None

    def _smaller(self, recipes: dict[str, Recipe], outcome: Outcome) -> Iterator[Mapping[str, Recipe]]:
        """Yield inputs with smaller pictures that fit too, as far as that can be told without data."""
        moves = Moves(recipes, outcome, self.clues)
        for factor in _SMALLER:
            pictures: dict[Place, Recipe] = {**by_factor(moves.tensors(), factor)}
            changed = dict(moves.change(pictures, 0.0).recipes)
            if pictures and probe(self.root, changed, self._positional(changed), self.deadline).accepted:
                yield changed

    def _is_seen(self, recipes: dict[str, Recipe]) -> bool:
        """Whether code that looks at the values of inputs finds some: on real data, or in a run without."""
        return are_kept(recipes) or is_small(self.root, recipes)

    def _larger(self, recipes: dict[str, Recipe]) -> tuple[dict[str, Recipe], Outcome] | None:
        """Return inputs that fit but for a view of what cannot be viewed so, where others fit by sizes of one alone."""
        for outcome, tried in self.attempts:
            if _is_larger(tried, recipes) and is_never_viewed(self.root, tried, self._positional(tried), outcome):
                return tried, outcome
        return None

    def _tuned(self, recipes: dict[str, Recipe], outcome: Outcome) -> tuple[dict[str, Recipe], Outcome]:
        """Return inputs that fit better than some that fit, if there is time, and how a trial with them goes."""
        if time.process_time() > self.deadline:
            return recipes, outcome
        tuning = Tuning(self.root, self.clues, self._positional(recipes), self._tried)
        for name, recipe in self._others(recipes):
            recipes, outcome = tuning.beside(self._ordered({**recipes, name: recipe}), recipes, outcome)
        for tune in (tuning.fuller, tuning.longer, tuning.narrowing, tuning.lighter, tuning.bearable, tuning.whole):
            recipes, outcome = tune(recipes, outcome)
        return recipes, outcome

    def _others(self, recipes: Mapping[str, Recipe]) -> list[tuple[str, Recipe]]:
        """Return what else a model may work on that takes all as it is given: texts beside pictures."""
        if any(each.required for each in self.parameters):
            return []
        others = [each for each in self.parameters if each.name not in recipes and _OF_OTHER_KINDS.match(each.name)]
        return [(each.name, self._proposals(each)[0]) for each in others]

    def _tried(self, recipes: dict[str, Recipe]) -> Outcome | None:
        """Return how a trial of other inputs than those that fit goes, None where they do not, or time is over."""
        if time.process_time() > self.deadline:
            return None
        outcome = probe(self.root, recipes, self._positional(recipes), self.deadline)
        return outcome if outcome.accepted and self._of_values(recipes, outcome, self.deadline) is None else None

    def _is_hopeless(self) -> bool:
        """Whether nothing that was tried has changed what the model says, what its weights make, or a fault of it."""
        same = self.complaints.total() if len(self.complaints) == 1 else 0
        return max(same, self.of_weights, _MORE_HOPELESS * self.faults) >= self.hopeless

    def _is_of_weights(self, error: Outcome) -> bool:
        """Whether a run on data ended where the one did that is kept, in what may be the fault of weights."""
        return (
            self.fallback is not None
            and error.where == self.fallback[2].where
            and _OF_WEIGHTS.search(str(error.error)) is not None
        )

    def _first_choice(self) -> dict[str, Recipe]:
        return {parameter.name: self._proposals(parameter)[0] for parameter in self._wanted()}

    def _wanted(self) -> list[Parameter]:
        """The parameters to pass at first: those that have to be, and those that the source needs."""
        passed = self._passed()
        names = {*self.needed, *self.wanted}
        return [each for each in self.parameters if each in passed or each.name in names]

    def _passed(self) -> list[Parameter]:
        """The required parameters, or the main input of a model whose parameters are all optional, if there is one."""
        required = [each for each in self.parameters if each.required]
        if required or not self.parameters:
            return required
        name = getattr(self.root, "main_input_name", None)
        named = [parameter for parameter in self.parameters if parameter.name == name]
        usual = [parameter for parameter in self.parameters if _MAIN_INPUTS.match(parameter.name)]
        return (named or usual or [each for each in self.parameters if not each.setting])[:1]

    def _proposals(self, parameter: Parameter) -> list[Recipe]:
        wanted = self._wanted()
        proposed = self.proposer.propose(parameter, is_first=parameter in wanted[:1])
        like = sibling_of(parameter, wanted)
        if like is None or self.proposer.knows(parameter):
            return proposed
        first = self._proposals(like)[0]
        return [first, *(each for each in proposed if each != first)]

    def _push_second_choices(self) -> None:
        """Queue the other proposals of each parameter, one parameter changed at a time."""
        first = self._first_choice()
        if self.needed:  # What is read may be wrong.
            passed = [each.name for each in self._passed()]
            self._push({name: first[name] for name in first if name in passed or name in self.wanted}, 0.8, 0, ahead=1)
        for parameter in self._wanted():
            for rank, recipe in enumerate(self._proposals(parameter)[1:_MAX_SECOND_CHOICES], 1):
                self._push({**first, parameter.name: recipe}, 1.5 * rank, 0)

    def _push_repairs(self, candidate: _Candidate, outcome: Outcome) -> None:
        # What is right may fail earlier, as another check speaks up: that counts for something, but not for long.
        lines = max(0, outcome.line - self.attempts[0][0].line)  # Checks before anything is called are passed by line.
        progress = max(outcome.calls + _OF_A_LINE * lines, candidate.progress * _KEPT_PROGRESS)
        again = min(_AGAIN * self.complaints[outcome.complaint], _MOST_AGAIN)
        for parameter in self._named_in(outcome, candidate.recipes):
            recipes = {**candidate.recipes, parameter.name: self._proposals(parameter)[0]}
            self._push(self._ordered(recipes), candidate.cost + 0.5 + again, progress)
        for name in self._raised_flags(outcome, candidate.recipes):
            recipes = {**candidate.recipes, name: Constant(value=False, because=f"`{name}` does not work here")}
            self._push(self._ordered(recipes), candidate.cost + _LOWERED + again, progress)
        for name in self._superfluous(outcome, candidate.recipes):
            recipes = {other: recipe for other, recipe in candidate.recipes.items() if other != name}
            self._push(recipes, candidate.cost + 0.5 + again, progress)
        for name in self._dispensable(outcome, candidate.recipes):
            recipes = {**candidate.recipes, name: Constant(None, f"`{name}` may be None")}
            self._push(self._ordered(recipes), candidate.cost + _LOWERED + again, progress)
        for recipes in self.approach.next(candidate.recipes, outcome):
            self._push(recipes, candidate.cost + _OF_A_SIZE, progress)
        changes = repairs(candidate.recipes, outcome, self.clues, self.proposer)
        for change in itertools.islice(changes, _MAX_REPAIRS):
            self._push(dict(change.recipes), candidate.cost + change.cost + again, progress)
        for change in changes:
            if change.cost <= _WELL_FOUNDED:
                self._push(dict(change.recipes), candidate.cost + _LATER + change.cost + again, progress)

    def _push_single(self, candidate: _Candidate, outcome: Outcome) -> None:
        """Queue a batch of one where sizes that follow from data do not fit: what looks at them may be for one alone.

        Where there is something beside it, one example would fit whatever that is.
        """
        moves = Moves(candidate.recipes, outcome, self.clues)
        if _OF_SIZES.search(str(outcome.error)) and len(moves.tensors()) == 1:
            for change in moves.single(_OF_ONE):
                self._push(dict(change.recipes), candidate.cost + change.cost, outcome.calls)

    def _named_in(self, outcome: Outcome, recipes: Mapping[str, Recipe]) -> list[Parameter]:
        """Return the optional parameters that an error asks for: by name, or by None where a value was wanted."""
        message = str(outcome.error)
        lacking = missing_names(outcome.moments, outcome.error) if self.takes_names else []
        self._take_by_name(lacking)
        absent = [parameter for parameter in self.parameters if parameter.name not in recipes]
        words = {form for word in re.findall(r"\w+", message) for form in (word, word.lower())}
        named = [parameter for parameter in absent if parameter.name in words]
        # An inner model complains, and calls its input `input_ids`; ours may be `decoder_input_ids`.
        endings = tuple(f"_{word}" for word in words if "_" in word)
        named += [parameter for parameter in absent if parameter.name.endswith(endings)]
        missing = {*absent_names(outcome.moments, outcome.error), *lacking}
        named += [parameter for parameter in absent if parameter.name in missing and parameter not in named]
        if not named and isinstance(outcome.error, KeyError):  # What was looked up may be for the caller to give.
            return [each for each in absent if takes_keys(each.annotation)]
        others = [parameter for parameter in absent if not (parameter.variadic or parameter.setting)][:4]
        if named or "None" in message:
            return named or others
        # What comes beside the other input may be what is missing: what a connection skips layers with.
        is_stuck = outcome.operation is not None and self.complaints[outcome.complaint] == _STUCK
        return [parameter for parameter in others if parameter.nullable] if is_stuck else []

    def _take_by_name(self, names: Iterable[str]) -> None:
        """Count names that code further in asks for among the parameters: `**kwargs` takes them."""
        known = {parameter.name for parameter in self.parameters}
        for name in dict.fromkeys(names):
            if name not in known:
                self.parameters.append(Parameter(name, None, required=False, keyword_only=True))

    def _superfluous(self, outcome: Outcome, recipes: Mapping[str, Recipe]) -> list[str]:
        """Return the optional parameters that code complains about by name: it takes these or others, not both."""
        is_said = outcome.operation is None and isinstance(outcome.error, AssertionError | ValueError)
        if not is_said or len(recipes) == 1:
            return []
        line = outcome.moments[0].source.text if outcome.moments else ""
        words = set(re.findall(r"\w+", f"{outcome.error} {line}"))
        return [each.name for each in self.parameters if not each.required and each.name in words & recipes.keys()]

    def _raised_flags(self, outcome: Outcome, recipes: Mapping[str, Recipe]) -> list[str]:
        """Return the optional flags that were true where the model failed: it may run without what they ask for."""
        if outcome.operation is not None and any(outcome.operation.sources):
            return []  # An input does not fit.
        scopes = [moment.frame.f_locals for moment in outcome.moments]
        return [
            parameter.name
            for parameter in self.parameters
            if parameter.name not in recipes
            and without_none(parameter.annotation) is bool
            and next((scope[parameter.name] for scope in scopes if parameter.name in scope), None) is True
        ]

    def _dispensable(self, outcome: Outcome, recipes: Mapping[str, Recipe]) -> list[str]:
        """Return the required parameters that may be None and that led to what failed."""
        blamed = {place[0] for place in Moves(recipes, outcome, self.clues).blamed}
        return [each.name for each in self.parameters if each.required and each.name in blamed and each.nullable]

    def _ordered(self, recipes: Mapping[str, Recipe]) -> dict[str, Recipe]:
        """Return the recipes in the order of the signature."""
        return {parameter.name: recipes[parameter.name] for parameter in self.parameters if parameter.name in recipes}

    def _positional(self, recipes: Mapping[str, Recipe]) -> int:
        """Return how many of the recipes can be passed by position: those of the first parameters without a gap."""
        count = 0
        for parameter, name in zip(self.parameters, recipes, strict=False):
            if parameter.keyword_only or parameter.name != name:
                break
            count += 1
        return count

    def _push(self, recipes: dict[str, Recipe], cost: float, progress: float, *, ahead: int = 0) -> None:
        """Queue an assignment that was not tried, nor queued with this priority; one that is `ahead` comes first."""
        key = call_expression((), recipes)
        priority = cost - 2.0 * log2(1 + progress) - _AHEAD * ahead
        if priority < self.best.get(key, inf):
            self.best[key] = priority
            heapq.heappush(self.queue, _Candidate(priority, next(self.serials), key, recipes, cost, progress))

    def _is_bound_to_batch(self, recipes: dict[str, Recipe], outcome: Outcome) -> bool:
        """Whether a model runs with the batch that was proposed and with no other: a constant in it is wrong."""
        if not outcome.accepted or outcome.calls > _MANY_CALLS or time.process_time() > self.deadline:
            return False
        moves = Moves(recipes, outcome, self.clues)
        tried = False
        for size in _BATCHES:
            batched: dict[Place, Recipe] = {
                place: part.with_shape((size, *part.shape[1:]))
                for place, part in moves.tensors()
                if part.shape[:1] == (BATCH,)
            }
            if batched:
                tried = True
                other = dict(moves.change(batched, 0.0).recipes)
                if probe(self.root, other, self._positional(other), self.deadline).accepted:
                    return False
        return tried

    def _doubtful(self, recipes: dict[str, Recipe], outcome: Outcome) -> tuple[str, ...]:
        blamed = {str(place[0]) for place in Moves(recipes, outcome, self.clues).blamed}
        required = [parameter.name for parameter in self.parameters if parameter.required]
        return tuple(name for name in recipes if name in blamed) or tuple(required) or tuple(recipes)

    def _finish(self, recipes: dict[str, Recipe], outcome: Outcome) -> InferredInputs:
        positional = self._positional(recipes)
        try:
            args, kwargs = _make(recipes, positional, _META, None)
        except Exception:  # noqa: BLE001 - a class refuses what it is given, which the outcome says.
            args, kwargs, recipes, positional = (), {}, {}, 0
        values = list(recipes.values())
        expression = call_expression(tuple(values[:positional]), dict(list(recipes.items())[positional:]))
        bound = self._is_bound_to_batch(recipes, outcome)
        first = self.attempts[:1]  # Whatever was tried after it, this is what the model is likely to be fed with.
        others = sorted(self.attempts[1:], key=lambda attempt: -attempt[0].calls)[: _KEPT_ATTEMPTS - 1]
        attempts = sorted([*first, *others], key=lambda attempt: -attempt[0].calls)
        return InferredInputs(
            args,
            kwargs,
            expression,
            _reason(recipes) + (f"; only in a batch of {BATCH}" if bound else ""),
            tuple(
                Attempt(call_expression((), tried), first_line(failed.error), failed.calls)
                for failed, tried in attempts
            ),
            outcome.accepted,
            outcome.error is not None and outcome.accepted,
            () if outcome.accepted else self._doubtful(recipes, outcome),
            recipes,
            positional,
            bound,
            None if outcome.accepted else outcome,
        )


def _is_larger(recipes: Mapping[str, Recipe], other: Mapping[str, Recipe]) -> bool:
    """Whether inputs are as others, but for dimensions that are one element long in those."""
    if recipes.keys() != other.keys():
        return False
    is_larger = False
    for name, recipe in recipes.items():
        pairs = itertools.zip_longest(leaves(recipe, (name,)), leaves(other[name], (name,)), fillvalue=((), None))
        for (_, one), (_, small) in pairs:
            if not isinstance(one, TensorRecipe) or not isinstance(small, TensorRecipe):
                if one != small:
                    return False
                continue
            differing = {low for size, low in itertools.zip_longest(one.shape, small.shape, fillvalue=0) if size != low}
            if differing - {1} or one.fill != small.fill:
                return False
            is_larger |= bool(differing)
    return is_larger


def _is_picture(recipe: Recipe) -> bool:
    return any(isinstance(part, TensorRecipe) and len(part.shape) >= 4 for _, part in leaves(recipe, ()))


def _reason(recipes: Mapping[str, Recipe]) -> str:
    """Return why each input is what it is, as ``img from conv1 (Conv2d(3, …))``."""
    reasons = [(name, recipe.because) for name, recipe in recipes.items() if recipe.because]
    if len({because for _, because in reasons}) == 1 and len(recipes) == 1:
        return reasons[0][1]
    return "; ".join(f"{name}: {because}" for name, because in reasons)
