"""Nodes as Python statements: one small function for each opcode."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fxengine.codegen.expressions import KEYWORDS, Expressions, _format_target, is_path
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
        forms: How calls of each function are written, by the function's id.
        owners: The expressions of the modules, by qualified name, that have been needed to reach attributes of theirs.
    """

    __slots__ = ("expressions", "forms", "global_names", "owners", "root_module", "wrapped_functions")

    def __init__(self, expressions: Expressions, global_names: GlobalNames, root_module: str) -> None:
        self.expressions = expressions
        self.global_names = global_names
        self.root_module = root_module
        self.wrapped_functions: dict[str, None] = {}
        self.forms: dict[int, _Form] = {}
        self.owners: dict[str, str] = {}

    def annotation(self, node: Node) -> str:
        """Return the type annotation of the node's value, with its colon, or nothing."""
        if node.type is None:
            return ""
        self.expressions.sound &= node._op in {"placeholder", "output"}  # Theirs are in the signature.
        return f" : {self.global_names.add_type(node.type)}"

    def form(self, function: Callable[..., Any]) -> "_Form":
        """Return how a call of ``function`` is written: as an operator, an attribute, or a call."""
        name: str = getattr(function, "__name__", "")
        in_operator = getattr(function, "__module__", "") == "_operator"
        if in_operator and name in magic_methods:
            form = (_operator, magic_methods[name], function)
        elif in_operator and name in inplace_methods:
            form = (_inplace_operator, inplace_methods[name], function)
        else:
            text = self.global_names.add_function(function)
            form = (_getattr if text == "getattr" else _call, text, function)
            self.expressions.sound &= is_path(text)
        self.forms[id(function)] = form
        return form

    def attribute(self, target: str) -> str:
        """Return the expression of what has the qualified name ``target`` in the root module."""
        owner, dot, name = target.rpartition(".")
        expression = self.root_module
        if dot:
            expression = self.owners.get(owner) or self._owner(owner)
        if name.isidentifier():
            if name in KEYWORDS:
                self.expressions.sound = False
            return f"{expression}.{name}"
        if not name.isprintable() or '"' in name or "\\" in name:
            self.expressions.sound = False
        return f'getattr({expression}, "{name}")'

    def _owner(self, name: str) -> str:
        expression = self.owners[name] = self.attribute(name)
        return expression


_Form: TypeAlias = tuple[Callable[[Statements, Node, str, str], str], str, Callable[..., Any]]
"""What writes the call, an operator's template or the function's name, and the function, lest its id be reused."""

_Writer: TypeAlias = Callable[[Statements, Node, str], str]


_SIGNS: Final = {
    template: template[2:-2]
    for template in magic_methods.values()
    if template.startswith("{} ") and template[-3:] == " {}"
}
"""What stands between the operands, by template, of operators that stand between their operands."""


def _call_function(statements: Statements, node: Node, annotation: str) -> str:
    target = node._target
    assert not isinstance(target, str), f"Expected node.target to be callable, got {type(target)}"
    write, text, _ = statements.forms.get(id(target)) or statements.form(target)
    return write(statements, node, annotation, text)


def _operator(statements: Statements, node: Node, annotation: str, template: str) -> str:
    expressions = statements.expressions
    value = expressions.names[node]
    operands = expressions.operands(node._args)
    if len(operands) == 2 and template in _SIGNS:
        return f"{value}{annotation} = {operands[0]}{_SIGNS[template]}{operands[1]}"
    return f"{value}{annotation} = {template.format(*operands)}"


def _inplace_operator(statements: Statements, node: Node, annotation: str, template: str) -> str:
    expressions = statements.expressions
    operands = expressions.operands(node._args)
    change = template.format(*operands)
    expressions.sound &= type(node._args[0]) is Node
    return f"{change};  {expressions.names[node]}{annotation} = {operands[0]}"


def _getattr(statements: Statements, node: Node, annotation: str, function: str) -> str:
    args = node._args
    if len(args) != 2 or not isinstance(args[1], str) or not args[1].isidentifier():
        return _call(statements, node, annotation, function)
    expressions = statements.expressions
    expressions.sound &= type(args[0]) is Node and args[1] not in KEYWORDS
    value = expressions.names[node]
    return f"{value}{annotation} = {expressions.write(args[0])}.{args[1]}"


def _call(statements: Statements, node: Node, annotation: str, function: str) -> str:
    meta = node._meta  # Only a dict has what was set on the node.
    if isinstance(meta, dict) and meta.get("is_wrapped", False):
        statements.wrapped_functions.setdefault(function)
    expressions = statements.expressions
    value = expressions.names[node]
    return f"{value}{annotation} = {function}({expressions.arguments(node._args, node._kwargs)})"


def _call_method(statements: Statements, node: Node, annotation: str) -> str:
    assert isinstance(node._target, str), f"Expected node.target to be str for call_method, got {type(node._target)}"
    expressions = statements.expressions
    value = expressions.names[node]
    owner, target = node._args[0], node._target
    if type(owner) is not Node or not target.isidentifier() or target in KEYWORDS:
        expressions.sound = False
    method = _format_target(expressions.write(owner), target)
    return f"{value}{annotation} = {method}({expressions.arguments(node._args[1:], node._kwargs)})"


def _call_module(statements: Statements, node: Node, annotation: str) -> str:
    assert isinstance(node._target, str), f"Expected node.target to be str for call_module, got {type(node._target)}"
    expressions = statements.expressions
    value = expressions.names[node]
    module = statements.attribute(node._target)
    return f"{value}{annotation} = {module}({expressions.arguments(node._args, node._kwargs)})"


def _get_attr(statements: Statements, node: Node, annotation: str) -> str:
    assert isinstance(node._target, str), f"Expected node.target to be str for get_attr, got {type(node._target)}"
    value = statements.expressions.names[node]
    return f"{value}{annotation} = {statements.attribute(node._target)}"


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
