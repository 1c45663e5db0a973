"""What code asked for that it was not given: names that stand for nothing where something raised."""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from fxengine.classification import Moment
from fxengine.inputs.conditions import conditions_of, expression_nodes
from fxengine.inputs.frames import UNKNOWN
from fxengine.syntax import nodes_around

__all__ = ["absent_names", "is_nothing", "missing_names", "unbound_name"]

_FRAMES: Final = 6
"""How many frames are looked at, from the innermost outwards."""

_MISSING: Final = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
_UNBOUND: Final = re.compile(r"local variable '(\w+)'")


def absent_names(moments: tuple[Moment, ...], error: BaseException | None) -> Iterator[str]:
    """Yield the names which stand for nothing and for want of which something raised, those of inner frames first.

    They stand in the expressions that raised, in conditions under which these ran, or in such under which a variable
    would have got the value that it lacks.
    """
    inner = moments[:_FRAMES]
    if inner and isinstance(error, IndexError | ValueError):
        yield from _empty(inner[0])
    for moment in inner:
        yield from _in_expression(moment)
    for moment in inner[:1]:
        yield from _unassigned(moment, unbound_name(error))
    for moment in inner:
        yield from _in_conditions(moment)
    for moment in inner:
        for name in dict.fromkeys((*_in_expression(moment), *_in_conditions(moment))):
            yield from _unassigned(moment, name)


def missing_names(moments: tuple[Moment, ...], error: BaseException | None) -> list[str]:
    """Return the names of arguments that a function further in was not given, or of entries that `**kwargs` lack."""
    if isinstance(error, TypeError):
        missing = _MISSING.search(str(error))
        return re.findall(r"'(\w+)'", missing[1]) if missing is not None else []
    given = _called_as_keywords(moments)
    if not given:
        return []
    is_lacking = any(_looked_up_in(node) in given for node in expression_nodes(moments[0]))
    keys = error.args if isinstance(error, KeyError) and is_lacking else _checked(moments[0], given)
    return [key for key in keys if isinstance(key, str) and key.isidentifier()]


def _called_as_keywords(moments: tuple[Moment, ...]) -> frozenset[str]:
    """Return what the innermost function calls the `**kwargs` of its own, or of one that handed them on as a whole."""
    tables = [each for each in map(_keywords, moments) if each is not None]
    known = moments[0].frame.f_locals.items() if tables else ()
    return frozenset(name for name, value in known if any(value is each for each in tables))


def _keywords(moment: Moment) -> dict[str, Any] | None:
    """Return the `**kwargs` of the function that a frame runs, None where it has none."""
    code = moment.frame.f_code
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    before = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    found = moment.frame.f_locals.get(code.co_varnames[before])
    return found if type(found) is dict else None


def _checked(moment: Moment, given: frozenset[str]) -> Iterator[Any]:
    """Yield the keys that were to be in a dictionary for nothing to raise: `assert "target" in kwargs`."""
    around = nodes_around(moment.path, moment.source.span)[::-1]
    for test in (node.test for node in around if isinstance(node, ast.Assert | ast.If)):
        for each in ast.walk(test):
            match each:
                case ast.Compare(
                    left=ast.Constant(value=key), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]
                ) if name in given and key not in moment.frame.f_locals[name]:
                    yield key
                case _:
                    pass


def _looked_up_in(node: ast.AST) -> str:
    """Return the name in which an expression looks something up, as `kwargs["x"]` or `kwargs.pop("x")`; "" if none."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop")):
            return name
        case _:
            return ""


def unbound_name(error: BaseException | None) -> str:
    """Return the local variable that has no value, if an error says so, "" otherwise."""
    unbound = _UNBOUND.search(str(error)) if isinstance(error, UnboundLocalError) else None
    return unbound[1] if unbound is not None else ""


def _empty(moment: Moment) -> Iterator[str]:
    """Yield the names of any number of arguments in the expression that raised, if there are none."""
    for node in expression_nodes(moment):
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and is_nothing(moment.frame.f_locals.get(each.id, UNKNOWN)):
                yield each.id


def is_nothing(value: Any) -> bool:
    """Whether a value is what stands for any number of arguments where there are none."""
    return isinstance(value, tuple) and not value


def _in_expression(moment: Moment) -> Iterator[str]:
    """Yield the names that stand for None in the expression that raised."""
    for node in expression_nodes(moment):
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and _is_none(each.id, moment):
                yield each.id


def _in_conditions(moment: Moment) -> Iterator[str]:
    """Yield the names that had to be None for what raised to run, and those that are in what was asserted."""
    around = nodes_around(moment.path, moment.source.span)
    statement = next((each for each in around[::-1] if isinstance(each, ast.stmt)), None)
    if isinstance(statement, ast.Assert):
        names = (each.id for each in ast.walk(statement.test) if isinstance(each, ast.Name))
        yield from (name for name in names if _is_none(name, moment))
    for node in [each for each in around[::-1] if isinstance(each, ast.If)]:
        for each in ast.walk(node.test):
            match each:
                case ast.Compare(
                    left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as kind], comparators=[ast.Constant(value=None)]
                ):
                    is_otherwise = isinstance(kind, ast.IsNot)
                    if _is_none(name, moment) and is_otherwise is any(other in around for other in node.orelse):
                        yield name
                case _:
                    pass


def _unassigned(moment: Moment, variable: str) -> Iterator[str]:
    """Yield the names that stand for None and would have to stand for something for a variable to be assigned."""
    for test in conditions_of(variable, moment) if variable else ():
        for each in ast.walk(test):
            if isinstance(each, ast.Name) and _is_none(each.id, moment):
                yield each.id


def _is_none(name: str, moment: Moment) -> bool:
    return moment.frame.f_locals.get(name, UNKNOWN) is None
