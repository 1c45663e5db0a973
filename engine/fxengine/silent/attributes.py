"""FX308, and FX307 for attributes: modules that remember something from one call to the next.

A trace runs `forward` once. What it assigns to `self` is assigned then and never again, and a branch on such an
attribute, or on one that the training loop counts up, is decided for good.
"""

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Final

import torch
from torch import nn

from fxengine.bytecode import attributes_stored
from fxengine.diagnosis import TracingProblem
from fxengine.errors import ChangingAttribute, InPlaceChange
from fxengine.module_snapshot import Change
from fxengine.node import Node
from fxengine.provenance import Step, kind_of
from fxengine.proxy import Proxy
from fxengine.silent.reading import definition_behind, first_parameter, frame_of, within
from fxengine.silent.scene import Scene, shown
from fxengine.source import Origin, SourceFrame, is_user_file

_PLAIN: Final = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)
_OF_EVERY_MODULE: Final = frozenset(vars(nn.Module()))
_CHANGING_METHODS: Final = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem",
        "popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update",
    }
)  # fmt: skip
"""Methods of containers that change them."""
_MAKING: Final = re.compile(r"__(?:init|new|setstate|post_init|init_subclass)__|_?reset_\w+|_?init_\w+")
"""Methods that a module is made with."""
_ADVANCING: Final = re.compile(
    r"(?:\w+_)?(?:epoch|step|iter|iteration|count|counter|call|batch|progress)s?(?:_\w+)?|(?:cur|current)_\w+"
)
"""Names of what a training loop sets to another value each time."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A place in the code that ran where an attribute of `self` is read or written.

    Attributes:
        origin: The place, and the calls that led there.
        code: The function.
        node: The attribute's syntax node.
        augments: Whether it is `self.x += …`.
    """

    origin: Origin
    code: CodeType
    node: ast.Attribute
    augments: bool


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The branches on changing attributes, and the other changes of attributes that a graph does not repeat."""
    changed = _really_changed(scene.observation.changes)
    named = {(change.module_path, change.name): change for change in changed}
    branched: set[tuple[str, str]] = set()
    for (path, name), change in named.items():
        writes = list(_writes(scene, change.module, name))
        # A branch that is a problem itself is one on what this call has set.
        branches = [each for each in _branches(scene, change.module, name) if not _is_told(scene, each)]
        if branches:
            branched.add((path, name))
        for branch in branches:
            yield _problem_of_branch(scene, branch, change.before, writes[0].origin.frames[-1] if writes else None)
        if writes and not branches:
            yield _problem_of_write(scene, writes[0], list(_reads(scene, change.module, name)))
    yield from _counted(scene, branched)


def _really_changed(changes: Iterable[Change]) -> list[Change]:
    """The changes of attributes that make a difference to whoever reads them.

    A value that no input goes into is none: it is kept to save work, and the graph computes it or has it as a constant.
    """
    return [
        change
        for change in changes
        if change.kind != "data"
        and change.name not in _OF_EVERY_MODULE
        and not _is_equal(change.before, change.after)
        and not _is_kept_to_save_work(change.after)
    ]


def _is_kept_to_save_work(value: Any) -> bool:
    """Whether a value consists of tensors that are the same for all inputs."""
    if isinstance(value, Proxy):
        return not _depends_on_input(value.node)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return bool(value) and all(map(_is_kept_to_save_work, value))
    return isinstance(value, torch.Tensor)


def _depends_on_input(node: Node) -> bool:
    """Whether the data of an input go into a node's value."""
    pending, seen = [node], {node}
    while pending:
        current = pending.pop()
        if current.op == "placeholder":
            return True
        inputs = () if kind_of(current) == "metadata" else current.all_input_nodes
        pending.extend(each for each in inputs if each not in seen)
        seen.update(inputs)
    return False


def _is_equal(before: Any, after: Any) -> bool:
    if isinstance(before, tuple) and isinstance(after, tuple):
        return len(before) == len(after) and all(map(_is_equal, before, after))
    return isinstance(before, _PLAIN) and isinstance(after, _PLAIN) and before == after


def _uses(scene: Scene, module: nn.Module, name: str) -> Iterator[tuple[CodeType, ast.Attribute, tuple[ast.AST, ...]]]:
    """Where the code that ran on a module mentions an attribute of it, with the syntax nodes around."""
    for code in scene.ran.mentioning(name):
        if all(owner is not module for _, owner in scene.ran.owners(code)):
            continue
        definition = definition_behind(code)
        for node, around in within(definition) if definition is not None else ():
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if attribute == name:
                    if definition is not None and owner == first_parameter(definition):
                        yield code, node, around
                case _:
                    continue


def _writes(scene: Scene, module: nn.Module, name: str) -> Iterator[_Use]:
    for code, node, around in _uses(scene, module, name):
        statement = _writing(node, around)
        frame = frame_of(code, statement) if statement is not None else None
        if frame is not None:
            yield _Use(scene.ran.origin(code, frame), code, node, augments=isinstance(statement, ast.AugAssign))


def _writing(node: ast.Attribute, around: tuple[ast.AST, ...]) -> ast.AST | None:
    """The statement or call that changes an attribute, if this mention of it is a part of one."""
    if isinstance(node.ctx, ast.Store | ast.Del):
        return next((each for each in reversed(around) if isinstance(each, ast.stmt)), None)
    parent = around[-1] if around else None
    match parent:
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=value) if value is node:
            return next((each for each in reversed(around) if isinstance(each, ast.stmt)), None)
        case ast.Attribute(attr=method) if method in _CHANGING_METHODS:
            call = around[-2] if len(around) > 1 else None
            return call if isinstance(call, ast.Call) and call.func is parent else None
        case _:
            return None


