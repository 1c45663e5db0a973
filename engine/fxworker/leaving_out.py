"""Calls that are left out while a model is built: what the project calls for nothing that is kept, and fails here.

A project has its own ways to fetch weights and to load them: `load_pretrained(self, URL)`. Where such a call fails for
want of the network, or of a package that is not installed, the model is as it was before the call, without the weights.
A call that may be there to make a part of the model is no such call, and fails as it does.
"""

import ast
import dis
import inspect
import re
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final, TypeVar

from fxengine.classification import Moment, moments_of
from fxengine.errors import text_of
from fxengine.syntax import nodes_around
from fxworker.absences import ABSENCES
from fxworker.callers import drops
from fxworker.imported import file_of
from fxworker.offline import NO_COMPILER, NO_NETWORK
from fxworker.readings import is_of_project
from fxworker.retrying import again
from fxworker.sandbox import kept_from

_MOST: Final = 4
"""How many functions one model may do without."""

_VALUES: Final = frozenset({"data", "weight", "bias", "grad", "requires_grad"})
"""Attributes that are set of what there is already."""

_MAKING: Final = frozenset({"setattr", "__setattr__", "__dict__", "add_module", "register_module", "register_buffer"})
"""Names of what gives an object a part, in the code of a function."""

_CHECKSUM: Final = re.compile(r"md5|sha\d+|hexdigest|check_?sum", re.IGNORECASE)
"""What is looked up by code that tells whether a file is the one that it should be."""

_Result = TypeVar("_Result")


def with_calls_left_out(work: Callable[[], _Result]) -> _Result:
    """Do something, again as often as a call in it can be left out that failed, and return what it gives.

    Raises:
        BaseException: What it raises for another reason.
    """
    return again(work, lambda error: _is_for_want(error) and _leave_out(error), _MOST)


def _is_for_want(error: BaseException | None) -> bool:
    """Whether something failed for want of the network, a compiler, a place to write, or a package that is absent.

    What stands in for a file that was to be fetched is not the one that code expects which compares checksums.
    """
    if error is not None and (kept_from(error) or _compares_checksums(error)):
        return True
    seen = set[int]()
    while error is not None and id(error) not in seen:
        absent = isinstance(error, ModuleNotFoundError) and ABSENCES.leads_into(error.name or "")
        if absent or any(each in text_of(error) for each in (NO_NETWORK, NO_COMPILER)):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _compares_checksums(error: BaseException) -> bool:
    """Whether the code that raised something looks at the checksum of a file."""
    moments = moments_of(error.__traceback__)
    return bool(moments) and any(map(_CHECKSUM.search, moments[-1].frame.f_code.co_names))


def _leave_out(error: BaseException) -> bool:
    """Let the innermost function do nothing from now on that can be left out, and return whether there is one."""
    for caller, callee in reversed([*pairwise(moments_of(error.__traceback__))]):
        if not (is_of_project(caller.path) and drops(caller.frame.f_code, caller.lasti)):
            continue
        for owner, name, function in _called(caller):
            code = getattr(inspect.unwrap(function), "__code__", None)
            if isinstance(code, types.CodeType) and is_of_project(callee.path) and not _makes(code):
                _put(owner, name, function)
                return True
    return False


def _called(caller: Moment) -> Iterator[tuple[Any, str, Any]]:
    """Yield what holds the function that is called, its name there, and the function."""
    match nodes_around(caller.path, caller.source.span)[-1:]:
        case [ast.Call(func=ast.Name(id=name))] if name in caller.frame.f_globals:
            yield caller.frame.f_globals, name, caller.frame.f_globals[name]
        case [ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=name))]:
            value = _value(owner, caller)
            for each in (value,) if isinstance(value, types.ModuleType) else type(value).__mro__:
                home = each.__name__ if isinstance(each, types.ModuleType) else each.__module__
                if name in vars(each) and is_of_project(file_of(home) or ""):
                    yield each, name, vars(each)[name]
                    return
        case _:
            return


def _value(node: ast.expr, moment: Moment) -> Any:
    """Return what a name, or a module in a module, stands for; None for another expression."""
    match node:
        case ast.Name(id=name):
            return moment.value_of(name)
        case ast.Attribute(value=ast.expr() as owner, attr=name):
            around = _value(owner, moment)
            return vars(around).get(name) if isinstance(around, types.ModuleType) else None
        case _:
            return None


def _makes(code: types.CodeType) -> bool:
    """Whether the code of a function may give an object a part: it sets attributes that are no values of others."""
    stored = {
        each.argval for each in dis.get_instructions(code) if each.opname in {"STORE_ATTR", "STORE_GLOBAL"}
    } - _VALUES
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return bool(stored) or not _MAKING.isdisjoint(code.co_names) or any(map(_makes, inner))


def _put(owner: Any, name: str, function: Any) -> None:
    """Put what does nothing in the place of a function."""
    idle: Any = staticmethod(_do_nothing) if isinstance(function, staticmethod) else _do_nothing
    if isinstance(owner, dict):
        owner[name] = idle
    else:
        setattr(owner, name, idle)


def _do_nothing(*_args: Any, **_kwargs: Any) -> None:
    """Stand for what loads weights that are not there."""
