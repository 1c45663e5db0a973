"""FX305 and FX306: inputs that nothing uses, and values that the graph was made for alone."""

import ast
from collections.abc import Iterator
from typing import Final

from torch import nn
from torch.utils import _pytree as pytree

from fxengine.diagnosis import TracingProblem
from fxengine.errors import SpecialisedValue, UnusedInput
from fxengine.node import Node, base_types
from fxengine.placeholders import PHBase
from fxengine.provenance import Step
from fxengine.silent.ran import innermost
from fxengine.silent.reading import definition_behind
from fxengine.silent.scene import Scene
from fxengine.source import Origin, SourceFrame
from fxengine.syntax import Definition, parameter_span

_LONGEST_VALUE: Final = 40


def unused(scene: Scene) -> Iterator[TracingProblem]:
    """The inputs of a complete graph that nothing in it uses."""
    if scene.observation.problems or not scene.observation.reached_end:
        return
    for node in scene.ran.nodes["placeholder"]:
        name = str(node.target)
        if node.users or name.startswith(("_", "*")) or _is_option(node):
            continue
        place = innermost(node._origin)
        definition = definition_behind(place[0]) if place is not None else None
        span = parameter_span(definition, name) if definition is not None else None
        if place is None or definition is None or span is None or _is_given_up(definition, name):
            continue
        if _is_hollow(scene.observation.root) and is_read(definition, name):
            continue
        frame = SourceFrame(place[0].co_filename, place[0].co_qualname, *span)
        headline = f"`{name}` is an input that nothing in the graph uses"
        hints = [f"leave `{name}` out, or call it `_{name}` if it is there for the callers' sake"]
        origin = Origin((frame,), "", type(scene.observation.tracer.root))
        yield scene.problem(UnusedInput, origin, headline, hints, provenance=(Step(node, frame, name),))


def specialised(scene: Scene) -> Iterator[TracingProblem]:
    """The inputs that `concrete_args` fixed to a value."""
    fixed = scene.observation.concrete_args or {}
    code = scene.ran.root_code if fixed else None
    definition = definition_behind(code) if code is not None else None
    for name, value in fixed.items():
        leaves = pytree.tree_leaves(value)
        constants = [leaf for leaf in leaves if not isinstance(leaf, PHBase)]
        span = parameter_span(definition, name) if definition is not None else None
        if code is None or span is None or (leaves and not constants):
            continue
        frame = SourceFrame(code.co_filename, code.co_qualname, *span)
        text = _shortened(repr(value))
        is_checked = all(leaf is None or isinstance(leaf, base_types) for leaf in constants)
        checks = "and it checks that when it runs" if is_checked else "and nothing checks it"
        yield scene.problem(
            SpecialisedValue,
            Origin((frame,), "", type(scene.observation.tracer.root)),
            f"`{name}` is fixed to `{text}`: the graph is right for that alone, {checks}",
            (
                f"trace once for each value of `{name}` that is used",
                f"make `{name}` an attribute set in `__init__`, so that nobody can pass another value",
            ),
            value=text,
        )


def _is_option(node: Node) -> bool:
    """Whether an input has a default that is a flag or number: whoever hands it around unused loses nothing."""
    return bool(node.args) and isinstance(node.args[0], bool | int | float | str)


def _is_hollow(root: object) -> bool:
    """Whether a model was built with nothing in a container of modules: what it does with some, no run shows."""
    parts = root.children() if isinstance(root, nn.Module) else ()
    return any(isinstance(each, nn.ModuleList | nn.ModuleDict | nn.Sequential) and not len(each) for each in parts)


def is_read(definition: Definition, name: str) -> bool:
    """Whether a function reads a parameter."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for node in ast.walk(definition)
    )


def _is_given_up(definition: Definition, name: str) -> bool:
    """Whether a function says by `del name` that it does not want a parameter."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Del)
        for node in ast.walk(definition)
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
