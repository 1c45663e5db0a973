"""Tables that take a name only once: what an import that failed had put into them is taken out for the next one.

An import is made again where something was wanting that is supplied by then, and what stood in for a class where a
package is not installed gives way to the class. What two definitions of one module want to be called stays a mistake.
"""

import ast
from collections.abc import Callable, Iterator, MutableMapping, MutableSet
from types import FunctionType
from typing import Any, Final

from fxengine.classification import Moment, moments_of
from fxengine.syntax import nodes_around
from fxworker.retrying import again

_MOST: Final = 24
"""How many names one import may want to give anew."""


def registered_anew(work: Callable[[], object]) -> None:
    """Import something, again as often as a table refuses a name in it that can be taken out.

    Raises:
        BaseException: What it raises for another reason.
    """
    again(work, _taken_out, _MOST)


def _taken_out(error: Exception) -> bool:
    """Whether something was raised since a table has a name already, and has it no longer."""
    moments = moments_of(error.__traceback__)
    if not moments or not moments[-1].raises or not _is_imported(moments):
        return False
    last = moments[-1]
    for table, name in _asked(last):
        has = table[name] if isinstance(table, MutableMapping) else None
        if not _is_double(last, has):
            if isinstance(table, MutableMapping):
                del table[name]
            else:
                table.discard(name)
            return True
    return False


def _is_imported(moments: list[Moment]) -> bool:
    """Whether a module is executed on the way that is imported by another one."""
    return sum(each.frame.f_code.co_name == "<module>" for each in moments) > 1


def _asked(moment: Moment) -> Iterator[tuple[Any, Any]]:
    """Yield the tables that code asked whether they have a name, and the name, under which it then raised."""
    for around in reversed(nodes_around(moment.path, moment.source.span)):
        for node in ast.walk(around.test) if isinstance(around, ast.If | ast.Assert) else ():
            match node:
                case ast.Compare(left=asked, ops=[ast.In() | ast.NotIn()], comparators=[held]):
                    name, table = _value(asked, moment), _value(held, moment)
                    if isinstance(table, MutableMapping | MutableSet) and name.__hash__ and name in table:
                        yield table, name
                case _:
                    pass


def _value(node: ast.expr, moment: Moment) -> Any:
    """Return what names, attributes and tables in a table stand for, None for another expression."""
    match node:
        case ast.Name(id=name):
            return moment.value_of(name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(owner, moment), name, None)
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            tables = _value(owner, moment)
            return tables.get(key) if isinstance(tables, MutableMapping) else None
        case _:
            return None


def _is_double(moment: Moment, has: Any) -> bool:
    """Whether what has a name is another definition of the module that wants to give it again."""
    wanting = [
        each for each in moment.frame.f_locals.values() if isinstance(each, type | FunctionType) and each is not has
    ]
    return any(
        each.__module__ == getattr(has, "__module__", "") and each.__qualname__ != getattr(has, "__qualname__", "")
        for each in wanting
    )
