"""Runs a graph on a device and measures each node, and the whole model beside it.

The three things that are compared (the original module, the graph's generated code, the graph node by node) take
turns in rounds, so that a machine that grows slower or faster meanwhile does not favour one. A node's time is that
of its call alone: arguments are fetched and submodules looked up before the clock starts, and what reading the
clock costs is measured and taken off.

An accelerator works while its host goes on. A node's time is the device's there: it is kept busy until the host has
put the whole call into its queue, so that no time passes between two marks in which it only waits to be told. What the
host needed for the call is measured beside it.
"""

import inspect
import platform
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxengine.evaluation import evaluate, has_own_train
from fxengine.graph_module import GraphModule
from fxengine.inputs import InferredInputs, materialize
from fxengine.interpreter import Interpreter
from fxengine.names import dtype_abbreviation
from fxengine.node import Node
from fxengine.passes.cost import Cost, graph_costs
from fxengine.passes.shape_prop import describe
from fxengine.profiling.comparison import compare
from fxengine.profiling.devices import (
    Clock,
    Peak,
    best_of,
    busy_processors,
    calibrate,
    clock_for,
    current,
    describe_device,
    synchronize,
)
from fxengine.profiling.results import Environment, NodeProfile, Place, ProfileResult, Timing

__all__ = ["ProfileCancelled", "ProfileOptions", "Progress", "profile"]

_TIMED = frozenset({"call_function", "call_method", "call_module"})

_MULTIPLIED = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})

_AHEAD = 2.0
"""So many times as long as the host needs for a call the device is kept busy before it."""

