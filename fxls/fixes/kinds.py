"""What is taken for one value and is none: the first of several is taken, a part or a method is called.

What it is, and where it comes from, the problem says, as `fxworker.kinds` has found it.
"""

import ast
from collections.abc import Iterator
from typing import Final

from fxls.discovery.syntax import dotted, span_of
from fxls.fixes.registering import name_of_nn
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Edit, Location, Problem

_NO_FUNCTION: Final = "'torch.Size' object is not callable"


def choosing(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield what returns several values with the first of them alone, or taken apart as it can be."""
    del node
    kind, made = _kind(problem), _made(source, problem)
    if made is None:
        return
    statement = source.parent(made)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    match kind, targets:
        case "several", _:
            yield Proposal(f"Take the first of them: `{source.written(made)}[0]`", (source.followed(made, "[0]"),))
        case "states", [ast.Name() as target]:
            yield from _of_states(source, made, target)
        case "outputs", [ast.Tuple(elts=[one, two, three]) as whole]:
            text = f"{source.written(one)}, ({source.written(two)}, {source.written(three)})"
            yield Proposal(f"Write `{text} = …`", (Edit(Location(source.path, span_of(whole)), text),))
        case "state", [ast.Tuple(elts=[_, ast.Tuple(elts=[state, _]) as states])]:
            text = source.written(state)
            yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(states)), text),))
        case _:
            pass


def calling(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the call of a method, or of a part of the model, that is given in place of what it makes."""
    match node:
        case ast.Call(func=ast.Attribute(attr="shape") as shape, args=[index], keywords=[]):
            if problem.original.endswith(_NO_FUNCTION):
                text = f"{source.written(shape)}[{source.written(index)}]"
                yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(node)), text),))
        case _:
            pass
    match _kind(problem), _made(source, problem):
        case "method", ast.Attribute() as made:
            around = source.parent(made)
            if isinstance(around, ast.Subscript) and around.value is made:
                text = f"{source.written(made)}({source.written(around.slice)})"
                yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(around)), text),))
            else:
                call = "(0)" if made.attr == "size" else "()"
                yield Proposal(f"Call it: `{source.written(made)}{call}`", (source.followed(made, call),))
        case "part", _:
            yield from _of_part(source, _name(problem))
        case _:
            pass


def going_through(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield a container that calls its parts one after the other, in place of one that only holds them."""
    del node
    name, nn = _name(problem), name_of_nn(source)
    for each in ast.walk(source.tree) if _kind(problem) == "container" else ():
        match each:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                edits = _in_sequence(source, value, nn) if dotted(target) == name else ()
                if edits:
                    yield Proposal(f"Make `{name}` an `nn.Sequential`", edits)
            case _:
                pass


def _in_sequence(source: Source, value: ast.expr | None, nn: str) -> tuple[Edit, ...]:
    """Return what makes a sequence of a list of modules; nothing where it is none."""
    match value:
        case ast.Call(func=ast.Attribute(attr="ModuleList") as made, args=[parts], keywords=[]):
            kind = Edit(Location(source.path, span_of(made)), f"{source.written(made.value)}.Sequential")
            return (kind, Edit(Location(source.path, span_of(parts)), f"*{source.written(parts)}"))
        case ast.List() | ast.ListComp() if nn:
            edit = source.replaced(value, f"{nn}.Sequential(*{source.written(value)})")
            return () if edit is None else (edit,)
        case _:
            return ()


def making(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield the class that is called as a part, `self.act` with `self.act = nn.ReLU`, made where it is assigned."""
    del problem
    name = dotted(node.func) if isinstance(node, ast.Call) else ""
    around = next((each for each in source.above(node) if isinstance(each, ast.ClassDef)), None)
    for each in ast.walk(around) if around is not None and name.startswith("self.") else ():
        match each:
            case ast.Assign(targets=[target], value=ast.Name() | ast.Attribute() as cls) if dotted(target) == name:
                if dotted(cls).rpartition(".")[2][:1].isupper():
                    yield Proposal(f"Make one: `{source.written(cls)}()`", (source.followed(cls, "()"),))
            case _:
                pass


def keeping(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield a statement that keeps the result it is there for, and what is returned as the value that is meant."""
    del problem
    match source.parent(node), node:
        case ast.Expr() as statement, ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[value]):
            text = f"{name} = {source.written(value)}"
            yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(statement)), text),))
        case ast.Expr() as statement, _:
            for name in _names_in(node):
                text = f"{name} = {source.written(node)}"
                yield Proposal(f"Write `{text}`", (Edit(Location(source.path, span_of(statement)), text),))
        case ast.Return() as statement, ast.Call(func=ast.Name(id="print"), args=[value, *_]):
            text = f"{source.written(node)}\n{' ' * statement.col_offset}return {source.written(value)}"
            edit = Edit(Location(source.path, span_of(statement)), text)
            yield Proposal(f"Return `{source.written(value)}` behind it", (edit,))
        case ast.Assign(), ast.Tuple(elts=[value]):
            edit = Edit(Location(source.path, span_of(node)), source.written(value))
            yield Proposal("Leave the comma out", (edit,))
        case ast.Return() | ast.Assign(), ast.Attribute(value=ast.Name(id="self")):
            yield from _of_part(source, dotted(node))
        case ast.Return() | ast.Assign(), ast.Attribute():
            yield Proposal(f"Call it: `{source.written(node)}()`", (source.followed(node, "()"),))
        case _:
            pass


def _names_in(node: ast.expr) -> Iterator[str]:
    """Yield the variable whose method is called, or which is handed to a call first."""
    match node:
        case ast.Call(args=[ast.Name(id=name), *_], func=function) if dotted(function).partition(".")[0] != name:
            if dotted(function).partition(".")[0] in {"self", "torch", "F", "nn"}:
                yield name
                return
            yield from (each.id for each in ast.walk(function) if isinstance(each, ast.Name))
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) | ast.BinOp(left=ast.Name(id=name)):
            yield name
        case _:
            pass


def _of_states(source: Source, made: ast.expr, target: ast.Name) -> Iterator[Proposal]:
    """Yield a step that takes apart the states which it returns, as those that it is given."""
    match made:
        case ast.Call(args=[_, ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)])]) if target.id in {one, other}:
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


def _kind(problem: Problem) -> str:
    return "" if problem.slip is None else problem.slip.kind


def _name(problem: Problem) -> str:
    return "" if problem.slip is None else problem.slip.name


def _made(source: Source, problem: Problem) -> ast.expr | None:
    """Return the expression that a value comes from, None where the problem does not say it."""
    place = None if problem.slip is None else problem.slip.made
    return source.expression(place.span) if place is not None and place.path == source.path else None
