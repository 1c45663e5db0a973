"""FX311: what a model computes is lost.

A statement computes something that nothing uses, as `x.relu()` does beside `x = x.relu()`; or a part, a method or a
tuple of one is returned where the value is meant that they make or hold. Torch runs such code without a word, and so
does its graph.
"""

import ast
import functools
import operator
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import nn

from fxengine.advice import on_one_line
from fxengine.called import called_module
from fxengine.diagnosis import TracingProblem
from fxengine.errors import LostResult
from fxengine.node import Node
from fxengine.silent.mutation import changed_by
from fxengine.silent.reading import definition_behind, dotted, frame_of
from fxengine.silent.scene import Scene, shown
from fxengine.source import Origin, OriginRecord
from fxengine.syntax import returns_of, span_of

_EFFECTS: Final = frozenset({"item", "record_stream", "retain_grad"})
"""Methods of tensors that a statement may call for what they do."""

_CHECKING: Final = ("_assert", "_check")
"""How functions of torch's are called that give nothing and may raise."""


def find(scene: Scene) -> Iterator[TracingProblem]:
    """What is computed and lost, in the user's code that ran."""
    yield from _unused(scene)
    for path, module, code in scene.ran.forwards():
        for node, headline, hint in _unmeant(code, module):
            frame = frame_of(code, node)
            if frame is not None:
                yield scene.problem(LostResult, Origin((frame,), path, type(module)), headline, (hint,))
    yield from _method_returned(scene)


def _unused(scene: Scene) -> Iterator[TracingProblem]:
    """Statements that compute something, which nothing uses."""
    root: Any = scene.observation.root
    for kind in ("call_function", "call_method", "call_module"):
        for node in scene.ran.nodes[kind]:
            if node.users or changed_by(node, root) is not None or not _is_computed(node, root):
                continue
            origin, record = node.origin, node._origin
            code = record[1][0] if type(record) is OriginRecord and record[1] else None
            if origin is None or not isinstance(code, CodeType):
                continue
            frame = origin.frames[-1]
            statement = _statements(code).get(frame.span)
            if statement is not None and _is_made_by(statement, node):
                text = shown(frame)
                headline = f"nothing uses the result of `{text}`, and it does nothing else"
                name = _first_name(statement)
                hints = (f"give it a name: `{name or '…'} = {_after(statement, text)}`",)
                yield scene.problem(LostResult, origin, headline, hints)


def _is_computed(node: Node, root: Any) -> bool:
    """Whether a node is an operation of torch's whose result is all that it is there for."""
    if node.op == "call_method":
        name = str(node.target)
        is_effect = name in _EFFECTS or name.endswith("_")
        return not is_effect and hasattr(torch.Tensor, name) and hasattr(torch.ops.aten, name)
    if node.op == "call_module":
        module = called_module(node, root) if isinstance(root, nn.Module) else None
        own = type(module).__module__.startswith("torch.nn.modules.")
        return own and isinstance(module, nn.Module) and not module._forward_hooks and not module._forward_pre_hooks
    name = getattr(node.target, "__name__", "")
    if name.startswith(_CHECKING):
        return False
    if any(getattr(owner, name, None) is node.target for owner in (torch, F)):
        return not node.is_impure() and not any(each is True for each in node.args)
    return getattr(operator, name, None) is node.target and node.target is not operator.getitem


@functools.lru_cache(maxsize=1024)
def _statements(code: CodeType) -> dict[Any, ast.expr]:
    """The expressions of a function that are statements, by where they stand."""
    definition = definition_behind(code)
    nodes = ast.walk(definition) if definition is not None else ()
    return {span_of(each.value): each.value for each in nodes if isinstance(each, ast.Expr)}


def _is_made_by(statement: ast.expr, node: Node) -> bool:
    """Whether a statement is a node's operation itself, not the call of what does more than that in a library."""
    match statement:
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called) as function):
            if node.op == "call_module":
                is_named = called in str(node.target).split(".")
                return is_named or isinstance(function, ast.Name)
            return called == (node.target if node.op == "call_method" else getattr(node.target, "__name__", ""))
        case _:
            return True


def _first_name(statement: ast.expr) -> str:
    """Return the variable that an expression computes its result of, "" where that is no variable."""
    match statement:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name not in {"torch", "F", "self"}:
            return name
        case ast.Call(args=[ast.Name(id=name), *_]) | ast.Compare(left=ast.Name(id=name)):
            return name
        case ast.BinOp(left=ast.Name(id=name)):
            return name
        case _:
            return ""


