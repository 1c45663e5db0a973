"""Calls that a file makes of its own classes, and that their constructors refuse: they fail as the file stands.

Where there is such a call no other arguments are looked for. It has to be one that nothing but its own text decides:
with literals alone, none of which may be another one at another call of the function around it, and where nobody waits
for it to fail.
"""

import ast
from typing import Any, Final, TypeAlias

from fxengine.classification import moments_of
from fxengine.syntax import Span, nodes_around
from fxworker.choices import call_in
from fxworker.loading import Loaded
from fxworker.meta import speaks_of_meta
from fxworker.wire import Construct

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_OF_ARGUMENTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a constructor raises that is given what it cannot take."""
_MADE: Final = frozenset({"call", "instance"})
"""Where the file's own text makes one."""


def is_refused_by(cls: Any, construct: Construct | None, error: BaseException | None, loaded: Loaded) -> bool:
    """Return whether a way to build a class is such a call, and its constructor has raised the error."""
    if construct is None or construct.source not in _MADE or not isinstance(error, _OF_ARGUMENTS) or loaded.missing:
        return False
    moments = moments_of(error.__traceback__)
    within = any(each.frame.f_code.co_name == "__init__" and type(each.value_of("self")) is cls for each in moments)
    return within and not speaks_of_meta(error) and _is_made_here(construct) and _has_literals_alone(construct)


def _is_made_here(construct: Construct) -> bool:
    """Whether a call stands in the code, not in a text, and where what it raises is neither handled nor expected."""
    if construct.location is None:
        return False
    span = construct.location.span
    around = nodes_around(construct.location.path, Span(span.line, span.column, span.end_line, span.end_column))
    call = next((each for each in reversed(around) if isinstance(each, ast.Call)), None)
    if call is None or any(isinstance(each, ast.With | ast.Try | ast.Constant) for each in around):
        return False
    functions = [each for each in around if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return not any(_names_behind(call, each) & _parameters_of(each) for each in functions)


def _names_behind(call: ast.Call, function: _Function) -> set[str]:
    """Return the names that a call in a function mentions, and those that it assigns them from."""
    assignments = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    found, todo = set[str](), _names_in(call)
    while todo:
        found |= todo
        values = [each.value for each in assignments if any(_names_in(target) & todo for target in each.targets)]
        todo = set[str]().union(*map(_names_in, values)) - found
    return found


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _parameters_of(function: _Function) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _has_literals_alone(construct: Construct) -> bool:
    call = call_in(construct.expression)
    if call is None:
        return False
    try:
        for value in (*call.args, *(each.value for each in call.keywords)):
            ast.literal_eval(value)
    except ValueError:
        return False
    return True
