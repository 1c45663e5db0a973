"""The names of a file: what it imports, its classes and functions, and the values that its module level binds."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from fxls.syntactic.values import PLAIN, Class, External, Function, Module, Value

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_MODULE: Final = "torch.nn.Module"
_CANONICAL: Final = {
    "torch.nn.modules.module.Module": _MODULE,
    "torch.nn.modules.Module": _MODULE,
    "np": "numpy",
}


def names_of(tree: ast.Module) -> dict[str, Value]:
    """Return what the names of a file's module level stand for; those that are assigned are plain for now."""
    names: dict[str, Value] = {}
    for node in _statements(tree.body):
        match node:
            case ast.Import():
                for alias in node.names:
                    names[alias.asname or alias.name.partition(".")[0]] = External(
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom():
                for alias in node.names:
                    name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                    names[alias.asname or alias.name] = External(_CANONICAL.get(name, name))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names[node.name] = Function(node, names)
            case ast.ClassDef():
                names[node.name] = class_of(node, names)
            case _:
                pass
    return names


def class_of(node: ast.ClassDef, names: Mapping[str, Value]) -> Class:
    """Return a class with its methods and what its bases stand for."""
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return Class(node, tuple(named(base, names) for base in node.bases), methods)


def named(node: ast.expr, names: Mapping[str, Value]) -> Value:
    """Return what a dotted name stands for; plain for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id, PLAIN)
    if isinstance(node, ast.Attribute):
        owner = named(node.value, names)
        if isinstance(owner, External):
            name = f"{owner.name}.{node.attr}"
            return External(_CANONICAL.get(name, name))
    return PLAIN


def lineage(cls: Class) -> Iterator[Class]:
    """Yield a class and those of its bases that are in the file."""
    seen = set[int]()
    waiting = [cls]
    while waiting:
        current = waiting.pop(0)
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += [base for base in current.bases if isinstance(base, Class)]


def method_of(cls: Class, name: str, *, above: Class | None = None) -> tuple[Class, FunctionNode] | None:
    """Return a method and the class that defines it; with `above` the one that `super()` finds there."""
    classes = list(lineage(cls))
    if above is not None:
        classes = classes[classes.index(above) + 1 :] if above in classes else []
    return next(((each, each.methods[name]) for each in classes if name in each.methods), None)


def class_value(cls: Class, name: str) -> ast.expr | None:
    """Return the expression that the body of a class, or of a base in the file, binds to a name."""
    for each in lineage(cls):
        for node in each.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                return node.value
            if isinstance(node, ast.Assign) and any(
                isinstance(one, ast.Name) and one.id == name for one in node.targets
            ):
                return node.value
    return None


def outer_base(cls: Class) -> str:
    """Return the dotted name of the base outside of the file that a class builds on, "" if there is none."""
    names = [base.name for each in lineage(cls) for base in each.bases if isinstance(base, External)]
    return next((name for name in names if name.startswith("torch.nn.")), names[0] if names else "")


def is_library_module(name: str) -> bool:
    """Whether a dotted name is that of a module of torch.nn, which torch.fx does not look into."""
    tail = name.rpartition(".")[2]
    return (
        name.startswith(("torch.nn.", "torch.ao.nn."))
        and tail[:1].isupper()
        and not name.startswith(("torch.nn.init", "torch.nn.functional", "torch.nn.utils"))
        and tail not in {"Parameter", "Buffer", "UninitializedParameter"}
    )


def is_container(value: Value) -> bool:
    """Whether a value is a module that holds others and hands them out: a list, a sequence or a dictionary."""
    return (
        isinstance(value, Module)
        and isinstance(value.of, External)
        and value.of.name in {"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict"}
    )


def decorators(node: FunctionNode, names: Mapping[str, Value]) -> set[str]:
    """Return the names of a function's decorators: `property`, `torch.fx.wrap`."""
    found = set[str]()
    for each in node.decorator_list:
        target = each.func if isinstance(each, ast.Call) else each
        value = named(target, names)
        if isinstance(value, External):
            found.add(value.name)
        elif isinstance(target, ast.Name):
            found.add(target.id)
        elif isinstance(target, ast.Attribute):
            found.add(target.attr)
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those in `if` and `try` too."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try):
                yield from _statements(getattr(node, name, []))
