"""A graph is cut into stages that work at the same time, each on another part of the batch.

``split_into_stages`` cuts the graph, in its order, where the slowest stage is as fast as it can be, and makes each
stage a submodule. The ``Pipeline`` that it returns gives each stage a thread: while the second stage works on the first
micro-batch, the first one works on the second. Threads do, since torch's operators do not hold Python's lock.

What a node costs is the caller's knowledge: ``cost_analysis`` estimates it, ``profiling`` measures it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.node import Node
from fxengine.passes.split_module import split_module

__all__ = ["Pipeline", "Stage", "split_into_stages"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a graph that one thread runs.

    Attributes:
        name: The name of the submodule that computes it.
        nodes: The names of the original calls in it.
        weight: What they cost together, in the unit of the weights that were given.
    """

    name: str
    nodes: tuple[str, ...]
    weight: float


class Pipeline:
    """Runs the stages of a graph at the same time.

    Stages see micro-batches in their order, one at a time. Whether gradients are recorded, and inference mode, are
    those of the caller.

    Invariants:
        The result is that of the graph on each micro-batch, whatever the threads do.

    Attributes:
        module: The graph of the stages: a module that calls one submodule after the other.
        stages: The stages, in order.
    """

    def __init__(self, module: GraphModule, stages: tuple[Stage, ...]) -> None:
        self.module = module
        self.stages = stages
        self._segments = _segments(module, len(stages))

    @property
    def balance(self) -> float:
        """How even the stages are: the mean of their weights by the largest, 1 at best."""
        weights = [stage.weight for stage in self.stages]
        return sum(weights) / len(weights) / max(weights) if max(weights) else 1.0

    @property
    def ideal_speedup(self) -> float:
        """How much more than one stage after the other gets done, if weights are right and cores free."""
        return self.balance * len(self.stages)

    def __call__(self, *args: Any, micro_batches: int | None = None) -> Any:
        """Return what the graph returns for ``args``, computed in parts along the first dimension.

        Args:
            *args: The graph's inputs. Tensors that have a first dimension are cut, all else goes to every part.
            micro_batches: How many parts; by default four for each stage, so that few stages wait for long.

        Raises:
            ValueError: Tensors disagree in their first dimension, or the result has a tensor without one.
            Exception: Whatever an operator raises.
        """
        parts = _cut(args, micro_batches or 4 * len(self.stages))
        return _joined(list(self.stream(parts)))

    def stream(self, batches: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield what the graph returns for each of ``batches``, in order.

        About two batches a stage are under way at once; more are taken from ``batches`` as results are taken.

        Args:
            batches: The positional arguments of each call.

        Raises:
            Exception: Whatever an operator raises, when its batch's turn comes.
        """
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        under_way: deque[Future[_Env]] = deque()
        with ExitStack() as stack:
            workers = [stack.enter_context(ThreadPoolExecutor(1, "stage")) for _ in self._segments]
            stack.callback(lambda: [future.cancel() for future in under_way])
            for batch in batches:
                under_way.append(self._start(workers, batch, modes))
                if len(under_way) > 2 * len(workers):
                    yield under_way.popleft().result()[None]
            while under_way:
                yield under_way.popleft().result()[None]

    def _start(
        self, workers: list[ThreadPoolExecutor], batch: tuple[Any, ...], modes: tuple[bool, bool]
    ) -> "Future[_Env]":
        """Queue a batch for all stages and return what the last one will have."""
        future: Future[_Env] = Future()
        future.set_result({None: batch})
        for worker, segment in zip(workers, self._segments, strict=True):
            future = worker.submit(segment.run_next, future, modes)
        return future


_Env = dict[Node | None, Any]
"""The values of a micro-batch that are still needed; under None first what the graph is given, then what it returns."""


class _Segment(Interpreter):
    """The nodes of one stage: the call of its submodule, and what passes values around."""

    def __init__(self, module: GraphModule, nodes: list[Node]) -> None:
        super().__init__(module)
        self._nodes = nodes

    def run_next(self, before: "Future[_Env]", modes: tuple[bool, bool]) -> _Env:
        """Wait for the stage before and return its values and this stage's."""
        env = before.result()
        recording, inference = modes
        with torch.inference_mode(inference), torch.set_grad_enabled(recording):
            self.args_iter = iter(env.pop(None, ()))
            self.env = env  # type: ignore[assignment] - the result is kept in it as well, under None.
            for node in self._nodes:
                if node not in env:
                    env[node] = self.run_node(node)
                for dead in self.user_to_last_uses.get(node, ()):
                    del env[dead]
                if node.op == "output":
                    env[None] = env.pop(node)
        return env


def split_into_stages(module: GraphModule, weights: Mapping[Node, float], count: int) -> Pipeline:
    """Return ``module`` cut into at most ``count`` stages whose largest weight is as small as it can be.

    Args:
        module: The graph; not changed. Its submodules and parameters are shared.
        weights: What each call costs, such as ``CostAnalysis.roofline(...).by_node``; nothing if it is not in there.
        count: The most stages. There are fewer where a single call outweighs the rest.

    Raises:
        ValueError: There is nothing to cut: no call, or no stage.
    """
    calls = [node for node in module.graph.nodes if node.op.startswith("call")]
    if count < 1 or not calls:
        raise ValueError(f"{len(calls)} calls cannot be cut into {count} stages")
    groups = _balanced([weights.get(node, 0.0) for node in calls], count)
    number_of = {calls[place]: number for number, group in enumerate(groups) for place in group}
    split = split_module(module, module, number_of.__getitem__, keep_original_order=True)
    stages = tuple(
        Stage(
            f"submod_{number}",
            tuple(calls[place].name for place in group),
            sum(weights.get(calls[place], 0.0) for place in group),
        )
        for number, group in enumerate(groups)
    )
    return Pipeline(split.train(module.training), stages)


def _balanced(weights: list[float], count: int) -> list[range]:
    """Return at most ``count`` ranges that cover ``weights``, with the smallest largest sum.

    With a limit for the sum it is clear how many ranges are needed, so the limit is searched for.
    """
    low, high = max(weights), sum(weights)
    for _ in range(60):
        limit = (low + high) / 2
        if len(_ranges(weights, limit)) <= count:
            high = limit
        else:
            low = limit
    return _ranges(weights, high)


def _ranges(weights: list[float], limit: float) -> list[range]:
    """Return ranges that cover ``weights``, each as long as its sum stays within ``limit``."""
    ranges: list[range] = []
    begin, total = 0, 0.0
    for place, weight in enumerate(weights):
        if total + weight > limit and place > begin:
            ranges.append(range(begin, place))
            begin, total = place, 0.0
        total += weight
    return [*ranges, range(begin, len(weights))]


def _segments(module: GraphModule, count: int) -> list[_Segment]:
    """Return the nodes of each stage: all up to the call of its submodule, and to the end for the last."""
    groups: list[list[Node]] = [[]]
    for node in module.graph.nodes:
        groups[-1].append(node)
        if node.op == "call_module" and len(groups) < count:
            groups.append([])
    return [_Segment(module, nodes) for nodes in groups]


def _cut(args: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """Return the arguments of each micro-batch."""
    leaves, spec = pytree.tree_flatten(args)
    sizes = {leaf.shape[0] for leaf in leaves if _has_rows(leaf)}
    if len(sizes) != 1:
        raise ValueError(f"a batch has one size, which is the first dimension of its tensors; here: {sorted(sizes)}")
    number = max(1, min(count, sizes.pop()))
    cut = [leaf.tensor_split(number) if _has_rows(leaf) else (leaf,) * number for leaf in leaves]
    return [pytree.tree_unflatten([pieces[part] for pieces in cut], spec) for part in range(number)]


def _joined(results: list[Any]) -> Any:
    """Return the results of the micro-batches as one."""
    flat = [pytree.tree_flatten(result)[0] for result in results]
    spec = pytree.tree_flatten(results[0])[1]
    if any(isinstance(leaf, Tensor) and not leaf.dim() for leaf in flat[0]):
        raise ValueError(
            "the graph returns a tensor without a first dimension, which cannot be put together from parts"
        )
    columns = zip(*flat, strict=True)
    return pytree.tree_unflatten(
        [torch.cat(column) if isinstance(column[0], Tensor) else column[0] for column in columns], spec
    )


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0
