"""FX302, FX303 and half of FX307: what user code does on real values while it is traced, once and for all.

A constructor that is given nothing symbolic makes its tensor at once, a draw gives its numbers, an in-place operation
on a buffer changes it, and of all that the graph has the result. Whether there is any of it shows in what the run left
behind: constants in the graph, generators that have moved on, buffers with other data. Only then the model is walked
through again to see where it happens.
"""

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import nn

from fxengine.diagnosis import TracingProblem
from fxengine.errors import EmbeddedConstructor, EmbeddedDraw, InPlaceChange
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.provenance import Step
from fxengine.silent.dependence import Source, levels_of, sources_of
from fxengine.silent.mutation import changed_by, root_of
from fxengine.silent.observers import Draws, Moves, RealWork, Work, is_generator
from fxengine.silent.scene import CONSTANT, Scene, shown
from fxengine.source import OriginRecord


def find(scene: Scene) -> Iterator[TracingProblem]:
    """What was made, drawn and changed for real."""
    yield from _drawn_from_own(scene)
    observation = scene.observation
    has_changed = any(change.kind == "data" for change in observation.changes)
    if not (observation.has_drawn or has_changed or any(map(_is_constant, scene.ran.nodes["get_attr"]))):
        return
    model = observation.root if isinstance(observation.root, nn.Module) else None
    real = RealWork(model)
    graph = observation.replay(real)
    if graph is None:
        return
    for work in real.works:
        match work.kind:
            case "drawn":
                yield from _drawn(scene, work.record, "the graph has the same numbers in every call")
            case "changed":
                yield from _changed(scene, work, model)
            case "made":
                continue
    yield from _made(scene, real, graph)
    if real.has_drawn_numbers:
        yield from _drawn_from(scene, ())


def _drawn_from_own(scene: Scene) -> Iterator[TracingProblem]:
    """What was drawn from generators that the model or its file has of its own."""
    generators = {id(each): each for each in scene.ran.mentioned_objects() if is_generator(each)}
    if generators:
        moves = Moves(generators.values())
        scene.observation.replay(moves)
        if moves.has_moved:
            yield from _drawn_from(scene, generators.values())


def _drawn_from(scene: Scene, generators: Collection[Any]) -> Iterator[TracingProblem]:
    draws = Draws(generators)
    scene.observation.replay(draws)
    for record in draws.records:
        yield from _drawn(scene, record, "the graph keeps what it gave")


def _drawn(scene: Scene, record: OriginRecord, kept: str) -> Iterator[TracingProblem]:
    origin = record.resolve()
    if origin.frames[-1] in scene.told:
        return
    text = shown(origin.frames[-1])
    x = scene.input_name
    yield scene.problem(
        EmbeddedDraw,
        origin,
        f"`{text}` is drawn once, while tracing: {kept}",
        (
            f"let it depend on an input: `torch.rand_like({x})`, `{x}.new_empty(…).normal_()`",
            f"draw in a top-level function marked with `@torch.fx.wrap` that is given `{x}`",
            "if it is to stay the same, draw it in `__init__` and keep it as a buffer",
        ),
    )


def _changed(scene: Scene, work: Work, model: nn.Module | None) -> Iterator[TracingProblem]:
    origin = work.record.resolve()
    text = shown(origin.frames[-1])
    buffers = model.named_buffers() if model is not None else ()
    # Its own name and not its path: the same place in several modules is one problem.
    name = next((path.rpartition(".")[2] for path, buffer in buffers if buffer is work.tensor), "")
    yield scene.problem(
        InPlaceChange,
        origin,
        f"`{text}` changes the buffer `{name}` once, while tracing: the graph does not repeat it",
        (
            f"let the change depend on an input, such as `{scene.input_name}.new_ones(())`: then it is recorded",
            *scene.keep_out(origin),
        ),
    )


def _made(scene: Scene, real: RealWork, graph: Graph) -> Iterator[TracingProblem]:
    """The constants of a graph that a constructor made, where they are not what they would be in another call."""
    tensors = {name: tensor for tensor, name in real.constants.items() if isinstance(tensor, torch.Tensor)}
    holder = scene.observation.tracer.root
    written = {
        str(constant.target): node for node in graph.nodes if (constant := _written_constant(node, holder)) is not None
    }
    fixed = frozenset(scene.observation.concrete_args or ())
    for name in dict.fromkeys(str(node.target) for node in graph.nodes if _is_constant(node)):
        if name not in tensors:
            continue
        for work in real.behind(tensors[name]):
            if work.kind != "made":
                continue
            if name in written:
                yield _problem_of_written(scene, work, written[name])
            else:
                yield from _problem_of_made(scene, work, fixed)


def _problem_of_written(scene: Scene, work: Work, writing: Node) -> TracingProblem:
    origin = work.record.resolve()
    text = shown(origin.frames[-1])
    where = writing.origin.frames[-1] if writing.origin is not None and writing.origin.frames else None
    steps = (Step(None, origin.frames[-1], text), Step(writing, where, shown(where) if where is not None else ""))
    return scene.problem(
        EmbeddedConstructor,
        origin,
        f"`{text}` is made once, while tracing, and every call writes to it: one call finds what another has left",
        _recorded_instead(scene, text),
        provenance=steps,
        severity="warning",
    )


def _problem_of_made(scene: Scene, work: Work, fixed: frozenset[str]) -> Iterator[TracingProblem]:
    origin = work.record.resolve()
    text = shown(origin.frames[-1])
    levels = levels_of(work.record)
    sources = [source for source in sources_of(levels, fixed) if source.frame not in scene.told]
    reasons = [_reason(source) for source in sources]
    call = levels[0].call if levels else None
    given_device = call is None or any(keyword.arg == "device" for keyword in call.keywords)
    if not reasons and work.tensor is not None and not given_device and work.tensor.device.type not in {"cpu", "meta"}:
        reasons = [f"it is on the default device of now, `{work.tensor.device}`"]
    if not reasons:
        return
    steps = (
        *(Step(None, source.frame, shown(source.frame)) for source in sources),
        Step(None, origin.frames[-1], text),
    )
    yield scene.problem(
        EmbeddedConstructor,
        origin,
        f"`{text}` is made once, while tracing, but {reasons[0]}",
        _recorded_instead(scene, text),
        provenance=steps,
    )


def _reason(source: Source) -> str:
    text = shown(source.frame)
    match source.kind:
        case "device":
            return f"its device follows from `{text}`"
        case "size":
            return f"it follows from `{text}`"
        case "input":
            return f"it follows from the input `{text}`, which is fixed"


def _recorded_instead(scene: Scene, text: str) -> tuple[str, ...]:
    name = text.partition("(")[0].rpartition(".")[2]
    x = scene.input_name
    same = (
        f"{x}.new_{name}(…)"
        if name in {"zeros", "ones", "empty", "full", "tensor"}
        else f"torch.{name}(…, device={x}.device)"
    )
    return (
        f"`{same}` depends on an input, so it is recorded and made anew in each call",
        "if it never changes, make it in `__init__` and keep it with `register_buffer`",
    )


def _is_constant(node: Node) -> bool:
    return node.op == "get_attr" and CONSTANT.fullmatch(str(node.target)) is not None


def _written_constant(node: Node, holder: nn.Module) -> Node | None:
    """The constant that a node writes to, or None."""
    changed = changed_by(node, holder)
    root = root_of(changed, holder) if changed is not None else None
    return root if root is not None and _is_constant(root) else None
