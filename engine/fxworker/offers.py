"""What a person is offered where a statement is not executed, or fails: to run it, or to say what it assigns.

Both are comments that are inserted above the statement, as `orders` reads them.
"""

import ast
from collections.abc import Iterator

from fxengine.syntax import tree_of
from fxworker.assuming import value_of
from fxworker.orders import RUN
from fxworker.reparsing import first_line
from fxworker.wire import Edit, Fix, Location, Span


def offers(path: str, name: str, binder: ast.stmt, statement: ast.stmt | None) -> Iterator[Fix]:
    """Yield the ways to get a name's value, each as the insertion of a comment.

    Args:
        path: The file.
        name: The name.
        binder: The statement that assigns it.
        statement: The statement that is not executed, None where it was and failed.
    """
    if _assigns_only(binder, name):
        value = value_of(name, binder, tree_of(path))
        yield _inserted(path, f"{name} = {value}", binder, f"Say what {name} is: # fx: {name} = {value}")
    if statement is not None:
        title = f"Execute line {statement.lineno} all the same: # fx: {RUN}"
        yield _inserted(path, RUN, statement, title)


def _assigns_only(node: ast.stmt, name: str) -> bool:
    """Whether a statement assigns a name and nothing else, at once or with a file open."""
    match node:
        case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)):
            return found == name
        case ast.With(body=[inner]):
            return _assigns_only(inner, name)
        case _:
            return False


def _inserted(path: str, order: str, node: ast.stmt, title: str) -> Fix:
    line = first_line(node)
    place = Location(path, Span(line, 0, line, 0))
    return Fix(title, (Edit(place, f"{' ' * node.col_offset}# fx: {order}\n"),), verified=False)
