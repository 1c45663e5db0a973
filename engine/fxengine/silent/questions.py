"""FX306: what a symbolic value answers when it is asked for its type, which is not what a tensor would answer.

`isinstance(x, torch.Tensor)` is false while a model is traced, and nothing is raised. Whether that matters is tried
out: the model is walked through again with symbolic values that say they are tensors.
"""

import ast
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch

from fxengine import proxy as proxies
from fxengine.diagnosis import TracingProblem
from fxengine.errors import SpecialisedValue
from fxengine.provenance import Step, kind_of, way_to
from fxengine.silent.observers import CLASSES, Place, lines_of, look_at_graph, place_of, record_here
from fxengine.silent.reading import definition_behind, dotted, frame_of
from fxengine.silent.repeating import decisive
from fxengine.silent.scene import Scene, shown
from fxengine.source import frame_at

if TYPE_CHECKING:
    from fxengine.graph import Graph
    from fxengine.source import OriginRecord

_IS_TENSOR = torch.is_tensor.__code__


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The questions for a tensor whose answer makes the graph another one."""
    asked = frozenset(_asked(scene))
    nodes = {node.name: node for node in scene.observation.graph.nodes} if asked else {}
    for _, reads in decisive(scene, asked, TypeQuestions):
        for way, record in reads.values():
            origin = record.resolve()
            # The values were those of a repetition.
            steps = [replace(step, node=nodes.get(step.node.name) if step.node is not None else None) for step in way]
            text = shown(origin.frames[-1])
            yield scene.problem(
                SpecialisedValue,
                origin,
                f"`{text}` is false for a symbolic value, so the graph is the one for what is no tensor",
                (
                    "ask what it is not: `not isinstance(…, (tuple, list))`, or `is not None`",
                    "decide it once in `__init__` and keep the answer as an attribute",
                ),
                provenance=steps,
                value="False",
            )


class TypeQuestions:
    """Notes where user code asks symbolic values for their type, and lets them say `Tensor` at some of these places.

    Attributes:
        reads: For each place how the value came to be and where that was, by the path of the module that ran.
        watch: Called with the graph so far at each of these places.
    """

    def __init__(self, tensors_at: Collection[Place]) -> None:
        self.reads: dict[Place, dict[str, tuple[tuple[Step, ...], OriginRecord]]] = {}
        self.watch: Callable[[Graph], None] | None = None
        self._tensors_at = tensors_at
        self._lines = lines_of(tensors_at)

    def __enter__(self) -> Self:
        CLASSES.acquire()
        self._original = proxies._face
        proxies._face = self._face  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        return self

    def __exit__(self, *_: object) -> None:
        proxies._face = self._original
        CLASSES.release()

    def _face(self, cls: type[proxies.Proxy]) -> type[Any]:
        # The caller is the property `__class__` of a symbolic value; who reads that is the one who asks.
        getter = sys._getframe(1)
        # `torch.is_tensor` asks on behalf of its caller.
        asker = getter.f_back
        asker = asker.f_back if asker is not None and asker.f_code is _IS_TENSOR else asker
        if asker is None or (asker.f_code.co_filename, asker.f_lineno) not in self._lines:
            return self._original(cls)
        value: proxies.Proxy = getter.f_locals["self"]
        place = place_of(frame_at(asker.f_code, asker.f_lasti))
        record = record_here(asker)
        if record is None or place not in self._tensors_at or kind_of(value) == "metadata":
            return self._original(cls)
        look_at_graph(self.watch)
        self.reads.setdefault(place, {}).setdefault(record[0].module_path, (way_to(value), record))
        return torch.Tensor


def asks_for_tensor(call: ast.Call) -> bool:
    """Whether a call asks whether its first argument is a tensor."""
    match call:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
            named = [dotted(each) for each in ast.walk(classes) if isinstance(each, ast.Name | ast.Attribute)]
            return any(name.rpartition(".")[2] == "Tensor" for name in named)
        case ast.Call(args=[_]):
            return dotted(call.func).rpartition(".")[2] == "is_tensor"
        case _:
            return False


def _asked(scene: Scene) -> Iterator[Place]:
    """The places in the code that ran where something is asked whether it is a tensor."""
    for code in (*scene.ran.mentioning("isinstance", "Tensor"), *scene.ran.mentioning("is_tensor")):
        definition = definition_behind(code)
        for node in ast.walk(definition) if definition is not None else ():
            frame = frame_of(code, node) if isinstance(node, ast.Call) and asks_for_tensor(node) else None
            if frame is not None:
                yield place_of(frame)
