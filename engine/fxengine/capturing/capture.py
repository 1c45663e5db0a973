"""`capture`: a model and inputs in, a graph module with its guards out."""

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.capturing.arguments import Leaf, Parameters, leaves_of, replaced
from fxengine.capturing.clocks import patch_clocks
from fxengine.capturing.ending import close, end_with_rest
from fxengine.capturing.former import Former
from fxengine.capturing.guards import InputGuard, fact_of, in_order
from fxengine.capturing.held import Place
from fxengine.capturing.next_runs import Left, StateDependent, difference, left_behind, patch_draws, path_of, problem_of
from fxengine.capturing.outside import Outside
from fxengine.capturing.premises import Premises
from fxengine.capturing.recording import Recording
from fxengine.capturing.surroundings import patch_surroundings
from fxengine.capturing.tables import NUMBERS_OF, tables_among
from fxengine.capturing.tracer import CaptureTracer, part_at
from fxengine.capturing.unknown import DataDependent, asks_for_a_number
from fxengine.diagnosis import TracingProblem
from fxengine.errors import TraceError
from fxengine.example_inputs import Inputs, arguments_of
from fxengine.exploration.problems import Describer, Trouble, failing_site
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.hierarchy import modules_of
from fxengine.immutable_collections import immutable_dict
from fxengine.interception import call_as_torch_does, intercept_modules, leave_out_backward_hooks
from fxengine.module_snapshot import Change, Changed, Snapshot
from fxengine.node import Node
from fxengine.patching import Patches
from fxengine.running import running_tracer
from fxengine.source import ModuleSite, Origin, OriginRecord, SourceFrame, frame_at, parameter_place, resolve_trail

__all__ = ["Capture", "capture"]

_uncompiled = torch.jit.optimized_execution  # pyright: ignore[reportPrivateImportUsage] - torch documents it there.


@dataclass(frozen=True, slots=True)
class Capture:
    """What capturing gave.

    Attributes:
        graph_module: The captured model; None if the capture failed.
        graph: The graph, as far as it came. It is valid in any case.
        guards: What the graph was specialised on.
        problems: What stopped the capture, empty if nothing did.
        failing: The model as far as it came, if a function of torch or a layer raised: the call of it is the last node.
        rest: The node that stands for the rest of the run, where that depends on data; None if everything was captured
            or nothing can be done. The graph module works all the same, the rest is just not looked into.
    """

    graph_module: GraphModule | None
    graph: Graph
    guards: tuple[InputGuard, ...]
    problems: tuple[TracingProblem, ...]
    failing: GraphModule | None
    rest: Node | None
    _signature: inspect.Signature | None

    @property
    def failed(self) -> Node | None:
        """The node at which the model fails, if a function of torch or a layer raised."""
        return None if self.failing is None else self.failing.graph.output_node().all_input_nodes[0]

    def check_guards(self, inputs: Inputs) -> list[tuple[InputGuard, str]]:
        """Return the guards that other inputs violate, each with the reason; none if the graph holds for them.

        Raises:
            TypeError: The model cannot be called with these inputs.
        """
        if self._signature is None:
            return []
        args, kwargs = arguments_of(inputs)
        given = self._signature.bind(*args, **kwargs).arguments
        found = {leaf.path: leaf.value for leaf in leaves_of(given)}
        reasons = [(guard, guard.reason(found)) for guard in self.guards]
        return [(guard, reason) for guard, reason in reasons if reason]


