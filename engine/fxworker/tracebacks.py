"""What an exception came through: functions, frames and lines, conditions that it was raised under, names in them.

What it says by that of the arguments is read elsewhere (`complaints`).
"""

import ast
import itertools
import linecache
import re
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, TypeAlias

from torch import nn

from fxengine.classification import Moment, moments_of
from fxengine.errors import text_of
from fxengine.source import is_user_file
from fxengine.syntax import nodes_around
from fxworker.callers import EXPRESSION
from fxworker.choices import attribute_of
from fxworker.handing import handed_from
from fxworker.lacking import WORD, Moments

Places: TypeAlias = tuple[tuple[CodeType, int], ...]
"""Functions, and lines in them."""

_ASSIGNED: Final = re.compile(r"\s*(?:for ([\w., ()]+?) in|([\w., ]+?)\s*[-+*/]?=(?!=))(.*)")
_FURTHEST: Final = 100
"""How many lines above one are read for what its variables were computed from."""

_LONGEST: Final = 32
"""How many lines of a call are read."""


def moments_through(traceback: TracebackType | None) -> Iterator[tuple[str, FrameType, str]]:
    """Yield function, frame and source line of what an exception came through, innermost first."""
    found: Moments = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        line = _whole_line(code.co_filename, traceback.tb_lineno)
        found.append((code.co_name, traceback.tb_frame, line))
        traceback = traceback.tb_next
    yield from reversed(found)


def is_given_none(moment: Moment) -> bool:
    """Whether the call that raised was given None by a name, of which not all say so: `torch.empty(self.cfg.n)`."""
    call = next(iter(nodes_around(moment.path, moment.source.span)[::-1]), None)
    given = call.args if isinstance(call, ast.Call) else []
    return any(_value_of(each, moment.frame) is None for each in given)


def _value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return what a name stands for, or an attribute of one; `...` for anything else."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, ...)
        case ast.Attribute(value=owner, attr=name) if (whole := _value_of(owner, frame)) is not ...:
            return attribute_of(whole, name)
        case _:
            return ...


def conditions_of(error: BaseException) -> list[ast.expr]:
    """Return the conditions under which code raised by itself, innermost first, or makes the variable that it lacks.

    Then come those under which it would have returned before that.
    """
    moments = moments_of(error.__traceback__)
    if isinstance(error, UnboundLocalError) and moments:
        around = nodes_around(moments[-1].path, moments[-1].source.span)
        return [*_assigning(around, dict.fromkeys(re.findall(r"'(\w+)'", text_of(error))))]
    if not moments or not (moments[-1].opname == "RAISE_VARARGS" or is_raising(error)):
        return []
    around = nodes_around(moments[-1].path, moments[-1].source.span)[::-1]
    return [node.test for node in around if isinstance(node, ast.If | ast.Assert)] + [*_not_met(around)]


