"""What fits no inputs at all: the node of a graph that fails whatever a model is fed with.

Two layers do not go together, what is taken for one value is none, a tensor does not lie so that it can be viewed,
has fewer dimensions than the code goes along, or is not flattened.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxengine.capturing.dimensions import across, frame_of, misfit
from fxengine.graph_module import GraphModule
from fxengine.inputs import Attempt, InferredInputs, infer_inputs
from fxengine.inputs.clues import BATCH
from fxengine.inputs.disagreements import Disagreement, are_of_two_sizes, differ_alike, differ_by_times, disagreement
from fxengine.inputs.faults import is_of_layout, says_layout
from fxengine.inputs.probe import Outcome, probe
from fxengine.inputs.ranks import lacks_dimension, missing_dimension
from fxengine.inputs.recipes import Recipe, call_expression, tensors_in, with_part, with_shape
from fxengine.inputs.signature import parameters_of
from fxengine.inputs.sizes import (
    comes_further_flat,
    fails_at_any_length,
    fails_at_any_size,
    is_of_dimensions,
    is_of_pictures,
    is_out_of_reach,
    stays_apart,
    stays_in_proportion,
    with_size_changed,
)
from fxengine.inputs.values import is_never_viewed
from fxengine.passes.shape_prop import ShapeFailure
from fxworker.argument_lists import Arguments
from fxworker.assigned_when import is_of_a_choice
from fxworker.building import built_as
from fxworker.distinct import HOPELESS, are_distinct, with_equal_sizes
from fxworker.failing import failure_with, is_of_batch, is_of_kinds, never_agree, used_by_default
from fxworker.flattening import fits_flattened
from fxworker.kinds import mistaken
from fxworker.loading import Loaded
from fxworker.misplaced import lacks_tokens, stays_misplaced
from fxworker.printing import detail
from fxworker.scaling import (
    agree_with_others,
    is_tied_to_default,
    vary_with_others,
    with_each_other,
)
from fxworker.stand_ins import refusing
from fxworker.stock import has_stand_in
from fxworker.wire import Construct, TraceTarget

_JOINING: Final = frozenset({torch.cat, torch.concat, torch.concatenate})
"""What puts values beside each other along a dimension that it is told."""

_SECONDS: Final = 1.0
"""Seconds of processor time that one look at a search may take."""

_FEWEST_DIMENSIONS: Final = 2
"""Dimensions without which an input has no batch."""

_FEWEST_TRIALS: Final = 2
"""Trials without which nothing is said of all inputs."""


@dataclass(frozen=True, slots=True)
class Hopeless:
    """A node that fails with any inputs, and some with which it does; whether other arguments would only hide it."""

    failure: ShapeFailure
    guess: str
    hidden_by_others: bool = False


def _limit() -> float:
    return time.process_time() + _SECONDS


@dataclass(frozen=True)
class Search:
    """What a search for inputs came to, and what is looked at of it within a limit of time.

    Attributes:
        target: What was traced.
        root: The model.
        loaded: The file's module.
        module: Its graph.
        construct: How the model was built with arguments that nobody wrote down; None where somebody did.
        way: How it was built, whoever says so; None for a function, and for what the file has built.
        found: What the search found.
        made: Makes the arguments of an expression.
        limit: The processor time of this process, in seconds, after which nothing more is tried.
    """

    target: TraceTarget
    root: Any
    loaded: Loaded
    module: GraphModule
    construct: Construct | None
    way: Construct | None
    found: InferredInputs
    made: Callable[[str], Arguments]
    limit: float = field(default_factory=_limit)

    def hopeless(self) -> Hopeless | None:
        """Return the node that fails with any inputs, if that is what the trials met."""
        found = self.found
        if len(found.failures) < _FEWEST_TRIALS or not isinstance(self.root, nn.Module):
            return None
        failure = failure_with(self.module, found.args, found.kwargs, self.root)
        if failure is None:
            return None
        if self.mistakes(failure):
            return Hopeless(failure, found.expression)
        by_written, is_there = False, self.stops_at(failure)
        if is_of_layout(failure.error):
            is_so = self._is_never_viewed()
        elif found.stopped is not None and is_of_layout(found.stopped.error):
            return next(self._of_layout(self._fuller()), None) if self._is_never_viewed() else None
        elif is_of_kinds(failure) and found.failures[0].error == f"{TypeError.__name__}: {detail(failure.error)}":
            is_so = self.construct is None
        elif missing_dimension(failure.error) is not None:
            fuller = next(self._of_trials(), None)
            if fuller is not None:
                return fuller
            is_so = self._lacks_dimension(failure)
        else:
            ways = (
                self._of_layers(failure) if is_there else (),
                self._of_trials(),
                self._unflattened(failure),
                self._apart(),
            )
            of_sizes = next(chain.from_iterable(ways), None)
            if of_sizes is not None:
                return of_sizes
            is_so = is_there and (
                self._is_of_any_size() or self._is_of_any_length(failure) or self._is_of_parameters(failure)
            )
            by_written = is_so and self.construct is not None and not is_of_a_choice(failure.node)
        # Other trials have left their shapes at the nodes.
        failure = failure_with(self.module, found.args, found.kwargs, self.root) if is_so and is_there else None
        return None if failure is None else Hopeless(failure, found.expression, by_written)

    def mistakes(self, failure: ShapeFailure) -> bool:
        """Return whether a node that fails takes for one value what is none, and the model itself stops there, too."""
        mistake = mistaken(failure, self.root)
        return mistake is not None and (mistake.certain or self.construct is None) and self.stops_at(failure)

    def stops_at(self, failure: ShapeFailure) -> bool:
        """Return whether the model itself stops at a line at which a node fails."""
        place, stopped = frame_of(failure.node), self.found.stopped
        met = stopped.moments if stopped is not None else ()
        return place is not None and any((place.path, place.line) == (it.source.path, it.source.line) for it in met)

    def of_kind(self) -> Hopeless | None:
        """Return the node at which a model stops for such a value, with inputs that it takes but for a fault of its."""
        failure = failure_with(self.module, self.found.args, self.found.kwargs, self.root)
        return Hopeless(failure, self.found.expression) if failure is not None and self.mistakes(failure) else None

    def _of_layers(self, failure: ShapeFailure) -> Iterator[Hopeless]:
        """Yield a node at which the sizes of two layers meet that do not go together, with the best trials first.

        Of those that came to it, some are of other things, for how many dimensions their inputs have.
        """
        for expression in dict.fromkeys((self.found.expression, *(each.expression for each in self.found.failures))):
            args, kwargs = self.made(expression)
            met = failure_with(self.module, args, kwargs, self.root)
            if met is None or met.node is not failure.node:
                continue
            if self._never_agree(met):
                yield Hopeless(met, expression, self.construct is not None and self._is_as_written)
            elif self._is_told_apart(met) or self._is_tied(met):
                yield Hopeless(met, expression, hidden_by_others=True)

    def _is_told_apart(self, failure: ShapeFailure) -> bool:
        """Return whether a layer meets the size of another one, and only equal arguments would make them agree."""
        construct = self.construct
        if construct is None or failure.node.op != "call_module" or not are_distinct(construct.expression):
            return False
        sizes = misfit(failure.node, self.root)
        if len(sizes) != 2 or not all(each.of_layer for each in sizes):
            return False
        equal = with_equal_sizes(construct.expression, {each.size for each in sizes})
        built = built_as(equal, self.target, self.loaded) if equal else None
        if built is None or not vary_with_others(sizes, construct, self.target, self.loaded):
            return False
        left = max(self.limit - time.process_time(), 0.0)
        return infer_inputs(built.root, budget_s=left, hopeless=HOPELESS).complete

    def _is_tied(self, failure: ShapeFailure) -> bool:
        """Return whether a layer meets the size of another one, and one of them is what somebody has written."""
        sizes = misfit(failure.node, self.root)
        if self.construct is None or len(sizes) != 2 or not all(each.of_layer for each in sizes):
            return False
        is_tied = is_tied_to_default(sizes, self.construct, self.target, self.loaded)
        return is_tied and not self._comes_further_flat(failure.node.target)

    def _never_agree(self, failure: ShapeFailure) -> bool:
        never = never_agree(failure, self.root, self.construct, self.target, self.loaded)
        return never and not self._comes_further_flat(failure.node.target)

    def _comes_further_flat(self, function: Any) -> bool:
        """Return whether values that are joined have a dimension too many, of those that inputs have in common."""
        found, stopped = self.found, self.found.stopped
        if function not in _JOINING:
            return False
        if stopped is None:
            return len(tensors_in(found.recipes)) > 1
        return comes_further_flat(self.root, found.recipes, found.positional, stopped, self.limit)

    def _of_trials(self) -> Iterator[Hopeless]:
        """Yield a node that fails with a trial that came less far, and with all that are no odd ones.

        Inputs of one dimension less may be multiplied with what they are not meant for: then the sizes of two layers
        meet with those that have it. Values whose dimensions do not lie alike fit by chance alone.
        """
        furthest = _shapes((self.found.args, self.found.kwargs))
        for trial, failure in self._failed():
            arguments = self.made(trial.expression)
            shapes = _shapes(arguments)
            has_more = len(shapes) == len(furthest) and any(map(_has_more, shapes, furthest))
            if (has_more and self._never_agree(failure)) or lacks_tokens(failure, self.root, shapes):
                yield Hopeless(failure, trial.expression)
            elif stays_misplaced(failure, self.root, arguments, self._failure_with):
                # Other inputs have left their shapes at the nodes.
                met = self._failure_with(self.made(trial.expression))
                yield from () if met is None else (Hopeless(met, trial.expression),)

    def _failure_with(self, arguments: Arguments) -> ShapeFailure | None:
        return failure_with(self.module, *arguments, self.root)

    def _failed(self) -> Iterator[tuple[Attempt, ShapeFailure]]:
        """Yield the trials that did not fit, each with the node that fails then."""
        for trial in self.found.failures:
            failure = self._failure_with(self.made(trial.expression))
            if failure is not None:
                yield trial, failure

    def _unflattened(self, failure: ShapeFailure) -> Iterator[Hopeless]:
        """Yield a node at which pictures come in that are to be flattened, with those that fit then."""
        found = fits_flattened(failure.node, self.root) if self.construct is None else None
        if found is None or any(map(_is_odd, _shapes((found.args, found.kwargs)))):
            return
        met = failure_with(self.module, found.args, found.kwargs, self.root)
        yield from (Hopeless(met, found.expression),) if met is not None and met.node is failure.node else ()

    def _apart(self) -> Iterator[Hopeless]:
        """Yield a node at which two sizes meet that differ by as much whatever the length of the input."""
        found = self.found
        if len(tensors_in(found.recipes)) != 1 or not self._is_as_written:
            return
        for trial in found.failures:
            if not are_of_two_sizes(trial.error):
                continue
            args, kwargs = self.made(trial.expression)
            for shape in _shapes((args, kwargs)):
                tried = with_shape(found.recipes, tuple(shape))
                if stays_apart(self.root, tried, found.positional, self.limit):
                    failure = failure_with(self.module, args, kwargs, self.root)
                    yield from () if failure is None else (Hopeless(failure, trial.expression),)

    def _is_of_any_length(self, failure: ShapeFailure) -> bool:
        """Return whether two values that the model has computed go together at no length of its input."""
        found, node = self.found, failure.node
        is_computed = node.op != "call_module" and all(each.op != "get_attr" for each in node.all_input_nodes)
        if found.stopped is None or not is_computed or len(failure.inputs) < 2 or not self._is_as_written:
            return False
        return fails_at_any_length(self.root, found.recipes, found.positional, found.stopped, self.limit)

    def _is_of_any_size(self) -> bool:
        """Return whether no size of an input makes that fit which does not, and no number that was made up does."""
        found, stopped = self.found, self.found.stopped
        if stopped is None or stopped.operation is None or not self._is_as_written:
            return False
        if self._comes_further_flat(stopped.operation.function):
            return False
        if stays_in_proportion(self.root, found.recipes, found.positional, self.limit):
            return True
        return any(
            check(self.root, found.recipes, found.positional, stopped, self.limit)
            for check in (fails_at_any_size, is_out_of_reach)
        )

    @cached_property
    def _is_as_written(self) -> bool:
        """Whether the sizes that do not fit differ alike with other numbers in the place of made-up ones.

        They may also differ as often as such a number says: there are as many heads.
        """
        met = disagreement(self.found.stopped) if self.found.stopped is not None else None
        return self.construct is None or (met is not None and self._ends_so(partial(_differs_alike, met)))

    def _ends_so(self, is_alike: Callable[[Outcome, int, int], bool]) -> bool:
        """Return whether a model stops in one and the same way with other numbers in the place of each made-up one.

        What inputs have of its size is changed with it, or the sides of pictures, if that alone lets the model come as
        far.
        """
        construct, stopped, found = self.construct, self.found.stopped, self.found
        if construct is None or stopped is None:
            return construct is None
        if has_stand_in(construct.expression):
            refused = refusing(construct, self.target, self.loaded)
            ended = probe(refused.root, found.recipes, found.positional, self.limit) if refused is not None else None
            if ended is None or ended.where != stopped.where:
                return False
        are_changed = False
        for number, other, built in with_each_other(construct, self.target, self.loaded):
            are_changed = True
            inputs = with_size_changed(found.recipes, number, other)
            ends = (probe(built.root, each, found.positional, self.limit) for each in inputs) if built else ()
            if not any(each.where == stopped.where and is_alike(each, number, other) for each in ends):
                return False
        return are_changed

    def _is_of_parameters(self, failure: ShapeFailure) -> bool:
        """Return whether a node takes no tensors but the model's own, which have not the dimensions that it wants."""
        stopped = self.found.stopped
        tensors = [each for each in failure.node.all_input_nodes if each.tensor is not None or each.op == "get_attr"]
        if stopped is None or not tensors or any(each.op != "get_attr" for each in tensors):
            return False
        return is_of_dimensions(stopped) and self._ends_so(lambda each, *_: each.complaint == stopped.complaint)

    def hidden(self) -> Hopeless | None:
        """Return the node at which two layers do not go together, if inputs fit only as they have fewer dimensions.

        One that is as long as a layer takes may then stand in the place of what the other layer makes. So may the side
        of a picture in the place of all its points, and in what is but a point no side is half of another.
        """
        if not isinstance(self.root, nn.Module):
            return None
        in_batches = next(self._in_batches(), None) if self.construct is None else None
        if in_batches is not None:
            return in_batches
        lying_otherwise = next(chain(self._across(), self._of_trials()), None)
        if lying_otherwise is not None:
            return lying_otherwise
        fitting = _shapes((self.found.args, self.found.kwargs))
        of_pictures = self._of_pictures() if any(map(_is_odd, fitting)) else None
        if of_pictures is not None:
            return of_pictures
        for trial in self.found.failures:
            args, kwargs = self.made(trial.expression)
            shapes = _shapes((args, kwargs))
            if len(shapes) != len(fitting) or not any(map(_has_more, shapes, fitting)):
                continue
            failure = failure_with(self.module, args, kwargs, self.root)
            wanted = misfit(failure.node, self.root)[1:] if failure is not None else ()
            fits_so = any(each.size in shape for each in wanted for shape in fitting)
            if failure is not None and fits_so and self._never_agree(failure):
                return Hopeless(failure, trial.expression)
        return None

    def _across(self) -> Iterator[Hopeless]:
        """Yield a layer that would take what it is given if that were transposed, else only what is as long as wide.

        The layer, and the other one that makes what it is given, have one and the same size with other arguments, too.
        """
        if self.way is None:
            return
        for trial, failure in self._failed():
            sizes = across(failure.node, self.root)
            if sizes and agree_with_others(sizes, self.way, self.target, self.loaded):
                yield Hopeless(failure, trial.expression)

    def _in_batches(self) -> Iterator[Hopeless]:
        """Yield a node that fails with any batch of more than one example, which nothing but chance lets pass.

        What is spread over the batch is to be beside it, the batch is a part of the rows, or what cannot be viewed can
        be as there is but one. Inputs that may be left out may have hidden that, too.
        """
        found, root = self.found, self.root
        for recipes in _batched(found.recipes, root):
            if time.process_time() > self.limit:
                return
            outcome = probe(root, recipes, found.positional)
            if outcome.accepted:
                return
            if is_of_layout(outcome.error):
                if is_never_viewed(root, recipes, found.positional, outcome):
                    yield from self._of_layout(found.failures)
                continue
            args, kwargs, guess = self.of_recipes(recipes)
            failure = failure_with(self.module, args, kwargs, root)
            if failure is not None and is_of_batch(failure, root, _shapes((args, kwargs))):
                yield Hopeless(failure, guess)

    def _fuller(self) -> tuple[Attempt, ...]:
        """Return trials of inputs that leave out nothing which the graph needs and the model does without."""
        wanted, left = used_by_default(self.module.graph), self.limit - time.process_time()
        if not wanted or left <= 0:
            return ()
        return infer_inputs(self.root, self.module.graph, budget_s=left, wanted=wanted).failures

    def _of_layout(self, trials: tuple[Attempt, ...]) -> Iterator[Hopeless]:
        """Yield the nodes at which trials ended with a view of what cannot be viewed so."""
        for trial in trials:
            if says_layout(trial.error):
                args, kwargs = self.made(trial.expression)
                failure = failure_with(self.module, args, kwargs, self.root)
                if failure is not None and is_of_layout(failure.error):
                    yield Hopeless(failure, trial.expression)

    def of_recipes(self, recipes: Mapping[str, Recipe]) -> tuple[tuple[Any, ...], dict[str, Any], str]:
        """Return what recipes make, and the argument list that says so."""
        given = list(recipes.items())
        by_position = self.found.positional
        guess = call_expression(tuple(each for _, each in given[:by_position]), dict(given[by_position:]))
        return *self.made(guess), guess

    def _of_pictures(self) -> Hopeless | None:
        """Return the node that fails with all pictures that are none of a single point or of one odd side."""
        if self.construct is not None:
            return None
        found = self.found
        guess = found.failures[0].expression
        args, kwargs = self.made(guess)
        failure = failure_with(self.module, args, kwargs, self.root)
        if failure is None:
            return None
        if stays_in_proportion(self.root, found.recipes, found.positional, self.limit):
            return Hopeless(failure, guess)
        return next(self._unflattened(failure), None)

    def _is_never_viewed(self) -> bool:
        """Return whether the model itself asks, on data, for a view of what cannot be viewed so.

        What stands in for a part need not lay out what it gives as the part would.
        """
        found, stopped = self.found, self.found.stopped
        if self.construct is not None and has_stand_in(self.construct.expression):
            return False
        return stopped is not None and is_never_viewed(self.root, found.recipes, found.positional, stopped)

    def _lacks_dimension(self, failure: ShapeFailure) -> bool:
        """Return whether the code goes along a dimension that no inputs have, and says itself which one."""
        missing, stopped = missing_dimension(failure.error), self.found.stopped
        if missing is None or stopped is None or missing_dimension(stopped.error) is None:
            return False
        origin = failure.node.origin
        text = origin.frames[-1].text if origin is not None and origin.frames else ""
        construct = self.construct.expression if self.construct is not None else ""
        # What stands in for a part need not have as many dimensions as the part would give.
        if construct and (has_stand_in(construct) or not re.search(rf"\b{abs(missing.wanted)}\b", text)):
            return False
        found = self.found
        return lacks_dimension(self.root, found.recipes, found.positional, stopped, self.limit)


