"""Nodes as Python statements: one small function for each opcode."""

from collections.abc import Callable
from typing import Final, TypeAlias

from fxengine.codegen.expressions import Expressions, _format_target
from fxengine.codegen.global_names import GlobalNames
from fxengine.node import Node
from fxengine.operators import inplace_methods, magic_methods


class Statements:
    """What is needed to write the nodes of one function as statements, and what they turn out to need themselves.

    Attributes:
        expressions: Writes arguments.
        global_names: The functions and types that are referred to.
        root_module: The expression of the module that attributes and submodules belong to, mostly ``self``.
        wrapped_functions: The names of the functions that the code registers as wrapped, in order of appearance.
    """

    __slots__ = ("expressions", "global_names", "root_module", "wrapped_functions")

    def __init__(self, expressions: Expressions, global_names: GlobalNames, root_module: str) -> None:
        self.expressions = expressions
        self.global_names = global_names
        self.root_module = root_module
        self.wrapped_functions: dict[str, None] = {}

    def annotation(self, node: Node) -> str:
        """Return the type annotation of the node's value, with its colon, or nothing."""
        return "" if node.type is None else f" : {self.global_names.add_type(node.type)}"


_Writer: TypeAlias = Callable[[Statements, Node, str], str]


def _call_function(statements: Statements, node: Node, annotation: str) -> str:
    target = node._target
    assert not isinstance(target, str), f"Expected node.target to be callable, got {type(target)}"
    expressions = statements.expressions
    args = node._args
    if getattr(target, "__module__", "") == "_operator":
        name: str = target.__name__
        if name in magic_methods:
            value = expressions.name_of(node)
            operands = expressions.operands(args)
            return f"{value}{annotation} = {magic_methods[name].format(*operands)}"
        if name in inplace_methods:
            operands = expressions.operands(args)
            changed = inplace_methods[name].format(*operands)
            return f"{changed};  {expressions.name_of(node)}{annotation} = {operands[0]}"
    function = statements.global_names.add_function(target)
    if function == "getattr" and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
        value = expressions.name_of(node)
        return f"{value}{annotation} = {_format_target(expressions.write(args[0]), args[1])}"
    if node.meta.get("is_wrapped", False):
        statements.wrapped_functions.setdefault(function)
    value = expressions.name_of(node)
    return f"{value}{annotation} = {function}({expressions.arguments(args, node._kwargs)})"


def _call_method(statements: Statements, node: Node, annotation: str) -> str:
    assert isinstance(node._target, str), f"Expected node.target to be str for call_method, got {type(node._target)}"
    expressions = statements.expressions
    value = expressions.name_of(node)
    method = _format_target(expressions.write(node._args[0]), node._target)
    return f"{value}{annotation} = {method}({expressions.arguments(node._args[1:], node._kwargs)})"


def _call_module(statements: Statements, node: Node, annotation: str) -> str:
    assert isinstance(node._target, str), f"Expected node.target to be str for call_module, got {type(node._target)}"
    expressions = statements.expressions
    value = expressions.name_of(node)
    module = _format_target(statements.root_module, node._target)
    return f"{value}{annotation} = {module}({expressions.arguments(node._args, node._kwargs)})"


def _get_attr(statements: Statements, node: Node, annotation: str) -> str:
    assert isinstance(node._target, str), f"Expected node.target to be str for get_attr, got {type(node._target)}"
    value = statements.expressions.name_of(node)
    return f"{value}{annotation} = {_format_target(statements.root_module, node._target)}"


def _unknown(_: Statements, node: Node, __: str) -> str:
    raise NotImplementedError(f"node: {node._op} {node._target}")


WRITERS: Final[dict[str, _Writer]] = {
    "call_function": _call_function,
    "call_method": _call_method,
    "call_module": _call_module,
    "get_attr": _get_attr,
    "root": _unknown,
}
"""By opcode: returns the assignment for a node, given its annotation. Placeholders and outputs are no assignments."""
