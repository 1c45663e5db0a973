"""Whether an import that is going on may fail: something around it catches that, or only asks whether it would."""

import ast
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from fxworker.callers import parsed

_CATCHING: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})

_OURS: Final = __file__.rpartition("/")[0] + "/"

_TELLING: Final = re.compile(r"(warnings\.|warn\(|logg|print\()|[\w.()]+\.(debug|info|warn|warning|error|exception)\(")
"""How calls begin that do nothing but tell somebody."""


def unguarded() -> types.TracebackType | None:
    """Return the way to an import that is going on, None where something on it is prepared for the import to fail."""
    frame: types.FrameType | None = sys._getframe(2)
    way: types.TracebackType | None = None
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        path, line = frame.f_code.co_filename, frame.f_lineno
        if path.startswith("<frozen importlib.util"):
            return None  # It only asks whether there is one.
        if not path.startswith("<frozen"):
            # A module may be executed statement by statement, without the handlers that stand around them.
            may_catch = frame.f_code.co_exceptiontable or frame.f_code.co_name == "<module>"
            uses = _nothing if "site-packages" in path else ast.walk
            if may_catch and _stands_in_guarded(path, line, itself=_is_executed(frame), uses=uses):
                return None
            way = types.TracebackType(way, frame, frame.f_lasti, line)
        frame = frame.f_back
    return way


def is_prepared(frame: types.FrameType) -> bool:
    """Whether code catches that what it does right now fails for want of something."""
    code = frame.f_code
    may_catch = bool(code.co_exceptiontable)
    return may_catch and _stands_in_guarded(code.co_filename, frame.f_lineno, itself=False, uses=_nothing)


def is_caught(way: types.TracebackType | None) -> bool:
    """Whether another file than the one that is executed catches that what a way leads to cannot be imported."""
    while way is not None:
        path = way.tb_frame.f_code.co_filename
        if not _is_executed(way.tb_frame) and _stands_in_guarded(path, way.tb_lineno, itself=False, uses=_at_import):
            return True
        way = way.tb_next
    return False


def _is_executed(frame: types.FrameType) -> bool:
    """Whether a frame is that of the file which is executed here, and not of what that imports."""
    return frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_OURS)


def _stands_in_guarded(path: str, line: int, *, itself: bool, uses: Callable[[ast.Module], Iterable[ast.AST]]) -> bool:
    """Whether a line of a file is one in which it catches that something cannot be imported."""
    text = "".join(linecache.getlines(path))
    return any(first <= line <= last for first, last in _guarded(text, itself=itself, uses=uses))


@lru_cache(maxsize=256)
def _guarded(
    text: str, *, itself: bool, uses: Callable[[ast.Module], Iterable[ast.AST]]
) -> tuple[tuple[int, int], ...]:
    """Return the lines of a text, from and to, in which it catches that something cannot be imported.

    Where all that comes of it is an error for whoever wants it, the file `itself` is not prepared to do without. Nor is
    one that in the parts which `uses` gives uses what nothing takes the place of: none of those of a foreign package,
    which others try without. Where a class of the file derives from the None that does, no file is.
    """
    found: list[tuple[int, int]] = []
    tree = parsed(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
            if (itself and _only_refuses(node, tree)) or not _may_be_none(node, tree):
                continue
            if _is_used_regardless(node, uses(tree)):
                continue
            found.append((node.body[0].lineno, node.body[-1].end_lineno or 0))
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(each.context_expr) for each in node.items):
            found.append((node.lineno, node.end_lineno or 0))
    return tuple(found)


def _may_be_none(node: ast.Try, tree: ast.Module) -> bool:
    """Whether a file can do with None in the place of what was to be imported: none of its classes derives from it."""
    bases = [base for each in tree.body if isinstance(each, ast.ClassDef) for base in each.bases]
    roots = {ast.unparse(each).partition(".")[0] for each in bases}
    for each in (statement for handler in node.handlers for statement in handler.body):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=None)) if name in roots:
                return False
            case _:
                pass
    return True


