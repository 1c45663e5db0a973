"""Where something stands in for a module of which nothing is known, and what is computed from what it gives.

Which sizes a module would give that an argument is meant for, nobody knows: what does not fit behind it may fit.
"""

import ast
import re
from typing import Final

from torch import nn

from fxengine.capturing.dimensions import Dimension
from fxengine.node import Node
from fxworker.building import Built, built_as
from fxworker.loading import Loaded
from fxworker.stock import has_stand_in, is_stand_in
from fxworker.wire import Construct, TraceTarget

_NAME: Final = "Refusing"
_REFUSING: Final = (
    f"type({_NAME!r}, (torch.nn.Module,), {{'__init__': lambda self, *_, **__: torch.nn.Module.__init__(self)}})"
)
"""A class of modules that are made of anything, and that nobody can call."""

_KEEPS_SIZES: Final = re.compile(r"act|norm|drop|relu", re.IGNORECASE)
"""How something is called that gives as much as it is given, if it is no gate."""


def refusing(construct: Construct, target: TraceTarget, loaded: Loaded) -> Built | None:
    """Return a model in which nothing can be called that stands in for a module; None if it is not built so."""
    expression = ast.unparse(_Refusing().visit(ast.parse(construct.expression.strip(), mode="eval")))
    return built_as(expression, target, loaded)


def is_behind_one(
    node: Node, sizes: tuple[Dimension, ...], root: nn.Module, built: tuple[Construct, TraceTarget, Loaded]
) -> bool:
    """Return whether the first of two sizes comes to a node by way of what stands in for a module that may change it.

    Args:
        node: The node at which they do not go together.
        sizes: The two.
        root: The model.
        built: How it was built, with the target and the file.
    """
    if not has_stand_in(built[0].expression):
        return False
    made, wanted = sizes
    maker = made.built.layer if made.built is not None else None
    may_be_gate = made.size == 2 * wanted.size
    seen, todo = set[Node](), list(node.all_input_nodes)
    paths = [path for path in _paths(root, *built) if may_be_gate or not _KEEPS_SIZES.search(path)]
    while todo:
        each = todo.pop()
        path = str(each.target) if each.op == "call_module" else ""
        if path in paths:
            return True
        if each not in seen and path != maker:
            seen.add(each)
            todo += each.all_input_nodes
    return False


def _paths(root: nn.Module, construct: Construct, target: TraceTarget, loaded: Loaded) -> list[str]:
    """Return the paths of what stands in for modules; of all that may do so, where that is not known."""
    refused = refusing(construct, target, loaded)
    if refused is None:
        return [path for path, each in root.named_modules() if isinstance(each, nn.Identity)]
    return [path for path, each in refused.root.named_modules() if type(each).__name__ == _NAME]


class _Refusing(ast.NodeTransformer):
    """Puts what nobody can call in the place of what stands in for a module."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace a node, or what is in it."""
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        if not is_stand_in(text):
            return self.generic_visit(node)
        is_class = text.endswith(".Identity")
        return ast.parse(_REFUSING if is_class else f"{_REFUSING}()", mode="eval").body