def _reads(scene: Scene, module: nn.Module, name: str) -> Iterator[_Use]:
    for code, node, around in _uses(scene, module, name):
        frame = frame_of(code, node)
        if frame is not None and isinstance(node.ctx, ast.Load) and _writing(node, around) is None:
            yield _Use(scene.ran.origin(code, frame), code, node, augments=False)


def _branches(scene: Scene, module: nn.Module, name: str) -> Iterator[_Use]:
    """Where the code that ran on a module branches on an attribute of it."""
    for code, node, around in _uses(scene, module, name):
        frame = frame_of(code, node)
        if frame is not None and isinstance(node.ctx, ast.Load) and _decides(node, around):
            yield _Use(scene.ran.origin(code, frame), code, node, augments=False)


def _is_told(scene: Scene, branch: _Use) -> bool:
    """Whether a tracing problem is reported at the condition that a use of an attribute is a part of."""
    place = branch.origin.frames[-1]
    return any(site.path == place.path and site.span.contains(place.span) for site in scene.told)


def _decides(node: ast.AST, around: tuple[ast.AST, ...]) -> bool:
    """Whether an expression is a part of a condition."""
    child = node
    for parent in reversed(around):
        match parent:
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert() if parent.test is child:
                return True
            case ast.comprehension() if child in parent.ifs:
                return True
            case ast.Match() if parent.subject is child:
                return True
            case ast.match_case() if parent.guard is child:
                return True
            case ast.stmt():
                return False
            case _:
                child = parent
    return False


def _problem_of_branch(scene: Scene, branch: _Use, value: Any, written: SourceFrame | None) -> TracingProblem:
    text = shown(branch.origin.frames[-1])
    side = f"the side for `{value!r}`" if isinstance(value, _PLAIN) else "the side of the first call"
    steps = [Step(None, written, shown(written))] if written is not None else []
    return scene.problem(
        ChangingAttribute,
        branch.origin,
        f"`{text}` decides a branch and changes between calls, but the graph has {side} alone",
        (
            f"pass what `{text}` stands for as an input, and compute both sides: `torch.where`",
            f"decide it in `__init__`, and trace once for each value of `{text}` that is used",
            *scene.keep_out(branch.origin),
        ),
        provenance=steps,
        value=repr(value) if isinstance(value, _PLAIN) else "",
    )


def _problem_of_write(scene: Scene, write: _Use, reads: list[_Use]) -> TracingProblem:
    text = shown(write.origin.frames[-1])
    # Only what is read before it is written brings something from the call before.
    before = [each for each in reads if each.code is write.code and each.node.lineno < write.node.lineno]
    is_carried = write.augments or bool(before)
    return scene.problem(
        InPlaceChange,
        write.origin,
        f"`{text}` is done once, while tracing: the graph does not repeat it",
        (
            "return the new value, and let the caller keep it",
            "keep numbers that change in a buffer, and change that by what depends on an input: `self.count.add_(…)`",
            *scene.keep_out(write.origin),
        ),
        provenance=[Step(None, each.origin.frames[-1], shown(each.origin.frames[-1])) for each in before[:1]],
        severity=None if is_carried else "hint",
    )


def _counted(scene: Scene, branched: set[tuple[str, str]]) -> Iterator[TracingProblem]:
    """The branches on numbers that other methods, or the training loop, change."""
    for path, module in scene.ran.modules.items():
        stored = _stored_in(type(module))
        numbers = [name for name in stored if isinstance(module.__dict__.get(name), int | float)]
        for name in numbers:
            if (path, name) in branched or not scene.is_users(type(module)):
                continue
            branches = list(_branches(scene, module, name))
            written = _counting(stored[name], name, module.__dict__[name]) if branches else None
            for branch in branches if written is not None else ():
                yield _problem_of_branch(scene, branch, module.__dict__[name], written)


@functools.lru_cache(maxsize=1024)
def _stored_in(cls: type) -> dict[str, tuple[CodeType, ...]]:
    """The user's methods that assign attributes, by the attributes' names; those that make a module do not count."""
    found: dict[str, tuple[CodeType, ...]] = {}
    for owner in cls.__mro__:
        for method, function in vars(owner).items():
            if not isinstance(function, FunctionType) or _MAKING.fullmatch(method):
                continue
            code = function.__code__
            if is_user_file(code.co_filename):
                for name in attributes_stored(code):
                    found[name] = (*found.get(name, ()), code)
    return found


def _counting(codes: Iterable[CodeType], name: str, value: Any) -> SourceFrame | None:
    """Where one of some methods counts an attribute up or down, or sets what by its name is a count."""
    for code in codes:
        definition = definition_behind(code)
        for node in ast.walk(definition) if definition is not None else ():
            match node:
                case ast.AugAssign(target=ast.Attribute(attr=attribute)) if attribute == name:
                    return frame_of(code, node)
                case ast.Assign(targets=[ast.Attribute(attr=attribute)]) if attribute == name:
                    if _ADVANCING.fullmatch(name) and not isinstance(value, bool):
                        return frame_of(code, node)
                case _:
                    continue
    return None
