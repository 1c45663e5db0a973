"""FX304: functions that somebody registered as leaves, and that were traced through nonetheless.

`wrap` changes what a name means in one module. Whoever has imported the function before, under a name of another
module, calls the function itself.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from fxengine.diagnosis import TracingProblem
from fxengine.errors import WrapWithoutEffect
from fxengine.silent.scene import Scene, shown
from fxengine.source import Origin, OriginRecord, is_user_file
from fxengine.wrapping import registered_functions


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A function that is registered as a leaf: its code, its name, and the module in which the name is registered."""

    code: CodeType
    name: str
    module: str


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The calls by which a registered function was traced through."""
    leaves = _leaves(scene.observation.root)
    passed = leaves.keys() & scene.ran.recorded.keys()
    if passed:
        yield from _of_nodes(scene, {key: leaves[key] for key in passed})
    yield from _of_problems(scene, leaves)
    yield from _of_builtins(scene)


def _of_builtins(scene: Scene) -> Iterator[TracingProblem]:
    """Builtins that were registered in one file and stopped the trace in another."""
    registered: dict[str, list[str]] = {}
    for name, namespace in registered_functions():
        path = namespace.get("__file__")
        is_builtin = name not in namespace and name in vars(builtins)
        # What a library registers is for its own sake.
        if is_builtin and isinstance(path, str) and is_user_file(path) and "-packages" not in path:
            registered.setdefault(name, []).append(path)
    for problem in scene.observation.problems if registered else ():
        site = problem.site
        name = _called_name(shown(site)) if site is not None else ""
        paths = registered.get(name, ())
        if site is None or not paths or site.path in paths:
            continue
        yield scene.problem(
            WrapWithoutEffect,
            Origin((*problem.frames[:-1], site), problem.module_path, problem.module_type),
            f"`wrap` makes `{name}` a leaf in `{Path(paths[0]).name}` only, not in the file of this call",
            (f'`torch.fx.wrap("{name}")` at the top level of this file',),
        )


def _leaves(root: Any) -> dict[int, _Leaf]:
    """The registered functions by the id of their code; the root is one that somebody wants to be traced."""
    found: dict[int, _Leaf] = {}
    for name, namespace in registered_functions():
        function = namespace.get(name)
        if isinstance(function, FunctionType) and function is not root:
            code = function.__code__
            found.setdefault(id(code), _Leaf(code, name, str(namespace.get("__name__", ""))))
    return found


def _of_nodes(scene: Scene, passed: Mapping[int, _Leaf]) -> Iterator[TracingProblem]:
    """Nodes that were recorded inside of registered functions."""
    for node in scene.observation.graph.nodes:
        record = node._origin
        if type(record) is not OriginRecord:
            continue
        for index, code in enumerate(record[1]):
            leaf = passed.get(id(code))
            if leaf is not None:
                site, trail = record
                yield from _problem(scene, OriginRecord((site, trail[index + 2 :])).resolve(), leaf)


def _of_problems(scene: Scene, leaves: Mapping[int, _Leaf]) -> Iterator[TracingProblem]:
    """Registered functions in which the trace was stopped before they recorded anything."""
    for problem in scene.observation.problems:
        for index, frame in enumerate(problem.frames):
            for leaf in leaves.values():
                if (frame.path, frame.function) == (leaf.code.co_filename, leaf.code.co_qualname):
                    origin = Origin(problem.frames[:index], problem.module_path, problem.module_type)
                    yield from _problem(scene, origin, leaf)


def _problem(scene: Scene, origin: Origin, leaf: _Leaf) -> Iterator[TracingProblem]:
    if not origin.frames:
        return
    call = shown(origin.frames[-1])
    yield scene.problem(
        WrapWithoutEffect,
        origin,
        f"`{call}` is traced through: `wrap` makes `{leaf.name}` a leaf in `{leaf.module}` only, not under this name",
        (
            f'`torch.fx.wrap("{_called_name(call) or leaf.name}")` at the top level of the module that makes this call',
            f"call it as an attribute of its module: `{leaf.module.rpartition('.')[2]}.{leaf.name}(…)`",
        ),
    )


def _called_name(call: str) -> str:
    """The name that a call's source calls; empty if that is no plain name."""
    try:
        parsed = ast.parse(call, mode="eval").body
    except SyntaxError:
        return ""
    return parsed.func.id if isinstance(parsed, ast.Call) and isinstance(parsed.func, ast.Name) else ""