def _only_refuses(node: ast.Try, tree: ast.Module) -> bool:
    """Whether all that is kept of a failure is what code only asks to raise: `if not HAS_IT: raise`.

    It may be a flag, the error, or None in the place of what was to be imported, which is called where it is there, or
    without asking. A class derives from `object` then.
    """
    flags = set[str]()
    errors = {handler.name for handler in node.handlers}
    for each in (statement for handler in node.handlers for statement in handler.body):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=False | None)):
                flags.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=caught)) if caught in errors:
                flags.add(name)
            case ast.Assign(targets=[ast.Name()], value=ast.Name(id="object")):
                pass
            case _ if _tells(each):
                pass
            case _:
                return False
    nodes = list(ast.walk(tree))
    refusals = [(each, flag.id) for each in nodes if (flag := _wanted(each)) is not None]
    refusing = {
        each for one, flag in refusals for each in ast.walk(one) if isinstance(each, ast.Name) and each.id == flag
    }
    called = {each.func for each in nodes if isinstance(each, ast.Call)}
    # None has nothing that is read from what was to be imported.
    called |= {each.value for each in nodes if isinstance(each, ast.Attribute)}
    uses = {
        each for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in flags
    }
    return bool(uses & refusing or uses & {*_called_always(tree)}) and uses <= refusing | called


def _nothing(_: ast.Module) -> Iterable[ast.AST]:
    """Yield no part of a file."""
    return ()


def _at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the parts of a file that are executed when it is imported."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        later = {*node.body} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else set[ast.stmt]()
        left += (
            [] if isinstance(node, ast.Lambda) else [each for each in ast.iter_child_nodes(node) if each not in later]
        )


def _is_used_regardless(node: ast.Try, parts: Iterable[ast.AST]) -> bool:
    """Whether parts of a file use what was to be imported though nothing takes its place: a failure is only told."""
    names = {
        alias.asname or alias.name.partition(".")[0]
        for each in node.body
        if isinstance(each, ast.Import | ast.ImportFrom)
        for alias in each.names
    }
    does_more = node.orelse or not all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)
    if does_more or not all(_tells(each) for handler in node.handlers for each in handler.body):
        return False
    inner, uses = {*ast.walk(node)}, False
    for each in (each for each in parts if each not in inner):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                if name == "NameError":
                    return False  # It may be caught where it is used.
                uses = uses or name in names
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name in names:
                return False
            case ast.alias(name=name, asname=other) if (other or name.partition(".")[0]) in names:
                return False
            case _:
                pass
    return uses


def _tells(statement: ast.stmt) -> bool:
    """Whether a statement does nothing, or only tells somebody something."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call()):
            return _TELLING.match(ast.unparse(statement)) is not None
        case _:
            return False


def _called_always(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what functions call under no condition, and unless something is caught."""
    for function in ast.walk(tree):
        for statement in function.body if isinstance(function, ast.FunctionDef) else ():
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
                yield from (each.func for each in ast.walk(statement) if isinstance(each, ast.Call))


def _wanted(node: ast.AST) -> ast.Name | None:
    """Return the flag without which a statement raises, None where it does something else."""
    match node:
        case ast.Assert(test=ast.Name() as flag):
            return flag
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Name() as flag), body=[ast.Raise()]):
            return flag
        case ast.If(test=ast.Compare(left=ast.Name() as flag, ops=[ast.Is() | ast.IsNot()]), body=[ast.Raise()]):
            return flag
        case _:
            return None


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches an `ImportError`, and does not only raise it, or another, again."""
    if isinstance(handler.body[-1], ast.Raise):
        return False
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = ("Exception" if each is None else ast.unparse(each).rpartition(".")[2] for each in kinds)
    return any(name in _CATCHING for name in names)