def _after(statement: ast.expr, text: str) -> str:
    """Return what is to stand behind the sign: of `x == y` it is `y`."""
    match statement:
        case ast.Compare(ops=[ast.Eq()], comparators=[value]):
            return on_one_line(ast.unparse(value))
        case _:
            return text


class _Returned(NamedTuple):
    """What a function returns that may be no value.

    Attributes:
        attributes: What has a dot, as `self.fc` and `x.mean`, be it given a name before.
        tuples: The variables that a comma makes a tuple of one, with it.
        prints: The calls of `print`, which gives None.
    """

    attributes: tuple[ast.Attribute, ...]
    tuples: tuple[tuple[str, ast.Tuple], ...]
    prints: tuple[ast.Call, ...] = ()


@functools.lru_cache(maxsize=1024)
def _returned(code: CodeType) -> _Returned:
    """What a function returns that may be no value."""
    definition = definition_behind(code)
    if definition is None or isinstance(definition, ast.Lambda):
        return _Returned((), ())
    returned = dict.fromkeys(each.value for each in returns_of(definition))
    nodes = list(ast.walk(definition))
    alone = {*returned, *_of_one(nodes)}
    named = defaultdict[str, list[ast.Name]](list)
    for each in nodes:
        if isinstance(each, ast.Name):
            named[each.id].append(each)
    attributes = [each for each in returned if isinstance(each, ast.Attribute)]
    tuples: list[tuple[str, ast.Tuple]] = []
    for each in nodes:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=[ast.Call() as call]) as whole):
                is_bare = (whole.lineno, whole.col_offset) == (call.lineno, call.col_offset)
                later = _behind(whole, named[name]) if is_bare else []
                if later and alone.issuperset(later):
                    tuples.append((name, whole))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() as value):
                later = _behind(value, named[name])
                if later and all(each in returned for each in later):
                    attributes.append(value)
            case _:
                pass
    prints = [each for each in returned if isinstance(each, ast.Call) and dotted(each.func) == "print" and each.args]
    return _Returned(tuple(attributes), tuple(tuples), tuple(prints))


def _behind(value: ast.expr, names: list[ast.Name]) -> list[ast.Name]:
    """Return those of some names that stand behind a value."""
    return [each for each in names if each.lineno > (value.end_lineno or 0)]


def _of_one(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield the variables that are computed with as no tuple is: `x * 2`, and those that are assigned anew."""
    for node in nodes:
        match node:
            case ast.BinOp(left=left, op=operation, right=right) if not isinstance(operation, ast.Add):
                yield from (left, right)
            case ast.Assign(targets=targets):
                yield from targets
            case _:
                pass


def _unmeant(code: CodeType, module: nn.Module) -> Iterator[tuple[ast.AST, str, str]]:
    """What a module's function returns that is a part of it, or holds a value: where, what is told, what mends it."""
    attributes, tuples, prints = _returned(code)
    for call in prints:
        value = on_one_line(ast.unparse(call.args[0]))
        yield (
            call,
            f"`{on_one_line(ast.unparse(call))}` gives None, and that is returned",
            f"return `{value}` behind it",
        )
    for part in attributes:
        text = dotted(part)
        if text.startswith("self.") and isinstance(module._modules.get(text.removeprefix("self.")), nn.Module):
            yield part, f"the part `{text}` itself is returned, not what it makes of a value", f"call it: `{text}(…)`"
    for name, whole in tuples:
        text = on_one_line(ast.unparse(whole.elts[0]))
        yield whole, f"the comma behind `{text}` makes `{name}` a tuple, which it is nowhere used as", "leave it out"


def _method_returned(scene: Scene) -> Iterator[TracingProblem]:
    """A method of a tensor that the model returns in place of what it gives."""
    code, root = scene.ran.root_code, scene.observation.root
    if code is None:
        return
    for output in scene.ran.nodes["output"]:
        node = output.args[0]
        name = str(node.args[1]) if isinstance(node, Node) and node.target is getattr else ""
        if not callable(getattr(torch.Tensor, name, None)):
            continue
        for value in _returned(code).attributes:
            frame = frame_of(code, value) if value.attr == name else None
            if frame is not None:
                text = on_one_line(ast.unparse(value))
                headline = f"the method `{text}` itself is returned, not what it gives"
                yield scene.problem(LostResult, Origin((frame,), "", type(root)), headline, (f"call it: `{text}()`",))
