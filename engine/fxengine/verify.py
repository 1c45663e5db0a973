"""The rules of the intermediate representation, as a table, and the check that reports every violation of them.

``verify`` looks at everything and raises nothing. ``Graph.lint`` raises the first violation of a rule that torch.fx
has too; the other rules (marked ``own``) state what torch.fx takes for granted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from fxengine.immutable_collections import immutable_dict, immutable_list
from fxengine.node import Node

if TYPE_CHECKING:
    from fxengine.graph import Graph

_OPCODES: Final = frozenset(
    {
        "call_function",
        "call_method",
        "get_attr",
        "call_module",
        "placeholder",
        "output",
    }
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with a graph.

    Attributes:
        rule: The name of the rule.
        node: The node that breaks it.
        message: What is wrong, in words.
        error: The type of exception that ``Graph.lint`` raises for it.
    """

    rule: str
    node: Node
    message: str
    error: type[Exception]


@dataclass(slots=True)
class _Scope:
    """What the rules know when they look at a node: the graph, its module, and the nodes before."""

    graph: "Graph"
    root: torch.nn.Module | None
    defined: set[Node] = field(default_factory=set[Node])
    names: set[str] = field(default_factory=set[str])
    body_began: bool = False
    returned: bool = False


_Check: TypeAlias = Callable[[_Scope, Node], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: What a violation refers to.
        text: The rule, in words.
        check: Yields a message for each violation by a node.
        error: The type of exception that ``Graph.lint`` raises.
        needs_module: The rule is about the graph's module and is checked after those that are not.
        own: torch.fx has no such rule; ``Graph.lint`` does not raise for it.
    """

    name: str
    text: str
    check: _Check
    error: type[Exception] = RuntimeError
    needs_module: bool = False
    own: bool = False


def _opcode(_: _Scope, node: Node) -> Iterator[str]:
    if node._op not in _OPCODES:
        yield f"Node {node} had unknown opcode {node._op}!"


def _ownership(scope: _Scope, node: Node) -> Iterator[str]:
    if node.graph is not scope.graph:
        yield f"Node '{node}' does not belong to this Graph!"


def _side_table(scope: _Scope, node: Node) -> Iterator[str]:
    table = scope.graph._lookup_table
    if table is not None and node not in table:
        yield f"Node '{node}' is not added to the side table"


def _inputs(scope: _Scope, node: Node) -> Iterator[str]:
    for used in node._inputs:
        if used.graph is not scope.graph:
            yield (
                f"Argument '{used}' of Node '{node}' does not belong to this Graph, "
                f"but was used as an argument! If you are copying nodes from another graph, make "
                f"sure to use ``arg_transform`` on node_copy() to remap values\n{scope.graph}"
            )
        elif used not in scope.defined:
            yield (
                f"Argument '{used}' of Node '{node}' was used before it has been "
                f"defined! Please check that Nodes in the graph are topologically ordered\n{scope.graph}"
            )


def _unique_name(scope: _Scope, node: Node) -> Iterator[str]:
    if node._name in scope.names:
        yield f"Node redefined name {node._name}!"


def _use_lists(_: _Scope, node: Node) -> Iterator[str]:
    for used in node._inputs:
        if node not in used.users:
            yield f"Node '{node}' uses '{used}' but is not among its users"
    for user in node.users:
        if node not in user._inputs:
            yield f"Node '{user}' is among the users of '{node}' but does not use it"


def _immutable(_: _Scope, node: Node) -> Iterator[str]:
    if not isinstance(node._kwargs, immutable_dict) or not all(_is_frozen(arg) for arg in node._args):
        yield f"The arguments of Node '{node}' can be changed without the node's knowing"


def _is_frozen(argument: Any) -> bool:
    match argument:
        case tuple():
            return all(_is_frozen(item) for item in argument)
        case list():
            return isinstance(argument, immutable_list) and all(_is_frozen(item) for item in argument)
        case dict():
            return isinstance(argument, immutable_dict) and all(_is_frozen(item) for item in argument.values())
        case _:
            return True


def _placeholders_first(scope: _Scope, node: Node) -> Iterator[str]:
    if node._op == "placeholder" and scope.body_began:
        yield f"Placeholder '{node}' follows a node that is none"


def _output_last(scope: _Scope, node: Node) -> Iterator[str]:
    if scope.returned:
        yield f"Node '{node}' follows the output node"


def _target_type(_: _Scope, node: Node) -> Iterator[str]:
    target: object = node._target
    if node._op == "call_function":
        if not callable(target):
            yield f"Node {node} target {target} has type {torch.typename(target)} but a Callable is expected"
    elif not isinstance(target, str):
        yield f"Node {node} target {target} has type {torch.typename(target)} but a str is expected"


def _target_exists(scope: _Scope, node: Node) -> Iterator[str]:
    if node._op not in {"get_attr", "call_module"} or not isinstance(node._target, str):
        return
    owner: Any = scope.root
    atoms = node._target.split(".")
    for depth, atom in enumerate(atoms):
        path = ".".join(atoms[:depth])
        value = getattr(owner, atom, None)
        if value is None:
            yield f"Node {node} target {node._target} references nonexistent attribute {atom} of {path}"
            return
        if node._op == "call_module" and not isinstance(value, torch.nn.Module):
            yield f"Node {node} target {node._target} {atom} of {path} does not reference an nn.Module"
            return
        owner = value


RULES: Final = (
    Rule("opcode", "The opcode is one of the six.", _opcode),
    Rule("ownership", "A node belongs to the graph whose list it is in.", _ownership),
    Rule("side table", "A node is in the table by which nodes are found.", _side_table),
    Rule("inputs", "A node uses only nodes of its graph that come before it.", _inputs),
    Rule("unique name", "No two nodes have the same name.", _unique_name),
    Rule("use lists", "A node is among the users of its inputs, and of nothing else.", _use_lists, own=True),
    Rule("immutable arguments", "A node's arguments hold immutable containers.", _immutable, own=True),
    Rule("placeholders first", "The placeholders come first.", _placeholders_first, own=True),
    Rule("output last", "Nothing comes after the output.", _output_last, own=True),
    Rule(
        "target type",
        "A function is called by itself, everything else by name.",
        _target_type,
        error=ValueError,
        needs_module=True,
    ),
    Rule(
        "target exists",
        "What a node reads or calls exists in the module, a called module is one.",
        _target_exists,
        needs_module=True,
    ),
)
"""All rules, in the order in which a node is checked."""


def verify(graph: "Graph", root: torch.nn.Module | None = None) -> list[Violation]:
    """Return everything that is wrong with ``graph``.

    Args:
        graph: The graph.
        root: The module that its targets refer to; the graph's own if None. Without either, targets are not looked up.
    """
    return list(_violations(graph, root or graph._owning_module, own=True))


def lint(graph: "Graph") -> None:
    """Raise the first violation of a rule that torch.fx has too.

    Raises:
        RuntimeError: The graph breaks a rule.
        ValueError: The type of a target does not fit its node's opcode.
    """
    if _is_sound(graph):
        return
    for violation in _violations(graph, graph._owning_module, own=False):
        raise violation.error(violation.message)


def _violations(graph: "Graph", root: torch.nn.Module | None, *, own: bool) -> Iterator[Violation]:
    for needs_module in (False, True) if root is not None else (False,):
        rules = [rule for rule in RULES if rule.needs_module == needs_module and (own or not rule.own)]
        scope = _Scope(graph, root)
        for node in graph.nodes:
            for rule in rules:
                for message in rule.check(scope, node):
                    yield Violation(rule.name, node, message, rule.error)
            scope.defined.add(node)
            scope.names.add(node._name)
            scope.body_began |= node._op != "placeholder"
            scope.returned |= node._op == "output"


def _is_sound(graph: "Graph") -> bool:
    """Return whether ``graph`` breaks none of torch.fx's rules; the same as the table says, in one fast pass.

    It may err on the side of False.
    """
    root, table = graph._owning_module, graph._lookup_table
    owners: dict[str, Any] = {"": root if isinstance(root, torch.nn.Module) else None}
    names: set[str] = set()
    defined: set[Node] = set()
    define = defined.add
    count = 0
    for node in graph.nodes:
        op = node._op
        if node.graph is not graph or op not in _OPCODES or not defined.issuperset(node._inputs):
            return False
        define(node)
        names.add(node._name)
        count += 1
        if table is not None and node not in table:
            return False
        if root is not None and not (callable(node._target) if op == "call_function" else _fits(node, owners)):
            return False
    return len(names) == count


def _fits(node: Node, owners: dict[str, Any]) -> bool:
    """Return whether a node that calls no function has a target that exists, where it must.

    Args:
        node: The node.
        owners: The modules by name that have been found so far; None for what is none.
    """
    op, target = node._op, node._target
    if not isinstance(target, str):
        return False
    if op not in {"get_attr", "call_module"}:
        return True
    path, _, name = target.rpartition(".")
    owner = owners[path] if path in owners else _module_at(path, owners)
    if owner is None:
        return False
    if name in owner._modules:
        return owner._modules[name] is not None
    if op == "call_module":
        return False
    return (name in owner._parameters and owner._parameters[name] is not None) or getattr(owner, name, None) is not None


def _module_at(path: str, owners: dict[str, Any]) -> Any:
    """Return the module with this name; None if it is not a module all the way."""
    above, _, name = path.rpartition(".")
    owner = owners[above] if above in owners else _module_at(above, owners)
    module: Any = None
    if owner is not None:
        module = owner._modules[name] if name in owner._modules else getattr(owner, name, None)
    owners[path] = module = module if isinstance(module, torch.nn.Module) else None
    return module