_AT_LEAST, _AT_MOST = 3e-5, 5e-3
"""The fewest and most seconds of that: a call that waits for the device takes as long as it is kept busy."""


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How a profile is made.

    Attributes:
        warmup_limit: The most rounds before measuring; it begins as soon as two that follow each other agree.
        repeats: The fewest rounds that are measured.
        repeat_limit: The most.
        tolerance: The relative standard error of the whole at which measuring ends, and the difference that two
            rounds of
            the warm-up may have.
        seconds: The time that measuring may take in all; the fewest rounds are made whatever they take.
        training: Measure in training mode, without a backward pass.
        threads: Threads for the CPU; by default as many as torch uses.
        seed: The seed of the random inputs.
        calibrate: Measure the device's peaks, about 0.3 s.
    """

    warmup_limit: int = 20
    repeats: int = 5
    repeat_limit: int = 200
    tolerance: float = 0.01
    seconds: float = 10.0
    training: bool = False
    threads: int | None = None
    seed: int = 0
    calibrate: bool = True


class ProfileCancelled(Exception):  # noqa: N818 - no error: somebody wanted it so.
    """The profile was given up since ``progress`` said so."""


class Progress(Protocol):
    """Is told how far a profile has come, between runs."""

    def __call__(self, fraction: float, message: str) -> bool | None:
        """Take note; return False to give the profile up."""
        ...


def profile(
    graph_module: GraphModule,
    original: nn.Module | Callable[..., Any],
    inputs: InferredInputs | Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    options: ProfileOptions | None = None,
    progress: Progress | None = None,
    previous: ProfileResult | None = None,
) -> ProfileResult:
    """Return how long the model and each node of its graph take on ``device``, and what they need.

    Both modules are moved to the device and stay there. They run in evaluation mode without gradients unless the
    options say otherwise; their own modes are put back.

    Args:
        graph_module: The captured model.
        original: What it was captured from, sharing its parameters.
        inputs: Inferred inputs, or positional arguments.
        kwargs: Keyword arguments, where ``inputs`` are positional ones.
        device: Where to run.
        options: How to measure.
        progress: Told how far it has come; may give up.
        previous: An earlier profile to compare with.

    Raises:
        ProfileCancelled: ``progress`` returned False.
        ValueError: The model has no data as it was built on meta.
        Exception: Whatever the model raises on these inputs.
    """
    place = torch.device(device)
    chosen = options or ProfileOptions()
    for module in (graph_module, original):
        if isinstance(module, nn.Module):
            _move(module, place)
    args, named = arguments_on(place, inputs, kwargs or {}, chosen.seed)
    with current(place), _conditions((graph_module, original), chosen):
        session = _Session(graph_module, original, args, named, place, chosen, progress)
        result = session.measure()
    return result if previous is None else compare(result, previous)


def bind_placeholders(
    module: GraphModule,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    original: nn.Module | Callable[..., Any] | None = None,
) -> tuple[Any, ...]:
    """Return the values of the graph's placeholders, in their order, for a call with these arguments.

    Args:
        module: What has the graph.
        args: The arguments by position.
        kwargs: Those by name.
        original: What was traced, if that is known: a graph has parameters that are given by name before `*args`.

    Raises:
        TypeError: A placeholder gets no value, or an argument no placeholder.
    """
    only_by_name = _only_by_name(original)
    rest = list(args)
    named = dict(kwargs)
    values: list[Any] = []
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        name = str(node.target)
        if name.startswith("**"):
            values.append(named)
            named = {}
        elif name.startswith("*"):
            values += rest
            rest = []
        elif rest and name not in only_by_name:
            values.append(rest.pop(0))
        elif name in named:
            values.append(named.pop(name))
        elif node.args:
            values.append(node.args[0])
        else:
            raise TypeError(f"no value for the input `{name}`")
    if rest or named:
        raise TypeError(
            f"the graph takes {len(values)} inputs; too much: {len(rest)} and {', '.join(named) or 'no names'}"
        )
    return tuple(values)


def _only_by_name(original: nn.Module | Callable[..., Any] | None) -> frozenset[str]:
    """The parameters that are given by name alone, as far as that is known."""
    try:
        found = inspect.signature(original.forward if isinstance(original, nn.Module) else original)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(name for name, each in found.parameters.items() if each.kind is each.KEYWORD_ONLY)


class _TimingInterpreter(Interpreter):
    """Runs a graph with a mark before and after each call.

    Attributes:
        order: The nodes that were called in the last run.
        host: The seconds that the host needed for each of them then, its queue being full or not.
    """

    def __init__(self, module: GraphModule, clock: Clock) -> None:
        super().__init__(module)
        self.clock = clock
        self.order: list[Node] = []
        self.host: list[float] = []
        self._holds: dict[Node, float] = {}

    def timed(self, args: tuple[Any, ...]) -> dict[Node, float]:
        """Run once and return the seconds of each node, on the device."""
        self.order = []
        self.host = []
        self.run(*args)
        spans = self.clock.read()[::2]  # Every other one lies between two nodes.
        if self.clock.holds and not self._holds:
            needed = zip(self.order, self.host, strict=True)
            self._holds = {node: min(max(_AHEAD * seconds, _AT_LEAST), _AT_MOST) for node, seconds in needed}
        return dict(zip(self.order, spans, strict=True))

    def run_node(self, n: Node) -> Any:
        """Execute ``n`` with nothing but the call between two marks."""
        if n.op not in _TIMED:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        mark = self.clock.mark
        self.order.append(n)
        if n.op == "call_function":
            call: Any = n.target
        elif n.op == "call_module":
            call = self.fetch_attr(str(n.target))
        else:
            call = getattr(args[0], str(n.target))
            args = args[1:]
        self.clock.hold(self._holds.get(n, 0.0))
        mark()
        start = time.perf_counter()
        result = call(*args, **kwargs)
        self.host.append(time.perf_counter() - start)
        mark()
        return result


class _MemoryInterpreter(Interpreter):
    """Runs a graph once and notes how many bytes of values are alive after each node."""

    def __init__(self, module: GraphModule, inputs: tuple[Any, ...]) -> None:
        super().__init__(module)
        self._inputs = inputs
        self.alive: dict[Node, int] = {}
        self.results: dict[Node, str] = {}
        state = (*module.parameters(), *module.buffers())
        self._state = {tensor.untyped_storage().data_ptr() for tensor in state}

    def run_node(self, n: Node) -> Any:
        """Execute ``n``, then add up the distinct storages that are reachable; the caller holds the inputs."""
        result = super().run_node(n)
        self.results[n] = describe(result)
        storages: dict[int, int] = {}
        for leaf in pytree.tree_leaves((self._inputs, list(self.env.values()), result)):
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
                storage = leaf.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
        self.alive[n] = sum(size for pointer, size in storages.items() if pointer not in self._state)
        return result


@dataclass(frozen=True, slots=True)
class _Round:
    """The times of one round, in seconds; those of the nodes on the device and on its host."""

    eager: float
    graph: float
    nodes: dict[Node, float]
    host: dict[Node, float]


class _Session:
    def __init__(
        self,
        graph_module: GraphModule,
        original: nn.Module | Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        device: torch.device,
        options: ProfileOptions,
        progress: Progress | None,
    ) -> None:
        self.graph_module = graph_module
        self.original = original
        self.args = args
        self.kwargs = kwargs
        self.placed = bind_placeholders(graph_module, args, kwargs, original)
        self.device = device
        self.options = options
        self.progress = progress
        self.dtype = _data_type(graph_module)
        self.clock = clock_for(device)
        self.timer = _TimingInterpreter(graph_module, self.clock)
        self.busy = busy_processors()
        self.started = time.strftime("%Y-%m-%d %H:%M:%S")

    def measure(self) -> ProfileResult:
        """Make the rounds and put the result together."""
        self._report(0.0, "calibrating")
        peak = calibrate(self.device, self.dtype) if self.options.calibrate else Peak(0.0, 0.0)
        costs = graph_costs(self.graph_module, self.placed)
        warmups = self._warm_up()
        memory = _MemoryInterpreter(self.graph_module, self.placed)
        memory.run(*self.placed)
        rounds, stable = self._rounds()
        if self.options.calibrate:
            peak = best_of(peak, calibrate(self.device, self.dtype))  # Before and after: other programs come and go.
        return self._result(rounds, stable, warmups, memory, costs, peak)

    def _warm_up(self) -> int:
        """Run rounds until two that follow each other agree, and return how many that took."""
        last = self._round().graph  # In this one the device waits for its host, which shows how long that needs.
        end = time.perf_counter() + self.options.seconds / 3
        for count in range(2, self.options.warmup_limit + 1):
            self._report(0.1, f"warming up, run {count}")
            now = self._round().graph
            if abs(now - last) <= self.options.tolerance * last or time.perf_counter() > end:
                return count
            last = now
        return self.options.warmup_limit

    def _rounds(self) -> tuple[list[_Round], bool]:
        """Return the measured rounds and whether they agree within the tolerance."""
        options = self.options
        rounds: list[_Round] = []
        start = time.perf_counter()
        while True:
            rounds.append(self._round())
            spent = (time.perf_counter() - start) / options.seconds
            stable = _timing([one.graph for one in rounds]).error <= options.tolerance * rounds[-1].graph
            fraction = max(min(spent, 1.0), len(rounds) / options.repeat_limit)
            self._report(0.2 + 0.8 * fraction, f"measuring, run {len(rounds)}")
            if len(rounds) < options.repeats:
                continue
            if stable or spent >= 1.0 or len(rounds) >= options.repeat_limit:
                return rounds, stable

    def _round(self) -> _Round:
        eager = self._whole(lambda: self.original(*self.args, **self.kwargs))
        graph = self._whole(lambda: self.graph_module(*self.args, **self.kwargs))
        synchronize(self.device)
        nodes = self.timer.timed(self.placed)
        return _Round(eager, graph, nodes, dict(zip(self.timer.order, self.timer.host, strict=True)))

    def _whole(self, call: Callable[[], Any]) -> float:
        synchronize(self.device)
        start = time.perf_counter()
        call()
        synchronize(self.device)
        return time.perf_counter() - start

    def _report(self, fraction: float, message: str) -> None:
        if self.progress is not None and self.progress(fraction, message) is False:
            raise ProfileCancelled

    def _result(
        self,
        rounds: list[_Round],
        stable: bool,
        warmups: int,
        memory: _MemoryInterpreter,
        costs: Mapping[Node, Cost],
        peak: Peak,
    ) -> ProfileResult:
        eager = _timing([one.eager for one in rounds])
        graph = _timing([one.graph for one in rounds])
        overhead = _mark_overhead(self.clock)
        nodes: list[NodeProfile] = []
        for node in rounds[0].nodes:
            timing = _timing([max(0.0, one.nodes[node] - overhead) for one in rounds])
            host = statistics.median(one.host[node] for one in rounds) if self.clock.holds else None
            cost = costs.get(node, Cost())
            nodes.append(_node_profile(node, timing, host, graph.seconds, cost, memory))
        peak_node = max(range(len(nodes)), key=lambda index: nodes[index].memory, default=-1)
        state = {id(tensor): tensor for tensor in (*self.graph_module.parameters(), *self.graph_module.buffers())}
        return ProfileResult(
            model=type(self.original).__name__ if isinstance(self.original, nn.Module) else self.original.__name__,
            inputs=self._inputs(),
            environment=self._environment(peak),
            warmups=warmups,
            spread=graph.error / graph.seconds,
            stable=stable,
            eager=eager,
            graph=graph,
            explained=sum(node.timing.seconds for node in nodes) / graph.seconds,
            parameter_bytes=sum(tensor.numel() * tensor.element_size() for tensor in state.values()),
            peak_memory=max(memory.alive.values(), default=0),
            peak_node=peak_node,
            nodes=tuple(nodes),
        )

    def _inputs(self) -> str:
        names = [str(node.target) for node in self.graph_module.graph.nodes if node.op == "placeholder"]
        return ", ".join(f"{name} {describe(value)}" for name, value in zip(names, self.placed, strict=False))

    def _environment(self, peak: Peak) -> Environment:
        info = describe_device(self.device)
        return Environment(
            device=info.device,
            device_name=info.name,
            threads=info.threads,
            peak_flops=peak.flops,
            peak_bandwidth=peak.bandwidth,
            dtype=dtype_abbreviation(self.dtype),
            training=self.options.training,
            busy=self.busy,
            torch=torch.__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            started=self.started,
        )


def _node_profile(
    node: Node, timing: Timing, host: float | None, whole: float, cost: Cost, memory: _MemoryInterpreter
) -> NodeProfile:
    origin = node.origin
    path = str(node.target) if node.op == "call_module" else (origin.module_path if origin is not None else "")
    return NodeProfile(
        name=node.name,
        op=node.op,
        target=node.target if isinstance(node.target, str) else getattr(node.target, "__name__", repr(node.target)),
        module_path=path,
        place=_place(node),
        result=memory.results.get(node, ""),
        timing=timing,
        host=host,
        share=timing.seconds / whole if whole else 0.0,
        flops=cost.flops,
        bytes=cost.bytes,
        memory=memory.alive.get(node, 0),
    )


def _place(node: Node) -> Place | None:
    """Return the innermost expression of the user's that made ``node``."""
    if node.origin is None or not node.origin.frames:
        return None
    frame = node.origin.frames[-1]
    text = " ".join(frame.text.split())
    return Place(frame.path, frame.function, frame.line, frame.column, frame.end_line, frame.end_column, text)