def capture(
    root: nn.Module | Callable[..., Any],
    inputs: Inputs,
    *,
    user_paths: Collection[str] | None = None,
    may_load: bool = True,
) -> Capture:
    """Run a model once on tensors without data, and return its graph.

    Whatever follows from shapes, types and devices is decided, as in eager mode, and noted as a guard. What only data
    can tell is known for constants, parameters and buffers. Where it depends on the inputs it is a value of the graph,
    or a problem if anything is decided by it. An `assert` is none: the graph makes it, each time it runs. Where the
    numbers decide in a small table of whole numbers, such as the sizes of pictures, and nothing else would do, they
    are noted as guards too, and the graph asserts them; likewise where a buffer decides that each run changes.

    Args:
        root: A module or function. It is left as it was, but that lazy modules in it have their parameters.
        inputs: The arguments of a call: a tensor, a sequence of positional arguments, a mapping of keyword arguments,
            or a pair `(args, kwargs)`. Their data, such tables apart, are not looked at; they may lie on the meta
            device.
        user_paths: The files that the user is working on; every file that is not machinery if None.
        may_load: Whether torch may load its compiler, which takes two seconds, where data decide how large something
            is. If not, that is a problem as well, unless it is loaded.

    Returns:
        The graph module, whose parameters are those of `root`, with what it was specialised on. Whatever the model
        raises is a problem in it.

    Example:
        >>> captured = capture(torch.nn.Flatten(), torch.ones(2, 3, 4))
        >>> captured.graph_module(torch.ones(2, 3, 4)).shape
        torch.Size([2, 12])
    """
    args, kwargs = arguments_of(inputs)
    found = _captured(root, args, kwargs, user_paths, Premises(may_load))
    if _fails_by_itself(found):
        # Some code does not do as it is where it is told that it is being compiled.
        again = _captured(root, args, kwargs, user_paths, Premises(may_load, compiling=False))
        return found if _fails_by_itself(again) else again
    return found


def _captured(
    root: nn.Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    user_paths: Collection[str] | None,
    premises: Premises,
) -> Capture:
    """Capture, and once more from what only that has shown."""
    run = _Capturing(root, args, kwargs, user_paths, premises)
    found = again = run.result()
    while again.problems and run.tables & ~premises.known:
        premises = replace(premises, known=premises.known | run.tables)
        run = _Capturing(root, args, kwargs, user_paths, premises)
        again = run.result()
    if again.problems:
        return found
    if not run.variable and not run.has_drawn:
        return again
    # What each run changes, or draws, is no constant, which is known only now.
    premises = replace(premises, variable=run.variable, looks_after=run.has_drawn)
    return _Capturing(root, args, kwargs, user_paths, premises).result()


def _fails_by_itself(found: Capture) -> bool:
    """Whether the code has raised what has nothing to do with data that are missing."""
    return any(not isinstance(each.exception, TraceError) for each in found.problems)


