"""A node of a graph that fails with some inputs: which one that is, and what its two sizes are of."""

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fxengine.capturing.dimensions import misfit
from fxengine.evaluation import evaluate, has_own_train
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.inputs.clues import BATCH
from fxengine.inputs.disagreements import are_of_two_sizes
from fxengine.inputs.probe import preserved
from fxengine.inputs.sizes import is_of_pictures
from fxengine.node import Node
from fxengine.passes.cost import shapes_and_costs
from fxengine.passes.shape_prop import ShapeFailure, describe
from fxengine.profiling.measuring import bind_placeholders
from fxworker.argument_lists import Arguments
from fxworker.capturing import captured_with
from fxworker.loading import Loaded
from fxworker.scaling import differ_with_others, is_outgrown
from fxworker.stand_ins import is_behind_one
from fxworker.wire import Construct, TraceTarget


@contextlib.contextmanager
def evaluating(root: Any) -> Generator[None]:
    """Let a model run in the body as inputs are searched for: not in training."""
    training = [part for part in root.modules() if part.training] if isinstance(root, nn.Module) else []
    with preserved([*filter(has_own_train, training)]):
        try:
            evaluate(training)
            yield
        finally:
            for part in training:
                part.training = True


def failure_with(module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], root: Any) -> ShapeFailure | None:
    """Return the first node of a graph that fails with some inputs."""
    report, _ = shapes_and_costs(module, bind_placeholders(module, args, kwargs, root))
    return next(iter(report.failures), None)


def failure_of(root: nn.Module, arguments: Arguments) -> ShapeFailure | None:
    """Return what ends a run of a model itself with some inputs, if that is one of torch's functions or layers."""
    captured = captured_with(root, lambda: arguments)
    node = captured.failed if captured is not None else None
    error = captured.problems[0].exception if captured is not None and captured.problems else None
    if node is None or not isinstance(error, Exception):
        return None
    given = ((each.name, each.tensor) for each in node.all_input_nodes if each.tensor is not None)
    # What the node itself runs of the user's code is of no matter, and where it is called it says itself.
    error = error.with_traceback(None)
    return ShapeFailure(node, error, tuple((name, describe(value)) for name, value in given), needs_data=False)


def failing_with(root: nn.Module, arguments: Arguments) -> GraphModule | None:
    """Return the graph of a run of a model itself with some inputs, up to what ends it; None if that is nothing."""
    captured = captured_with(root, lambda: arguments)
    return captured.failing if captured is not None else None


def never_agree(
    failure: ShapeFailure, root: nn.Module, construct: Construct | None, target: TraceTarget, loaded: Loaded
) -> bool:
    """Return whether two sizes meet at a node that are both of layers of `root`, with any arguments of it."""
    sizes = misfit(failure.node, root)
    if construct is None and len(sizes) == 2 and sizes[1].of_layer and is_outgrown(*sizes):
        return True
    if len(sizes) != 2 or not all(each.of_layer for each in sizes):
        return False
    if construct is None:
        return True
    differs = differ_with_others(sizes, construct, target, loaded)
    return differs and not is_behind_one(failure.node, sizes, root, (construct, target, loaded))


def is_taken_otherwise(failure: ShapeFailure, root: nn.Module, before: Arguments, now: Arguments) -> bool:
    """Return whether inputs have changed in nothing but one size, and that is what a layer, or the code, takes of one.

    What takes it is a layer, a parameter, or what an input comes to first, alone and before it meets any weights.
    """
    shapes, others = ([it.shape for it in tree_leaves(each) if isinstance(it, Tensor)] for each in (before, now))
    if [*map(len, shapes)] != [*map(len, others)]:
        return False
    pairs = {pair for both in zip(shapes, others, strict=True) for pair in zip(*both, strict=True)}
    changed = {pair for pair in pairs if pair[0] != pair[1]}
    sizes = misfit(failure.node, root)
    given = next((each.size for each in sizes if each.given is not None), None)
    built = ((each.size, each.built) for each in sizes if each.built is not None)
    taken = next((size for size, layer in built if layer.is_taken or layer.held is not None), None)
    return changed == {(given, taken)} or (len(changed) == 1 and _comes_first(failure.node))


def _comes_first(node: Node) -> bool:
    """Return whether a node has one input alone and no weights before it."""
    behind = [each for each in nodes_behind([node]) if each is not node]
    return all(each.op not in {"call_module", "get_attr"} for each in behind) and (
        sum(each.op == "placeholder" for each in behind) == 1
    )


def nodes_behind(nodes: Iterable[Node]) -> set[Node]:
    """Return all nodes that some nodes follow from, and these themselves."""
    found, todo = set[Node](), list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return found


def is_of_batch(failure: ShapeFailure, root: nn.Module, shapes: list[torch.Size]) -> bool:
    """Return whether one of two sizes is that of the batch and the other a layer's, or such a one as often as that."""
    sizes = misfit(failure.node, root)
    if len(sizes) != 2:
        return False
    made, wanted = sizes
    if made.size == BATCH * wanted.size:
        # The batch itself comes to where a single channel was, if that is left out.
        is_row = not (made.of_layer or made.is_of_batch)
        return wanted.of_layer and is_row and all(map(is_of_pictures, shapes))
    batch, other = sizes if made.size == BATCH else (wanted, made)
    is_so = batch.size == BATCH and not batch.of_layer and other.of_layer
    return is_so and are_of_two_sizes(str(failure.error))


def is_of_none(failure: ShapeFailure) -> bool:
    """Return whether a node fails since it is given None for a tensor, and nothing else."""
    return isinstance(failure.error, TypeError) and not failure.inputs and "NoneType" in str(failure.error)


def is_of_kinds(failure: ShapeFailure) -> bool:
    """Return whether a node fails since what the model itself has computed is of another kind than it takes."""
    used = failure.node.all_input_nodes
    computed = bool(used) and all(each.op not in {"placeholder", "get_attr"} for each in used)
    is_so = computed and isinstance(failure.error, TypeError) and not failure.needs_data
    return is_so or is_of_none(failure)


def used_by_default(graph: Graph) -> frozenset[str]:
    """Return the inputs that a graph computes with, and in whose place a call without them has None."""
    optional = (node for node in graph.nodes if node.op == "placeholder" and node.users and node.args[:1] == (None,))
    return frozenset(str(node.target) for node in optional)
