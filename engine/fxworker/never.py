"""What fits no inputs at all: the node of a graph that fails whatever a model is fed with.

Two layers do not go together, something that is computed is no tensor, a tensor does not lie so that it can be viewed,
has fewer dimensions than the code goes along, or is not flattened.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxengine.capturing.dimensions import misfit
from fxengine.graph_module import GraphModule
from fxengine.inputs import InferredInputs
from fxengine.inputs.faults import is_of_layout
from fxengine.inputs.ranks import lacks_dimension, missing_dimension
from fxengine.inputs.sizes import fails_at_any_size, is_of_pictures, stays_in_proportion
from fxengine.inputs.values import is_never_viewed
from fxengine.passes.cost import shapes_and_costs
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.profiling.measuring import bind_placeholders
from fxworker.flattening import fits_flattened
from fxworker.loading import Loaded
from fxworker.printing import detail
from fxworker.scaling import differ_with_others
from fxworker.wire import Construct, TraceTarget

_SECONDS: Final = 0.5
"""Seconds after which nothing more is tried."""

_FEWEST_TRIALS: Final = 2
"""Trials without which nothing is said of all inputs."""


@dataclass(frozen=True, slots=True)
class Hopeless:
    """A node that fails with any inputs, and some with which it does."""

    failure: ShapeFailure
    guess: str


@dataclass(frozen=True, slots=True)
class Search:
    """What a search for inputs came to that found none.

    Attributes:
        target: What was traced.
        root: The model.
        loaded: The file's module.
        module: Its graph.
        construct: How the model was built with arguments that nobody wrote down; None where somebody did.
        found: What the search found.
        made: Makes the arguments of an expression.
    """

    target: TraceTarget
    root: Any
    loaded: Loaded
    module: GraphModule
    construct: Construct | None
    found: InferredInputs
    made: Callable[[str], tuple[tuple[Any, ...], dict[str, Any]]]

    def hopeless(self) -> Hopeless | None:
        """Return the node that fails with any inputs, if that is what the trials met."""
        found = self.found
        if len(found.failures) < _FEWEST_TRIALS or not isinstance(self.root, nn.Module):
            return None
        failure = failure_with(self.module, found.args, found.kwargs, self.root)
        if failure is None:
            return None
        if is_of_layout(failure.error):
            is_so = self._is_never_viewed()
        elif _is_of_kinds(failure) and found.failures[0].error == f"{TypeError.__name__}: {detail(failure.error)}":
            is_so = self.construct is None
        elif missing_dimension(failure.error) is not None:
            is_so = self._lacks_dimension(failure)
        else:
            of_layers = next(self._of_layers(failure), None)
            if of_layers is not None:
                return of_layers
            unflattened = self._unflattened(failure)
            if unflattened is not None:
                return unflattened
            is_so = self._is_of_any_size()
        # Other trials have left their shapes at the nodes.
        failure = failure_with(self.module, found.args, found.kwargs, self.root) if is_so else None
        return None if failure is None else Hopeless(failure, found.expression)

    def _of_layers(self, failure: ShapeFailure) -> Iterator[Hopeless]:
        """Yield a node at which the sizes of two layers meet that do not go together, with the best trials first.

        Of those that came to it, some are of other things, for how many dimensions their inputs have.
        """
        for expression in dict.fromkeys((self.found.expression, *(each.expression for each in self.found.failures))):
            args, kwargs = self.made(expression)
            met = failure_with(self.module, args, kwargs, self.root)
            if met is not None and met.node is failure.node and self._never_agree(met):
                yield Hopeless(met, expression)

    def _never_agree(self, failure: ShapeFailure) -> bool:
        return never_agree(failure, self.root, self.construct, self.target, self.loaded)

    def _unflattened(self, failure: ShapeFailure) -> Hopeless | None:
        """Return a node at which pictures come in that are to be flattened, with those that fit then."""
        found = fits_flattened(failure.node, self.root) if self.construct is None else None
        if found is None or any(map(_is_odd, _shapes((found.args, found.kwargs)))):
            return None
        met = failure_with(self.module, found.args, found.kwargs, self.root)
        return Hopeless(met, found.expression) if met is not None and met.node is failure.node else None

    def _is_of_any_size(self) -> bool:
        """Return whether no size of an input changes what does not fit, of a model that somebody says how to build."""
        limit, found = time.process_time() + _SECONDS, self.found
        if self.construct is not None or found.stopped is None or found.stopped.operation is None:
            return False
        if fails_at_any_size(self.root, found.recipes, found.positional, found.stopped, limit):
            return True
        return stays_in_proportion(self.root, found.recipes, found.positional, limit)

    def hidden(self) -> Hopeless | None:
        """Return the node at which two layers do not go together, if inputs fit only as they have fewer dimensions.

        One that is as long as a layer takes may then stand in the place of what the other layer makes. So may the side
        of a picture in the place of all its points, and in what is but a point no side is half of another.
        """
        if not isinstance(self.root, nn.Module):
            return None
        fitting = _shapes((self.found.args, self.found.kwargs))
        of_pictures = self._of_pictures() if any(_is_odd(shape) for shape in fitting) else None
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
        limit = time.process_time() + _SECONDS
        if stays_in_proportion(self.root, found.recipes, found.positional, limit):
            return Hopeless(failure, guess)
        return self._unflattened(failure)

    def _is_never_viewed(self) -> bool:
        """Return whether the model itself asks, on data, for a view of what cannot be viewed so."""
        found, stopped = self.found, self.found.stopped
        return stopped is not None and is_never_viewed(self.root, found.recipes, found.positional, stopped)

    def _lacks_dimension(self, failure: ShapeFailure) -> bool:
        """Return whether the code goes along a dimension that no inputs have, and says itself which one."""
        missing, stopped = missing_dimension(failure.error), self.found.stopped
        if missing is None or stopped is None or missing_dimension(stopped.error) is None:
            return False
        origin = failure.node.origin
        text = origin.frames[-1].text if origin is not None and origin.frames else ""
        if self.construct is not None and not re.search(rf"\b{abs(missing.wanted)}\b", text):
            return False
        found = self.found
        limit = time.process_time() + _SECONDS
        return lacks_dimension(self.root, found.recipes, found.positional, stopped, limit)


def never_agree(
    failure: ShapeFailure, root: nn.Module, construct: Construct | None, target: TraceTarget, loaded: Loaded
) -> bool:
    """Return whether two sizes meet at a node that are both of layers of `root`, with any arguments of it."""
    sizes = misfit(failure.node, root)
    if len(sizes) != 2 or not all(each.of_layer for each in sizes):
        return False
    return construct is None or differ_with_others(sizes, construct, target, loaded)


def failure_with(module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], root: Any) -> ShapeFailure | None:
    """Return the first node of a graph that fails with some inputs."""
    report, _ = shapes_and_costs(module, bind_placeholders(module, args, kwargs, root))
    return next(iter(report.failures), None)


def _shapes(arguments: Any) -> list[torch.Size]:
    return [each.shape for each in pytree.tree_leaves(arguments) if isinstance(each, torch.Tensor)]


def _is_odd(shape: torch.Size) -> bool:
    """Whether pictures have two sides that differ, or a single point."""
    return is_of_pictures(shape) and (shape[-1] != shape[-2] or shape[-1] == 1)


def _has_more(shape: torch.Size, other: torch.Size) -> bool:
    """Whether a shape has more dimensions than another."""
    return len(shape) > len(other)


def _is_of_kinds(failure: ShapeFailure) -> bool:
    """Whether a node fails since something that the model itself has computed is of another kind than it takes."""
    used = failure.node.all_input_nodes
    computed = bool(used) and all(each.op not in {"placeholder", "get_attr"} for each in used)
    return computed and isinstance(failure.error, TypeError) and not failure.needs_data
