"""Modules and parameters that a model keeps where it does not see them, in containers that it does see."""

import ast
from collections.abc import Iterator
from typing import TypeAlias

from fxls.discovery.syntax import FunctionNode
from fxls.fixes.source import Proposal, Source
from fxworker.wire import Problem

_Plain: TypeAlias = ast.List | ast.ListComp | ast.Dict | ast.DictComp


def registered(source: Source, node: ast.expr, problem: Problem) -> Iterator[Proposal]:
    """Yield containers of torch's in place of the lists and dictionaries of which a function uses something."""
    function = source.function(node)
    owner = source.parent(function) if function is not None else None
    nn = name_of_nn(source)
    if function is None or not isinstance(owner, ast.ClassDef) or not nn:
        return
    used = {each.attr for each in ast.walk(function) if isinstance(each, ast.Attribute) and _is_of_self(each)}
    held = "Parameter" if "uses a parameter" in problem.message else "Module"
    for attribute, value, container in _assigned(owner):
        if attribute.attr not in used:
            continue
        kind = "Dict" if isinstance(container, ast.Dict | ast.DictComp) else "List"
        edit = source.replaced(value, f"{nn}.{held}{kind}({_inside(source, value)})")
        if edit is not None:
            yield Proposal(f"Make `self.{attribute.attr}` an `{nn}.{held}{kind}`", (edit,))


def _assigned(owner: ast.ClassDef) -> Iterator[tuple[ast.Attribute, ast.expr, _Plain]]:
    """Yield the attributes that get plain containers in a class's `__init__`: the value, and the container that it is.

    The value may be a variable that got the container before.
    """
    for method in owner.body:
        if not (isinstance(method, FunctionNode) and method.name == "__init__"):
            continue
        variables: dict[str, _Plain] = {}
        for each in ast.walk(method):
            match each:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.List() | ast.ListComp() | ast.Dict() | ast.DictComp() as value,
                ):
                    variables[name] = value
                case ast.Assign(
                    targets=[ast.Attribute() as target],
                    value=ast.List() | ast.ListComp() | ast.Dict() | ast.DictComp() as value,
                ) if _is_of_self(target):
                    yield target, value, value
                case ast.Assign(targets=[ast.Attribute() as target], value=ast.Name(id=name) as value):
                    if _is_of_self(target) and name in variables:
                        yield target, value, variables[name]
                case _:
                    pass


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _inside(source: Source, value: ast.expr) -> str:
    """Return what a container of torch's is made of; nothing where the container in its place is empty."""
    is_empty = (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)
    return "" if is_empty else source.written(value)


def name_of_nn(source: Source) -> str:
    """Return what the module calls `torch.nn`; "" where it has no name for it."""
    for node in source.tree.body:
        match node:
            case ast.ImportFrom(module="torch", level=0, names=names):
                found = next((each.asname or "nn" for each in names if each.name == "nn"), "")
            case ast.Import(names=names):
                found = next((each.asname for each in names if each.name == "torch.nn" and each.asname), "")
            case _:
                found = ""
        if found:
            return found
    torch = source.torch()
    return f"{torch}.nn" if torch is not None else ""