class _Capturing:
    """One capture. Mutable.

    Attributes:
        assigned: The buffers by name to which the code assigned others of the same kind.
        tables: The inputs, as bits, whose numbers were wanted where the capture stopped, and may be taken for known.
        has_drawn: Whether random numbers were drawn that became constants, and nobody looked after it.
    """

    def __init__(
        self,
        root: nn.Module | Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        user_paths: Collection[str] | None,
        premises: Premises,
    ) -> None:
        self.assigned: dict[str, Tensor] = {}
        self._by_leaves: dict[str, Tensor] = {}
        self.tables = 0
        self.has_drawn = False
        self._premises = premises
        self._known = premises.known
        self._variable = premises.variable
        self._root = root
        self._describer = Describer(root, "forward", user_paths)
        self._function: Any = root.forward if isinstance(root, nn.Module) else root
        self._args = args
        self._kwargs = kwargs
        self._tracer = CaptureTracer()
        self._recording = self._tracer.recording = Recording(
            self._tracer,
            _device_of(root, args, kwargs),
            type(self)._attempt.__code__,
            may_load=premises.may_load,
            looks_after=premises.looks_after,
        )
        self._changed: list[Changed] | None = None
        self._changes: tuple[Change, ...] | None = None
        self._leaves: list[Leaf] = []
        self._parameters: Parameters | None = None
        self._failed: Node | None = None

    @property
    def variable(self) -> Mapping[str, Tensor]:
        """The buffers by name that the code has changed, and of which not every value is a constant therefore."""
        return {**self._recording.values.altered, **self.assigned}

    def result(self) -> Capture:
        """Run the model."""
        with Patches() as patches:
            leave_out_backward_hooks(patches, modules_of(self._root) if isinstance(self._root, nn.Module) else ())
            return self._result()

    def _result(self) -> Capture:
        outside = Outside(self._root)
        snapshot = Snapshot(self._root)
        initial = functools.cache(lambda: frozenset((*map(id, snapshot.tensors()), *outside.tensors)))
        problems: tuple[TracingProblem, ...] = ()
        module = failing = rest = None
        try:
            error = self._attempt(snapshot, outside, initial)
            changes = snapshot.changes(snapshot.changed()) if self._changes is None else self._changes
            repeated = {**self._by_leaves, **(self.assigned if self._variable else {})}
            left = left_behind(snapshot, outside, self._tracer, changes, repeated)
            self.has_drawn = left.drawn and not self._premises.looks_after
            if error is not None:
                problems = (self._problem(error),)
                if isinstance(error, DataDependent):
                    self.tables = tables_among(self._leaves, error.sources)
            elif left and not (self.variable and not self._variable) and not self.has_drawn:
                problems = self._differences(left, initial(), repeated, outside)
                self._changed = None  # What was run once more has gone on from there.
            if problems and isinstance(problems[0].exception, DataDependent | StateDependent):
                known = partial(_is_as_it_was, snapshot, outside, self._recording.values.was_read)
                rest = self._rest(self._parameters, problems[0], left, known)
            elif problems:
                close(self._tracer.graph)
            if not problems or rest is not None:
                module = self._graph_module()
            elif self._failed is not None:
                failing = self._graph_module()
        finally:
            snapshot.restore(self._changed)
            outside.restore()
        signature = None if self._parameters is None else self._parameters.signature
        return Capture(module, self._tracer.graph, self._guards(), problems, failing, rest, signature)

    def _attempt(
        self,
        snapshot: Snapshot,
        outside: Outside,
        initial: Callable[[], frozenset[int]],
        draw: float | None = None,
    ) -> BaseException | None:
        """Run the model, and return what ends that before its end."""
        tracer = self._tracer
        tracer._enter_root(self._root)
        tracer._records_plainly = True
        tracer.know(outside.tensors)
        self._recording.generators = outside.generators
        self._recording.values.initial = initial
        token = running_tracer.set(tracer)
        try:
            # What is scripted is not compiled: there is no data for it.
            with Patches() as patches, _eagerly(), _uncompiled(False):
                tracer._patches = patches
                intercept_modules(patches)
                patch_surroundings(patches, compiling=self._premises.compiling)
                patch_clocks(patches, self._root)
                if draw is not None:
                    patch_draws(patches, draw)
                self._run(snapshot)
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - the user's code raises whatever it likes.
            error = self._dependence(raised)
        else:
            error = None
        finally:
            tracer._patches = None
            running_tracer.reset(token)
        self._failed = self._recording.failed_with(error)
        return error

    def _differences(
        self, left: Left, initial: frozenset[int], repeated: Mapping[str, Tensor], around: Outside
    ) -> tuple[TracingProblem, ...]:
        """What later runs do otherwise, as problems; in place of those `repeated` a run of the graph has no others.

        What the code `around` the model remembers may have been drawn, and would be drawn otherwise another time.
        """
        if left.draws:
            around.forget()
        outside = Outside(self._root)

        def put_back() -> None:
            for path, tensor in repeated.items():
                owner, _, attribute = path.rpartition(".")
                _put(part_at(self._tracer.root, owner), attribute, tensor)

        put_back()
        premises = replace(self._premises, variable={**self._variable, **self._rewritten()})

        def capture_next(former: Former, draw: float | None) -> tuple[CaptureTracer, TracingProblem | None]:
            following = _Capturing(self._root, self._args, self._kwargs, self._describer.user_paths, premises)
            following._recording.values.former = former
            error = following._attempt(Snapshot(self._root), outside, lambda: initial, draw)
            put_back()
            return following._tracer, None if error is None else following._problem(error)

        found = difference(left, self._tracer, initial, capture_next)
        return () if found is None else (problem_of(left, found, self._describer),)

    def _rewritten(self) -> dict[str, Tensor]:
        """The buffers by name that the graph changes in place, so that a later run finds other data in them."""
        values = self._recording.values
        named = self._root.named_buffers() if isinstance(self._root, nn.Module) else ()
        return {name: each for name, each in named if name not in self.assigned and values.is_variable(each)}

    def _dependence(self, error: BaseException) -> BaseException:
        """The error itself, or what it comes from: code wanted to see a number that only data can tell."""
        unknown = self._recording.values.unknown
        if unknown is None or isinstance(error, TraceError) or not asks_for_a_number(error):
            return error
        text = "what is decided here follows from a number that depends on the inputs, and only data can tell it"
        found = DataDependent(text).with_traceback(error.__traceback__)
        found.__cause__ = error
        found.sources = unknown.sources
        return found

    def _run(self, snapshot: Snapshot) -> None:
        tracer, root = self._tracer, self._root
        is_module = isinstance(root, nn.Module)
        site = ModuleSite("", type(root) if is_module else None, None, ())
        tracer._site = site
        args, kwargs = self._inputs(site)
        for tensor in self._variable.values():
            self._recording.values.hold(tensor).constant = False
        called = _call_of(root) if is_module else self._function
        if isinstance(root, nn.Module):
            self._recording.first_run(root, args, kwargs)
        output = tracer.capture(called, (root, *args) if is_module else args, kwargs, site)
        swallowed = self._recording.refusals.swallowed()
        if swallowed is not None:  # Eager mode would not have gone the way that the code went then.
            raise swallowed
        tracer._site = site
        self._changed = snapshot.changed()
        self._changes = snapshot.changes(self._changed)
        self._write_back(self._changes)
        self._recording.end()
        tracer.create_node("output", "output", (tracer.create_arg(output),), {})

    def _write_back(self, changes: Iterable[Change]) -> None:
        """Let the graph change the tensors in whose place the code has put others, so that the next run reads that."""
        values = self._recording.values
        for change in changes:
            before, after, name = change.before, change.after, path_of(change)
            if not isinstance(before, Tensor) or not isinstance(after, Tensor) or isinstance(before, nn.Parameter):
                continue
            if after is before or after.shape != before.shape or after.dtype is not before.dtype or before.grad_fn:
                continue
            if values.stands_for(after, before):  # A leaf has assigned to it, and does so in each run.
                self._by_leaves[name] = before
                continue
            if change.name not in change.module._buffers and not values.is_variable(after):
                continue
            if id(after) in values.initial():  # Two of the model's own are one from now on, or change places.
                continue
            self.assigned[name] = before
            if name in self._variable:
                used = self._tracer.create_node("get_attr", self._tracer.own_name(name), (), {}), values.node_of(after)
                values.append("call_method", "copy_", used, immutable_dict(), "copy_", used)

    def _inputs(self, site: ModuleSite) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make the placeholders, and return the arguments with tensors without data."""
        parameters = self._parameters = Parameters(self._function, self._args, self._kwargs)
        given = parameters.given
        self._leaves = leaves_of(given)
        bits = {leaf.path: 1 << index for index, leaf in enumerate(self._leaves)}
        code = getattr(inspect.unwrap(self._function), "__code__", None)
        tables: list[tuple[str, Tensor]] = []

        def taken(path: tuple[Any, ...], expression: str, tensor: Tensor, place: Place) -> Tensor:
            values, bit = self._recording.values, bits[path]
            if not bit & self._known:
                return values.add(tensor, place, bit)
            tables.append((expression, values.add_known(tensor, place, bit)))
            return tables[-1][1]

        for name, target, default in parameters.placeholders():
            node = self._tracer.create_node("placeholder", target, default, {}, name)
            if code is not None:
                node._origin = OriginRecord((site, (code, parameter_place(code, name))))
            if name in given:
                given[name] = replaced(given[name], Place(node), name, taken)
        for expression, tensor in tables:
            self._recording.values.hold_for(tensor, f"the graph holds for {expression} == {tensor.tolist()}")
        bound = parameters.signature.bind_partial()
        bound.arguments.update(given)
        return bound.args, bound.kwargs

    def _rest(
        self, parameters: Parameters | None, stopped: TracingProblem, left: Left, is_as_it_was: Callable[[], bool]
    ) -> Node | None:
        """Let the model's own code do what depends on data from that problem on, if anything was run."""
        if parameters is None:
            return None
        return end_with_rest(
            self._tracer,
            self._root,
            parameters,
            Origin(stopped.frames, stopped.module_path, stopped.module_type),
            # What was changed already must not be changed twice, nor numbers be drawn twice; and a later run may do
            # something else from the beginning.
            from_beginning=self._recording.values.changed or self.has_drawn or bool(left),
            is_as_it_was=is_as_it_was,
        )

    def _graph_module(self) -> GraphModule:
        root = self._root
        self._tracer.restore_state()
        name = type(root).__name__ if isinstance(root, nn.Module) else getattr(root, "__name__", "captured")
        module = GraphModule(self._tracer.root, self._tracer.graph, name)
        used = {node.target for node in self._tracer.graph.nodes if node.op == "get_attr"}
        for name in used.intersection(map(self._tracer.own_name, self._variable.keys() & self.assigned.keys())):
            # The model would have another tensor after each run; that of the graph module changes, and is its own.
            owner, _, attribute = str(name).rpartition(".")
            buffers = module.get_submodule(owner)._buffers
            if (kept := buffers.get(attribute)) is not None:
                buffers[attribute] = kept.clone()
        return module

    def _problem(self, error: BaseException) -> TracingProblem:
        tracer = self._tracer
        trouble = Trouble(error, tracer.refusals, tracer.graph, failing_site(tracer, error))
        return self._describer.problem(trouble, trouble.verdict)

    def _asked(self) -> dict[tuple[int, str], SourceFrame | None]:
        """What was asked of which input that is a tensor, and where first."""
        asked: dict[tuple[int, str], SourceFrame | None] = {}
        for sources, kind, trail in self._recording.questions():
            frame = next(iter(resolve_trail(trail[:2])), None)
            for index, leaf in enumerate(self._leaves):
                if sources >> index & 1 and isinstance(leaf.value, Tensor):
                    asked.setdefault((index, in_order(kind, leaf.value.dim())), frame)
        return asked

    def _guards(self) -> tuple[InputGuard, ...]:
        """What was asked of tensors, and what other inputs were."""
        asked = self._asked()
        code = getattr(inspect.unwrap(self._function), "__code__", None)
        guards: list[InputGuard] = []
        for index, leaf in enumerate(self._leaves):
            if not isinstance(leaf.value, Tensor):
                frame = None if code is None else frame_at(code, parameter_place(code, str(leaf.path[0])))
                guards.append(InputGuard(leaf.expression, leaf.value, frame, leaf.path, ""))
                continue
            if self._known >> index & 1:
                frame = None if code is None else frame_at(code, parameter_place(code, str(leaf.path[0])))
                numbers = fact_of(leaf.value, NUMBERS_OF)
                guards.append(InputGuard(f"{leaf.expression}.{NUMBERS_OF}", numbers, frame, leaf.path, NUMBERS_OF))
            for (asked_index, kind), frame in asked.items():
                is_part = kind == "ndim" or kind.startswith("shape[")
                if asked_index == index and not (is_part and (index, "shape") in asked):
                    value = fact_of(leaf.value, kind)
                    guards.append(InputGuard(f"{leaf.expression}.{kind}", value, frame, leaf.path, kind))
        return tuple(guards)