def _timing(samples: Sequence[float]) -> Timing:
    """Return median and its standard error: 1.2533 deviations / √n; a deviation is 1.4826 median absolute ones."""
    median = statistics.median(samples)
    deviation = statistics.median(abs(sample - median) for sample in samples)
    return Timing(median, 1.2533 * 1.4826 * deviation / len(samples) ** 0.5, len(samples))


def _mark_overhead(clock: Clock) -> float:
    """Return the seconds between two marks with nothing between them."""
    clock.hold(_AT_MOST)
    for _ in range(101):
        clock.mark()
    return statistics.median(clock.read())


def _move(module: nn.Module, device: torch.device) -> None:
    """Bring a module to ``device``.

    Raises:
        ValueError: It has no data to bring.
    """
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        raise ValueError("the model was built on meta and has no data: build it on the CPU to profile it")
    module.to(device)


def _data_type(module: nn.Module) -> torch.dtype:
    """Return the type of most parameters, which a device multiplies, or else torch's default."""
    counts: dict[torch.dtype, int] = {}
    for tensor in module.parameters():
        if tensor.dtype in _MULTIPLIED:
            counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.numel()
    return max(counts, key=counts.__getitem__, default=torch.get_default_dtype())


def arguments_on(
    device: torch.device, inputs: InferredInputs | Sequence[Any], kwargs: Mapping[str, Any], seed: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments with their tensors on ``device``."""
    if isinstance(inputs, InferredInputs):
        return materialize(inputs, device, seed)
    moved = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (tuple(inputs), dict(kwargs)))
    return moved[0], moved[1]


@contextmanager
def _conditions(modules: tuple[Any, ...], options: ProfileOptions) -> Generator[None]:
    """Set mode, gradients and threads for the time of a profile."""
    parts = [part for module in modules if isinstance(module, nn.Module) for part in module.modules()]
    modes = [(part, part.training) for part in parts]
    threads = torch.get_num_threads()
    if options.training:
        for part in parts:
            part.training = True
    else:
        evaluate(parts)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        for part, mode in modes:
            if mode and has_own_train(part):
                with suppress(Exception):  # It takes away what it has made ready.
                    part.train()
        for part, mode in modes:
            part.training = mode
