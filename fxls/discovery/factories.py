"""Functions and class methods of a file that return an instance of one of its classes; which need no arguments."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from fxls.discovery.names import blocks_of, module_level
from fxls.discovery.syntax import FunctionNode, dotted, span_of
from fxworker.wire import Construct, Location

_TINY: Final = re.compile(r"(?:^|_)(?:tiny|nano|pico|femto|atto|micro|mini|xxs|ti|18|b0)(?:_|\d|$)")
_SMALL: Final = re.compile(r"(?:^|_)(?:small|xs|s)(?:_|\d|$)")
_LARGE: Final = re.compile(r"(?:^|_)(?:large|huge|giant|gigantic|xl|xxl|l|h|g)(?:_|\d|$)|152|101")
_GIVING_ITSELF: Final = frozenset({
    "apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train",
})  # fmt: skip
"""Methods of modules that return the module."""

_FETCHING: Final = frozenset({"pretrained", "weights", "download"})
"""Parameters that make a factory fetch weights when they are true."""


def factories_of(tree: ast.Module, classes: frozenset[str]) -> dict[str, str]:
    """Return the functions at module level that return an instance of a class, with that class.

    So do class methods, which are called by their class: `Net.from_name`.
    """
    functions = {each.name: each for each in module_level(tree.body) if isinstance(each, FunctionNode)}
    functions |= _class_methods(tree, classes)
    makers = {each: each for each in classes}
    found: dict[str, str] = {}
    changed = True
    while changed:  # A factory may return what another one, defined below, makes.
        changed = False
        for name, function in functions.items():
            made = "" if name in found else _made_by(function, name.rpartition(".")[0], {**makers, **found})
            if made:
                found[name] = made
                changed = True
    return found


def _class_methods(tree: ast.Module, classes: frozenset[str]) -> dict[str, FunctionNode]:
    """Return the class methods of some classes at module level, by how they are called."""
    owners = [each for each in module_level(tree.body) if isinstance(each, ast.ClassDef) and each.name in classes]
    methods = [(owner, each) for owner in owners for each in owner.body if isinstance(each, FunctionNode)]
    return {
        f"{owner.name}.{each.name}": each
        for owner, each in methods
        if each.args.args and any(dotted(decorator) == "classmethod" for decorator in each.decorator_list)
    }


def free_factories(path: str, tree: ast.Module, factories: dict[str, str]) -> dict[str, list[Construct]]:
    """Return, for each class, calls of the factories that need no arguments, small variants first."""
    calls: dict[str, list[tuple[int, Construct]]] = {}
    functions = {each.name: each for each in module_level(tree.body) if isinstance(each, FunctionNode)}
    functions |= _class_methods(tree, frozenset(each.rpartition(".")[0] for each in factories))
    for name, function in functions.items():
        if name not in factories:
            continue
        call = _call_without_arguments(function, name)
        if call:
            construct = Construct(call, "factory", Location(path, span_of(function)))
            calls.setdefault(factories[name], []).append((size_of(function.name), construct))
    return {name: [each for _, each in sorted(found, key=lambda pair: pair[0])] for name, found in calls.items()}


def size_of(name: str) -> int:
    """Return a rank by the usual words for a variant's size: a small one says as much, and is built sooner."""
    if _TINY.search(name):
        return 0
    if _SMALL.search(name):
        return 1
    return 3 if _LARGE.search(name) else 2


def needs_arguments(function: FunctionNode, *, of_class: bool = False) -> bool:
    """Whether a function cannot be called without arguments; a class method gets its class."""
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - of_class
    return len(arguments.defaults) < positional or any(each is None for each in arguments.kw_defaults)


def _call_without_arguments(function: FunctionNode, called: str) -> str:
    """Return the call, with weights declined where they are fetched by default, "" where arguments are needed."""
    of_class = "." in called
    if needs_arguments(function, of_class=of_class):
        return ""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args][of_class:]
    declined: list[str] = []
    names = [*positional, *arguments.kwonlyargs]
    for argument, default in zip(names, [*arguments.defaults, *arguments.kw_defaults], strict=True):
        if argument.arg in _FETCHING and not (isinstance(default, ast.Constant) and not default.value):
            declined.append(f"{argument.arg}={'None' if argument.arg == 'weights' else 'False'}")
    return f"{called}({', '.join(declined)})"


def _made_by(function: FunctionNode, owner: str, makers: dict[str, str]) -> str:
    """Return the class that a function returns an instance of, "" when that is not known.

    Args:
        function: The function.
        owner: The class of which it is a class method, "" where it is none.
        makers: What makes an instance when it is called, with its class.
    """
    if owner:
        # A class method has its class, and calls the others of it, by the name of its first parameter.
        itself = function.args.args[0].arg
        own = {name: made for name, made in makers.items() if name == owner or name.startswith(f"{owner}.")}
        makers = {**makers, **{itself + name.removeprefix(owner): made for name, made in own.items()}, "Self": owner}
    annotated = _annotated(function.returns)
    if annotated in makers:
        return makers[annotated]
    variables: dict[str, str] = {}
    made = ""
    for statement in _own_statements(function.body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                variables[name] = variables.get(name, "") if _is_of(name, value) else _made(value, variables, makers)
            case ast.Return(value=ast.expr() as value):
                made = made or _made(value, variables, makers)
            case _:
                pass
    return made


def _made(value: ast.expr, variables: dict[str, str], makers: dict[str, str]) -> str:
    match value:
        case ast.Name(id=name):
            return variables.get(name, "")
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _GIVING_ITSELF:
            return _made(inner, variables, makers)
        case ast.Call(func=function):
            return makers.get(dotted(function), "")
        case _:
            return ""


def _is_of(name: str, value: ast.expr) -> bool:
    """Whether a value is what a method of a variable gives: `model = model.to(device)`."""
    match value:
        case ast.Call(func=ast.Attribute() as method):
            return dotted(method).partition(".")[0] == name
        case _:
            return False


def _annotated(returns: ast.expr | None) -> str:
    if isinstance(returns, ast.Constant) and isinstance(returns.value, str):
        return returns.value
    return "" if returns is None else dotted(returns)


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for block in blocks_of(statement):
            yield from _own_statements(block)
