"""What makes instances of a class as parts of something larger: constructors of other classes, and factories."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from fxls.discovery.factories import factories_of, needs_arguments, size_of
from fxls.discovery.names import module_level
from fxls.discovery.syntax import FunctionNode, dotted


@dataclass(frozen=True, slots=True)
class Makers:
    """What a file makes things with, in order, each with the names that it calls.

    `classes` are those that call some in their constructors. `factories` are functions that return what they make; the
    first are those that need no arguments, and among them the ones whose names speak of a small model. `derived` are
    the classes with the names of their bases.
    """

    classes: tuple[tuple[str, frozenset[str]], ...] = ()
    factories: tuple[tuple[str, frozenset[str]], ...] = ()
    derived: tuple[tuple[str, frozenset[str]], ...] = ()

    def of(self, name: str) -> list[str]:
        """Return the classes whose constructors make instances of a class, then the functions that do."""
        classes = [each for each, called in self.classes if name in called]
        direct = {each for each, called in self.factories if name in called}
        return [*classes, *(each for each, called in self.factories if each in direct or called & direct)]

    def heirs(self, name: str) -> list[str]:
        """Return the classes that are derived from a class."""
        return [each for each, bases in self.derived if name in bases]


def makers_in(tree: ast.Module) -> Makers:
    """Return what a file makes things with."""
    definitions = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    classes = ((each.name, _called_in_constructor(each)) for each in definitions)
    derived = ((each.name, frozenset(map(dotted, each.bases))) for each in definitions)
    functions = {each.name: each for each in module_level(tree.body) if isinstance(each, FunctionNode)}
    called = {each: frozenset(_called_by(function)) for each, function in functions.items()}
    made = frozenset(each for names in called.values() for each in names if each.rpartition(".")[2][:1].isupper())
    factories = [each for each in factories_of(tree, made) if each in functions]
    factories.sort(key=lambda each: (needs_arguments(functions[each]), size_of(each)))
    return Makers(
        tuple(each for each in classes if each[1]), tuple((each, called[each]) for each in factories), tuple(derived)
    )


def _called_in_constructor(cls: ast.ClassDef) -> frozenset[str]:
    constructors = (each for each in cls.body if isinstance(each, FunctionNode) and each.name == "__init__")
    return frozenset(name for each in constructors for name in _called_by(each))


def _called_by(function: FunctionNode) -> Iterator[str]:
    """Yield the names that a function calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield dotted(node.func)
