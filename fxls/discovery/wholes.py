"""What makes instances of a class as parts of something larger: constructors of other classes, and factories."""

import ast
from collections.abc import Iterator

from fxls.discovery.factories import factories_of, needs_arguments, size_of
from fxls.discovery.names import module_level
from fxls.discovery.syntax import FunctionNode, dotted


def makers_of(name: str, tree: ast.Module) -> list[str]:
    """Return the classes of a file whose constructors make instances of a class, then its functions that do.

    Of the functions those count that return what they make; the first are those that need no arguments, and among
    them the ones whose names speak of a small model.
    """
    classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef) and _constructs(each, name)]
    return [*classes, *_factories(name, tree)]


def _constructs(cls: ast.ClassDef, name: str) -> bool:
    """Whether a class has a constructor that calls a name."""
    constructors = (each for each in cls.body if isinstance(each, FunctionNode) and each.name == "__init__")
    return any(name in _called_by(each) for each in constructors)


def _factories(name: str, tree: ast.Module) -> list[str]:
    functions = {each.name: each for each in module_level(tree.body) if isinstance(each, FunctionNode)}
    called = {each: frozenset(_called_by(function)) for each, function in functions.items()}
    classes = frozenset(each for names in called.values() for each in names if each.rpartition(".")[2][:1].isupper())
    factories = [each for each in factories_of(tree, classes) if each in functions]
    direct = {each for each in factories if name in called[each]}
    makers = [each for each in factories if each in direct or called[each] & direct]
    return sorted(makers, key=lambda each: (needs_arguments(functions[each]), size_of(each)))


def _called_by(function: FunctionNode) -> Iterator[str]:
    """Yield the names that a function calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield dotted(node.func)