def _differs_alike(met: Disagreement, outcome: Outcome, number: int, changed: int) -> bool:
    """Whether a trial ended with two sizes that differ as others do, or as a number says that was changed for it."""
    other = disagreement(outcome)
    return other is not None and (differ_alike(met, other) or differ_by_times(met, other, number, changed))


def _shapes(arguments: Any) -> list[torch.Size]:
    return [each.shape for each in pytree.tree_leaves(arguments) if isinstance(each, torch.Tensor)]


def _is_odd(shape: torch.Size) -> bool:
    """Whether pictures have two sides that differ, or a single point."""
    return is_of_pictures(shape) and (shape[-1] != shape[-2] or shape[-1] == 1)


def _batched(recipes: Mapping[str, Recipe], root: nn.Module) -> Iterator[dict[str, Recipe]]:
    """Yield inputs that are all of a single example, or of single ones in a batch, as a batch of two without more.

    First come those that have to be given, then all.
    """
    tensors = tensors_in(recipes)
    made: dict[str, Recipe] = dict(recipes)
    for name, place, part in tensors:
        first, *rest = part.shape or (0,)
        shape = (BATCH, *(rest if first == 1 else (each for each in rest if each != 1)))
        if len(shape) < _FEWEST_DIMENSIONS or shape == part.shape or first not in {1, BATCH}:
            return
        made[name] = with_part(made[name], place, part.with_shape(shape))
    if not tensors:
        return
    required = {each.name for each in parameters_of(root) if each.required}
    needed = {name: each for name, each in made.items() if name in required}
    if needed and len(needed) < len(made):
        yield needed
    yield made


def _has_more(shape: torch.Size, other: torch.Size) -> bool:
    """Whether a shape has more dimensions than another."""
    return len(shape) > len(other)
