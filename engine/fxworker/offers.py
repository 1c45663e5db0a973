"""What a person is offered where a statement is not executed, or fails: to run it, or to say what it assigns.

Both are comments that are inserted above the statement, as `orders` reads them.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from fxengine.syntax import tree_of
from fxworker.conventions import usual_values
from fxworker.orders import RUN
from fxworker.reparsing import first_line
from fxworker.wire import Edit, Fix, Location, Span

_DEVICE: Final = re.compile(r"(?i)dev(ice)?")
_NOTHING: Final = "None"


def offers(path: str, text: str, name: str, binder: ast.stmt, statement: ast.stmt | None) -> Iterator[Fix]:
    """Yield the ways to get a name's value, each as the insertion of a comment.

    Args:
        path: The file.
        text: Its text.
        name: The name.
        binder: The statement that assigns it.
        statement: The statement that is not executed, None where it was and failed.
    """
    if _assigns_only(binder, name):
        value = _value(name, path)
        yield _inserted(path, text, f"{name} = {value}", binder, f"Say what {name} is: # fx: {name} = {value}")
    if statement is not None:
        title = f"Execute line {statement.lineno} all the same: # fx: {RUN}"
        yield _inserted(path, text, RUN, statement, title)


def _assigns_only(node: ast.stmt, name: str) -> bool:
    """Whether a statement assigns a name and nothing else, at once or with a file open."""
    match node:
        case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)):
            return found == name
        case ast.With(body=[inner]):
            return _assigns_only(inner, name)
        case _:
            return False


def _value(name: str, path: str) -> str:
    """Return what a name may be, as what is asked of it in a file and its own words tell."""
    keys: dict[str, str] = {}
    is_measured = False
    tree = tree_of(path)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case (
                ast.Subscript(value=ast.Name(id=asked), slice=ast.Constant(value=str(key)))
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=asked), attr="get"), args=[ast.Constant(value=str(key)), *_]
                )
            ) if asked == name:
                keys[key] = _usual(key)
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=asked)]) if asked == name:
                is_measured = True
            case _:
                pass
    if keys:
        return f"{{{', '.join(f'{key!r}: {value}' for key, value in keys.items())}}}"
    value = _usual(name)
    return f"range({value})" if is_measured and value.isdecimal() else value


def _usual(name: str) -> str:
    return next(iter(usual_values(name)), "'cpu'" if _DEVICE.fullmatch(name) else _NOTHING)


def _inserted(path: str, text: str, order: str, node: ast.stmt, title: str) -> Fix:
    line = first_line(node)
    end = "\r\n" if "\r\n" in text else "\n"
    place = Location(path, Span(line, 0, line, 0))
    return Fix(title, (Edit(place, f"{' ' * node.col_offset}# fx: {order}{end}"),), verified=False)
