"""Whether the packages around a file have to be imported before it is executed, as Python imports them.

A package often imports all that it has, which takes longer than anything else when a file is opened, and the file may
use nothing of it. Then it is left to whatever asks for it later: an import in a function, a configuration's class.
"""

import ast
import re
from collections.abc import Iterable
from typing import Final

_PLAIN: Final = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass, ast.Raise)

_RELATIVE: Final = re.compile(r"from\s+\.")


def may_import_from(text: str, package: str) -> bool:
    """Whether a text may import something of a package around it, or of one beside it."""
    if _RELATIVE.search(text) is not None:
        return True
    top = package.partition(".")[0]
    return top in text and re.search(rf"(?:from|import)\s[^\n#]*\b{re.escape(top)}\b", text) is not None


def only_defines(text: str) -> bool:
    """Whether the file of a package does no more than define names and import modules, and changes nothing else."""
    try:
        return _are_defining(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _are_defining(statements: Iterable[ast.stmt]) -> bool:
    return all(map(_is_defining, statements))


def _is_defining(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return all(isinstance(each, ast.Name) for each in targets)
        case ast.AnnAssign(target=ast.Name()) | ast.AugAssign(target=ast.Name()) | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")))):
            return True
        case ast.If(body=body, orelse=orelse):
            return _are_defining((*body, *orelse))
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last):
            return _are_defining((*body, *(each for one in handlers for each in one.body), *orelse, *last))
        case _:
            return isinstance(statement, _PLAIN)
