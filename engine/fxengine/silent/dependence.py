"""What the arguments of a call follow from: read off the source, from the call back to parameters and their callers.

Only what is plain is followed: assignments to a name in the same function, and parameters to what the caller passed for
them. What cannot be followed is taken to depend on nothing, so that nothing is claimed that may not be so.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Final, Literal

from fxengine.silent.reading import definition_behind, expression_at, first_parameter
from fxengine.source import OriginRecord, SourceFrame, frame_at
from fxengine.syntax import Definition, span_of

_DEVICES: Final = frozenset({"device", "is_cuda", "get_device", "is_available", "current_device"})
_SIZES: Final = frozenset({"shape", "size", "ndim", "dim", "numel", "nelement"})
_MOST_STEPS: Final = 200


@dataclass(frozen=True, slots=True)
class Source:
    """Something that an argument follows from.

    Attributes:
        kind: A size of an input, the device of something, or an input that was fixed to a value.
        frame: Where that is in the source.
    """

    kind: Literal["size", "device", "input"]
    frame: SourceFrame


@dataclass(frozen=True, slots=True)
class Level:
    """A function that was running, and the expression that it had come to."""

    code: CodeType
    definition: Definition
    frame: SourceFrame

    @property
    def call(self) -> ast.Call | None:
        """The call that the function had come to, if it is one."""
        found = expression_at(self.definition, self.frame.span)
        return found[0] if found is not None and isinstance(found[0], ast.Call) else None

    def place(self, node: ast.expr) -> SourceFrame:
        """Where an expression of the function stands."""
        span = span_of(node)
        return SourceFrame(self.frame.path, self.frame.function, *span) if span is not None else self.frame


def levels_of(record: OriginRecord) -> tuple[Level, ...]:
    """The functions that were running at a record, innermost first, as far as their source is to be had."""
    levels: list[Level] = []
    site, trail = record
    while True:
        for code, lasti in zip(trail[::2], trail[1::2], strict=True):
            assert isinstance(code, CodeType)
            assert isinstance(lasti, int)
            definition = definition_behind(code)
            if definition is None:
                return tuple(levels)
            levels.append(Level(code, definition, frame_at(code, lasti)))
        if site.parent is None:
            return tuple(levels)
        site, trail = site.parent, site.trail


def sources_of(levels: tuple[Level, ...], fixed: frozenset[str]) -> tuple[Source, ...]:
    """What the arguments of the call that the innermost function had come to follow from.

    Args:
        levels: The functions that were running; the outermost is the root's.
        fixed: The root's parameters that `concrete_args` has given values.
    """
    call = levels[0].call if levels else None
    if call is None:
        return ()
    search = _Search(levels, fixed)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return tuple(dict.fromkeys(source for each in arguments for source in search.of(each, 0, None)))


class _Search:
    """One search. It remembers where it has been, as names may be assigned from each other."""

    def __init__(self, levels: tuple[Level, ...], fixed: frozenset[str]) -> None:
        self._levels = levels
        self._fixed = fixed
        self._seen: set[tuple[int, bool]] = set()

    def of(self, expression: ast.expr, depth: int, size: SourceFrame | None) -> Iterator[Source]:
        """What an expression of the function at a depth follows from; `size` is a place where its size is asked for."""
        key = (id(expression), size is not None)
        if key in self._seen or len(self._seen) > _MOST_STEPS:
            return
        self._seen.add(key)
        level = self._levels[depth]
        match expression:
            case ast.Attribute(attr=name) if name in _DEVICES:
                yield Source("device", level.place(expression))
            case ast.Attribute(attr=name) if name in _SIZES:
                yield from self.of(expression.value, depth, size or level.place(expression))
            case ast.Call(func=ast.Name(id="len"), args=[measured]):
                yield from self.of(measured, depth, size or level.place(expression))
            case ast.Name():
                yield from self._of_name(expression, depth, size)
            case _:
                for child in ast.iter_child_nodes(expression):
                    if isinstance(child, ast.expr | ast.keyword | ast.comprehension):
                        yield from self._of_part(child, depth, size)

    def _of_part(self, part: ast.AST, depth: int, size: SourceFrame | None) -> Iterator[Source]:
        parts = [part] if isinstance(part, ast.expr) else ast.iter_child_nodes(part)
        for each in parts:
            if isinstance(each, ast.expr):
                yield from self.of(each, depth, size)

    def _of_name(self, name: ast.Name, depth: int, size: SourceFrame | None) -> Iterator[Source]:
        level = self._levels[depth]
        if name.id == first_parameter(level.definition) == "self":
            return
        assigned = list(_assigned(level.definition, name.id))
        for value in assigned:
            yield from self.of(value, depth, size)
        if name.id not in level.code.co_varnames[: level.code.co_argcount + level.code.co_kwonlyargcount]:
            return
        if depth + 1 < len(self._levels):
            passed = _passed(level, self._levels[depth + 1].call, name.id)
            if passed is not None:
                yield from self.of(passed, depth + 1, size)
        elif name.id in self._fixed:
            yield Source("input", level.place(name))
        elif size is not None and not assigned:
            yield Source("size", size)


def _assigned(definition: Definition, name: str) -> Iterator[ast.expr]:
    """What a function assigns to one of its variables, in any way."""
    for node in ast.walk(definition):
        match node:
            case ast.Assign():
                targets, value = node.targets, node.value
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                targets, value = [node.target], node.value
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                targets, value = [node.target], node.iter
            case _:
                continue
        names = {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        if name in names and value is not None:
            yield value


def _passed(level: Level, call: ast.Call | None, name: str) -> ast.expr | None:
    """What a call passes for a parameter of the function that it led to; None if that cannot be told."""
    if call is None or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    arguments = level.definition.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if names and names[0] in {"self", "cls"}:
        names = names[1:]
    index = names.index(name) if name in names else len(call.args)
    return call.args[index] if index < len(call.args) else None
