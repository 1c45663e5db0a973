"""FX305, for all inputs at once: a `forward` that computes something and has forgotten its `return`.

Whoever calls such a module gets None. So does the `forward` that uses what such a method gives. One that is called for
what it does to something else (it assigns attributes or items, fills a list, prints) is left alone.
"""

import ast
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Final

from fxengine.diagnosis import TracingProblem
from fxengine.errors import UnusedInput
from fxengine.provenance import Step
from fxengine.silent.reading import definition_behind, frame_of
from fxengine.silent.scene import Scene
from fxengine.source import Origin, is_user_file
from fxengine.syntax import returns_of

_COMPUTING: Final = frozenset({"F", "functional", "self", "torch"})
"""How calls begin that are made for their results."""


def lost(scene: Scene) -> Iterator[TracingProblem]:
    """The forwards that ran and whose results are lost."""
    for path, module, forward in scene.ran.forwards():
        for code in (forward, *_used_by(forward, type(module))):
            last = _last_result(code)
            frame = frame_of(code, last) if last is not None else None
            if last is not None and frame is not None:
                yield scene.problem(
                    UnusedInput,
                    Origin((frame,), path, type(module)),
                    f"`{code.co_name}` ends here without a `return`: whatever it is given, it gives None",
                    (f"return what it is to give: `return {_given(last)}`",),
                    provenance=(Step(None, frame, code.co_name),),
                    # A value may be given a name for somebody who looks at it; what has none is lost.
                    severity="warning" if isinstance(last, ast.Expr) else "information",
                )


def _given(last: ast.stmt) -> str:
    """Return what a function that ends with a statement was probably to return."""
    match last:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.AugAssign(target=ast.Name(id=name)):
            return name
        case _:
            return "…"


def is_lost(problem: TracingProblem) -> bool:
    """Whether a problem is that a `return` is missing."""
    return problem.rule is UnusedInput and bool(problem.provenance) and problem.provenance[0].node is None


def _used_by(code: CodeType, cls: type) -> Iterator[CodeType]:
    """Yield the methods of a class of whose results a function of it makes something."""
    for name in _names_used(code):
        method = inspect.getattr_static(cls, name, None)
        if isinstance(method, FunctionType) and is_user_file(method.__code__.co_filename):
            yield method.__code__


@functools.lru_cache(maxsize=1024)
def _names_used(code: CodeType) -> tuple[str, ...]:
    """The methods of `self` that a function calls for what they give."""
    definition = definition_behind(code)
    found: dict[str, None] = {}
    for node in ast.walk(definition) if definition is not None else ():
        calls = () if isinstance(node, ast.Expr) else ast.iter_child_nodes(node)
        for call in calls:
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name("self"), attr=name)):
                    found[name] = None
                case _:
                    pass
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def _last_result(code: CodeType) -> ast.stmt | None:
    """The last statement of a function that computes something and returns nothing, None for any other function."""
    definition = definition_behind(code)
    if not isinstance(definition, ast.FunctionDef) or returns_of(definition) or _does_something(definition):
        return None
    last = definition.body[-1]
    match last:
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign(target=ast.Name()) | ast.AugAssign(target=ast.Name()):
            return last
        case ast.Expr(value=ast.Call(func=function)) if ast.unparse(function).partition(".")[0] in _COMPUTING:
            return last
        case _:
            return None


def _does_something(definition: ast.FunctionDef) -> bool:
    """Whether a function has an effect on something that is not its own, or may have."""
    last = definition.body[-1]
    for node in ast.walk(definition):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                return True
            case ast.Yield() | ast.YieldFrom() | ast.Await() | ast.Raise() | ast.Global() | ast.Nonlocal():
                return True
            case ast.Expr(value=ast.Call()) if node is not last:
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name.endswith("_"):
                return True
            case _:
                pass
    return False
