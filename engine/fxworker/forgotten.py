"""A name that nothing gives in a file since an import was forgotten: which one that is, and where it goes.

Only what nearly every file of models imports by that name is known here, and the modules of Python itself.
"""

import ast
import sys
import typing
from dataclasses import replace
from typing import Final

from fxengine.errors import kept_in
from fxengine.syntax import tree_of
from fxworker.mistakes import may_bind
from fxworker.wire import Edit, Fix, Location, Problem, Span

_MODULES: Final = {
    "F": ("torch.nn.functional", "import torch.nn.functional as F"),
    "nn": ("torch.nn", "from torch import nn"),
    "np": ("numpy", "import numpy as np"),
    "torch": ("torch", "import torch"),
}
"""Modules by the names that they are imported as, and how."""

_GIVEN: Final = {
    "OrderedDict": "collections",
    "Tensor": "torch",
    "dataclass": "dataclasses",
    "deepcopy": "copy",
    "defaultdict": "collections",
    "namedtuple": "collections",
    "partial": "functools",
    "rearrange": "einops",
}
"""What is imported from modules."""


def told(problem: Problem, error: BaseException) -> Problem | None:
    """Return a problem that says which import is missing, with its insertion; None where none is, or another is."""
    path = problem.location.path
    statement = _forgotten(error, path)
    if not statement:
        return None
    message = f"{problem.message}: `{statement}` is missing"
    return replace(problem, message=message, fixes=_inserted(path, statement))


def _forgotten(error: BaseException, path: str) -> str:
    """Return the import whose want an error says, as no statement of a file gives the name; "" where it says none."""
    name = kept_in(error, NameError, "name") if type(error) is NameError else None
    tree = tree_of(path) if isinstance(name, str) else None
    if not isinstance(name, str) or tree is None or may_bind(tree, name):
        return ""
    uses = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == name]
    asked = _attributes_of(uses, tree)
    if not uses:
        return ""
    if not asked:
        module = _GIVEN.get(name) or ("typing" if name in typing.__all__ else "")
        return f"from {module} import {name}" if module else ""
    module, statement = _MODULES.get(name, (name if name in sys.stdlib_module_names else "", f"import {name}"))
    # A module of Python's that nothing has imported would be run by asking it.
    found = sys.modules.get(module) if len(asked) == len(uses) or name in _MODULES else None
    return statement if found is not None and all(hasattr(found, each) for each in asked) else ""


def _inserted(path: str, statement: str) -> tuple[Fix, ...]:
    """Return the insertion of an import: Python's own modules before the others, what is installed behind them."""
    tree = tree_of(path)
    if tree is None:
        return ()
    body = tree.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    while body and isinstance(body[0], ast.ImportFrom) and body[0].module == "__future__":
        body = body[1:]
    if not body:
        return ()
    line = body[0].lineno
    if statement.split()[1] not in sys.stdlib_module_names:
        for each in body:
            if not isinstance(each, ast.Import | ast.ImportFrom):
                break
            line = (each.end_lineno or each.lineno) + 1
    edit = Edit(Location(path, Span(line, 0, line, 0)), f"{statement}\n")
    return (Fix(f"Add `{statement}`", (edit,), verified=False),)


def _attributes_of(uses: list[ast.Name], tree: ast.Module) -> list[str]:
    """Return the attributes that a file takes of a name where it uses it."""
    nodes = (each for each in ast.walk(tree) if isinstance(each, ast.Attribute))
    return [each.attr for each in nodes if each.value in uses]
