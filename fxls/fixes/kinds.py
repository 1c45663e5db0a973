"""What is taken for one value and is none: the first of several is taken, a part or a method is called.

What it is, and where it comes from, is what the problem says, as `fxworker.kinds` has put it into words.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from fxls.discovery.syntax import dotted, span_of
from fxls.fixes.source import Proposal, Source
from fxworker.wire import MADE_HERE, Edit, Location, Problem

_FOR_ONE: Final = "for one value: say which"
_INTO_MORE: Final = "is taken apart into more values"
_STATES: Final = "states `(h, c)`"
_ONLY_STATES: Final = "returns the states `(h, c)`"
_METHOD: Final = "is given the method"
_PART: Final = re.compile(r"is given the part `(self\.\w+)` itself")
_CONTAINER: Final = re.compile(r"^`(self\.\w+)` is an `nn\.ModuleList`, which computes nothing")
_NO_FUNCTION: Final = "'torch.Size' object is not callable"


def choosing(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield what returns several values with the first of them alone, or taken apart as it can be."""
    del node
    made = _made(source, problem)
    if made is None:
        return
    if _FOR_ONE in problem.message and _ONLY_STATES in problem.message:
        yield from _of_states(source, made)
    elif _FOR_ONE in problem.message:
        yield Proposal(f"Take the first of them: `{source.written(made)}[0]`", (source.followed(made, "[0]"),))
    match source.parent(made):
        case ast.Assign(targets=[ast.Tuple(elts=[one, two, three]) as whole]) if _INTO_MORE in problem.message:
            if _STATES in problem.message:
                text = f"{source.written(one)}, ({source.written(two)}, {source.written(three)})"
                yield Proposal(f"Write `{text} = …`", (Edit(Location(source.path, span_of(whole)), text),))
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Tuple(elts=[state, _]) as states])]):
            if _STATES in problem.message:
                text = source.written(state)
                yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(states)), text),))
        case _:
            pass


def calling(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the call of a method, or of a part of the model, that is given in place of what it makes."""
    made, part = _made(source, problem), _PART.search(problem.message)
    match node:
        case ast.Call(func=ast.Attribute(attr="shape") as shape, args=[index], keywords=[]):
            if problem.original.endswith(_NO_FUNCTION):
                text = f"{source.written(shape)}[{source.written(index)}]"
                yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(node)), text),))
        case _:
            pass
    if isinstance(made, ast.Attribute) and _METHOD in problem.message:
        around = source.parent(made)
        if isinstance(around, ast.Subscript) and around.value is made:
            text = f"{source.written(made)}({source.written(around.slice)})"
            yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(around)), text),))
        else:
            call = "(0)" if made.attr == "size" else "()"
            yield Proposal(f"Call it: `{source.written(made)}{call}`", (source.followed(made, call),))
    if part is not None:
        yield from _of_part(source, part[1])


def going_through(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield a container that calls its parts one after the other, in place of one that only holds them."""
    del node
    called = _CONTAINER.search(problem.message)
    for each in ast.walk(source.tree) if called is not None else ():
        match each:
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute() as made, args=[parts], keywords=[])):
                if called is not None and dotted(target) == called[1] and made.attr == "ModuleList":
                    kind = Edit(Location(source.path, span_of(made)), f"{source.written(made.value)}.Sequential")
                    edit = Edit(Location(source.path, span_of(parts)), f"*{source.written(parts)}")
                    yield Proposal(f"Make `{called[1]}` an `nn.Sequential`", (kind, edit))
            case _:
                pass


def _of_states(source: Source, made: ast.expr) -> Iterator[Proposal]:
    """Yield a step that takes apart the states which it returns, as those that it is given."""
    statement = source.parent(made)
    match made, statement:
        case ast.Call(args=[_, ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)])]), ast.Assign(targets=[target]):
            if isinstance(target, ast.Name) and target.id in {one, other}:
                edit = Edit(Location(source.path, span_of(target)), f"{one}, {other}")
                yield Proposal(f"Write `{one}, {other} = …`", (edit,))
        case _:
            pass


def _of_part(source: Source, part: str) -> Iterator[Proposal]:
    """Yield the one place where a part is read and not called, with a call of it."""
    read = [each for each in ast.walk(source.tree) if isinstance(each, ast.Attribute) and dotted(each) == part]
    bare = [each for each in read if isinstance(each.ctx, ast.Load) and _is_bare(source, each)]
    function = source.function(bare[0]) if len(bare) == 1 else None
    if function is None:
        return
    inside = [each.arg for each in function.args.args[1:]]
    statement = source.statement(bare[0])
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    for name in list(dict.fromkeys((*names, *inside)))[:2]:
        yield Proposal(f"Call it: `{part}({name})`", (source.followed(bare[0], f"({name})"),))


def _is_bare(source: Source, node: ast.Attribute) -> bool:
    """Whether a part is neither called nor asked for something of its own."""
    match source.parent(node):
        case ast.Call(func=function):
            return function is not node
        case ast.Attribute() | ast.Subscript() | ast.For() | ast.comprehension():
            return False
        case _:
            return True


def _made(source: Source, problem: Problem) -> ast.expr | None:
    """Return the expression that a value comes from, None where the problem does not say it."""
    places = (each.location for each in problem.related if each.message == MADE_HERE)
    place = next((each for each in places if each.path == source.path), None)
    return source.expression(place.span) if place is not None else None