def _device_of(root: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Where the inputs lie, or else the model; tensors without data are taken for the processor's."""
    leaves = pytree.tree_leaves((args, kwargs))
    parameters = root.parameters() if isinstance(root, nn.Module) else ()
    for value in (*leaves, *(each for each in parameters)):
        if isinstance(value, Tensor) and not value.is_meta:
            return value.device
    return torch.device("cpu")


def _is_as_it_was(snapshot: Snapshot, outside: Outside, read: Container[int]) -> bool:
    """Whether a model, and what lies around it, is what it was when both were made; of data only what was `read`."""
    if outside.changed() or outside.has_moved_generators():
        return False
    changes = snapshot.changes(snapshot.changed())
    return all(each.kind == "data" and id(each.after) not in read for each in changes)


def _call_of(root: nn.Module) -> Callable[..., Any]:
    """Return what calls a module: its class may prepare the arguments in a `__call__` of its own."""
    own = next(vars(cls)["__call__"] for cls in type(root).__mro__ if "__call__" in vars(cls))
    return call_as_torch_does if own is vars(nn.Module)["__call__"] else own


def _eagerly() -> AbstractContextManager[object]:
    """Run what is compiled as it is written; where torch's compiler was never loaded nothing is, and that is slow."""
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _put(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Give a module a tensor where it has one of that name, registered or not."""
    attributes = vars(module)
    for kept in (attributes["_buffers"], attributes):
        if name in kept:
            kept[name] = tensor