def _not_met(around: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield the conditions under which code would have returned before a `raise`, the nearest first."""
    for node, outer in itertools.pairwise(around):
        if isinstance(node, ast.Raise):
            blocks: list[list[ast.stmt]] = [getattr(outer, name, []) for name in ("body", "orelse", "finalbody")]
            before = next((block[: block.index(node)] for block in blocks if node in block), [])
            for each in reversed(before):
                if isinstance(each, ast.If):
                    yield from reversed([*_returning(each)])


def _returning(choice: ast.If) -> Iterator[ast.expr]:
    """Yield the conditions of `if`, and of each `elif`, under which code returns."""
    if isinstance(choice.body[-1], ast.Return):
        yield choice.test
    match choice.orelse:
        case [ast.If() as other]:
            yield from _returning(other)
        case _:
            pass


def words_of(error: BaseException, text: str, moments: Moments, tests: list[ast.expr]) -> Iterator[str]:
    """Yield the names in a message, then those in the lines on the way, then what these were made of.

    What a condition is about that raised comes first, as it is called where it was given.
    """
    conditions = (word for test in tests for word in WORD.findall(ast.unparse(test)))
    lines = (word for *_, line in moments for word in WORD.findall(line))
    sources = (word for _, frame, line in _of_construction(moments) for word in sources_of(frame, line))
    table = looked_into(error)
    subject = tests[0] if tests else table.value if table is not None else None
    handed = handed_from(moments_of(error.__traceback__), subject) if subject is not None else []
    # What it is an entry of comes before it.
    entries = reversed(WORD.findall(ast.unparse(table.value))) if table is not None else ()
    choices = (word for test in _choices(error, moments) for word in WORD.findall(ast.unparse(test)))
    yield from dict.fromkeys([*handed, *entries, *WORD.findall(text), *conditions, *lines, *sources, *choices])


def spread_in(moments: Moments) -> Iterator[str]:
    """Yield what the mappings on the way are called that are handed on as in `Net(**options["net"])`."""
    for *_, line in moments:
        for each in re.findall(r"\*\*([\w.\[\]'\"]+)", line):
            yield WORD.findall(each)[-1] if WORD.search(each) else ""


def is_evaluated(error: BaseException) -> bool:
    """Whether an error is that of an expression which the code had as text."""
    return next((frame.f_code.co_filename == "<string>" for _, frame, _ in moments_through(error.__traceback__)), False)


def is_raising(error: BaseException) -> bool:
    """Whether an error is that of a line which was to raise another: `raise Error("…")`."""
    return next((line.lstrip().startswith("raise ") for *_, line in moments_through(error.__traceback__)), False)


def handled_in(error: BaseException) -> BaseException | None:
    """Return the error that code was about to handle as it raised another one, None if there is none."""
    handled = error.__cause__ or error.__context__
    through = handled.__traceback__ if handled is not None else None
    frames = {id(frame) for _, frame, _ in moments_through(error.__traceback__)}
    return handled if through is not None and id(through.tb_frame) in frames else None


def sources_of(frame: FrameType, line: str) -> list[str]:
    """Return the names that the variables in a line of a function were computed from, in the lines above it."""
    path, first = frame.f_code.co_filename, frame.f_code.co_firstlineno
    if line.lstrip().startswith("raise"):
        line += linecache.getline(path, frame.f_lineno - 1)  # The condition.
    wanted, found = set(WORD.findall(line)), list[str]()
    for number in range(frame.f_lineno - 1, max(first, frame.f_lineno - _FURTHEST), -1):
        assigned = _ASSIGNED.match(linecache.getline(path, number))
        if assigned is not None and not wanted.isdisjoint(WORD.findall(assigned[1] or assigned[2])):
            words = WORD.findall(assigned[3])
            found += words
            wanted.update(words)
    return found


def depth_of(error: BaseException | None) -> int:
    """Return how far an attempt came, as the line of the outermost constructor that raised."""
    traceback = error.__traceback__ if error is not None else None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "__init__":
            return traceback.tb_lineno
        traceback = traceback.tb_next
    return 0


def places_of(error: BaseException | None) -> Places:
    """Return the functions that an attempt came through with the lines that they were at, outermost first."""
    found: list[tuple[CodeType, int]] = []
    traceback = error.__traceback__ if error is not None else None
    while traceback is not None:
        found.append((traceback.tb_frame.f_code, traceback.tb_lineno))
        traceback = traceback.tb_next
    at = next((at for at, (code, _) in enumerate(found) if code.co_filename == EXPRESSION), -1)
    return tuple(found[at + 1 :])


def is_further(places: Places, before: Places) -> bool:
    """Whether an attempt failed behind the place where another one did, or inside what failed there.

    Both came the same way up to a function in which the one was at a later line.
    """
    for (code, line), (other, at) in zip(places, before, strict=False):
        if code is not other or line != at:
            return code is other and line > at
    return len(places) > len(before)


def parts_made(error: BaseException | None) -> int:
    """Return how many parts the outermost model had that was being constructed when an attempt failed."""
    traceback = error.__traceback__ if error is not None else None
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        if traceback.tb_frame.f_code.co_name == "__init__" and isinstance(owner, nn.Module):
            return len(owner.__dict__.get("_modules", ())) + len(owner.__dict__.get("_parameters", ()))
        traceback = traceback.tb_next
    return 0


def _assigning(around: Iterable[ast.AST], names: Iterable[str]) -> Iterator[ast.expr]:
    """Yield the conditions under which the function that holds some nodes assigns variables, first those inside."""
    functions = [each for each in around if isinstance(each, ast.FunctionDef)]
    tests = [node for function in functions[-1:] for node in ast.walk(function) if isinstance(node, ast.If)]
    for node in tests:
        stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        if not stored.isdisjoint(names):
            yield node.test


def looked_into(error: BaseException) -> ast.Subscript | None:
    """Return the expression that looks something up in what nothing can be looked up in; None for another error."""
    moment = next(iter(moments_of(error.__traceback__)[-1:]), None) if isinstance(error, TypeError) else None
    around = nodes_around(moment.path, moment.source.span) if moment is not None else []
    match around[-1:]:
        case [ast.Subscript() as node]:
            return node
        case _:
            return None


def _choices(error: BaseException, moments: Moments) -> Iterator[ast.expr]:
    """Yield the conditions under which code looked for something that is not on this machine, innermost first."""
    is_of_environment = bool(moments) and moments[0][1].f_globals.get("__name__") == "os"
    if is_of_environment or isinstance(error, OSError | ImportError):
        for moment in reversed(moments_of(error.__traceback__)):
            around = nodes_around(moment.path, moment.source.span) if is_user_file(moment.path) else []
            yield from (node.test for node in reversed(around) if isinstance(node, ast.If))


def _of_construction(moments: Moments) -> Moments:
    """Return the constructors on the way, and the methods that the outermost one calls."""
    outermost = max((at for at, (name, *_) in enumerate(moments) if name == "__init__"), default=-1)
    return [each for each in moments[: outermost + 1] if each[0] == "__init__" or "self" in each[1].f_locals]


def _whole_line(path: str, line: int) -> str:
    """Return the line of a file, with those after it that its brackets go on in."""
    text = linecache.getline(path, line)
    for following in range(line + 1, line + _LONGEST):
        if text.count("(") + text.count("[") <= text.count(")") + text.count("]"):
            break
        text += linecache.getline(path, following)
    return text
