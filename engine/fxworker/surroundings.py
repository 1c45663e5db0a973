"""The code around a constructor: the text of functions, and what the names in it stand for where that is known.

Nothing is executed: names are looked up in the module that a function belongs to, and in its class.
"""

import ast
import builtins
import enum
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, Final

from torch import Tensor, nn

from fxworker.choices import attribute_of, literal, parameters_of
from fxworker.packages import key_written, member_named

_USED: Final = frozenset({"forward", "reset_parameters", "encode", "decode", "loss", "predict", "sample", "step"})
"""What methods are called that models are used by."""

_MOST: Final = 16
"""How many methods of a class are read at most."""


def constructor_of(cls: Any) -> Any:
    """Return the function that constructs: the class's own or inherited `__init__`, or the callable itself."""
    function = cls.__init__ if isinstance(cls, type) else attribute_of(cls, "__func__") or cls
    function = inspect.unwrap(function)
    return function if inspect.isfunction(function) else None


def tree_of(function: Any) -> ast.FunctionDef | None:
    """Return the syntax tree of a function, None where its text is not to be had."""
    if function is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError, RecursionError):
        return None
    return tree if isinstance(tree, ast.FunctionDef) else None


def methods_of(cls: Any) -> Iterator[ast.FunctionDef]:
    """Yield the other methods of a class that its instances are used by, and those of its own that these call."""
    own = vars(cls) if isinstance(cls, type) else {}
    waiting = [name for name in own if name in _USED]
    for name in waiting:  # What is called is added to it.
        tree = tree_of(own[name]) if inspect.isfunction(own[name]) else None
        if tree is not None:
            yield tree
            waiting += [each for each in _called_by(tree) if each in own and each not in waiting][
                : _MOST - len(waiting)
            ]


def _called_by(tree: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of the methods of its own object that a method calls."""
    for each in dict.fromkeys(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)):
        owner, _, name = each.rpartition(".")
        if owner == "self":
            yield name


class Surroundings:
    """What the names in a function stand for. Mutable: its own names are added as they are read.

    Args:
        scope: The names of its module.
        cls: The class that it constructs, or whose method it is.
        function: The function.
    """

    def __init__(self, scope: Mapping[str, Any], cls: Any, function: Any) -> None:
        self._scope = scope
        self._cls = cls
        self._function = function
        self._own: dict[str, Any] = {}
        self._tables: dict[str, ast.Dict] = {}

    def bind(self, name: str, node: ast.expr) -> None:
        """Note what a name of the function is assigned, if that is known: `block = Wide if wide else Narrow`."""
        found = self.value(node)
        match node:
            case (ast.Dict() as table) | ast.Call(args=[ast.Dict() as table], keywords=[]):
                self._tables[name] = table
            case _:
                self._tables.pop(name, None)
        if callable(found):
            self._own[name] = found
        else:
            self._own.pop(name, None)

    def constants(self, nodes: Iterable[ast.expr]) -> Iterator[str]:
        """Yield the constants among expressions, also those that have a name, members of enumerations, and lists."""
        for node in nodes:
            value = node.value if isinstance(node, ast.Constant) else self.value(node)
            if isinstance(value, enum.Enum):
                yield member_named(value) or ast.unparse(node)
            elif isinstance(node, ast.Constant) or isinstance(value, str | int | float):
                yield repr(value)
            elif isinstance(node, ast.List | ast.Tuple) and literal(ast.unparse(node)) is not NotImplemented:
                yield ast.unparse(node)

    def as_constant(self, node: ast.expr) -> ast.expr:
        """Return the text that a name stands for as an expression, `WIDTH` in `config[WIDTH]`; other nodes as they are.

        Names of the function's own are none.
        """
        code = attribute_of(self._function, "__code__")
        own = code.co_varnames if code is not None else ()
        is_own = any(isinstance(each, ast.Name) and each.id in own and each.id != "self" for each in ast.walk(node))
        found = self.value(node) if isinstance(node, ast.Name | ast.Attribute) and not is_own else None
        return ast.Constant(str(found)) if type(found) is str else node

    def keys(self, table: ast.expr) -> list[str]:
        """Return what a table may be asked for: the keys of a dictionary that is written out, or that is there."""
        table = listed(table)
        table = self._tables.get(ast.unparse(table), table)
        if isinstance(table, ast.Dict):
            return [*self.constants(each for each in table.keys if each is not None)]
        found = self.value(table)
        if isinstance(found, dict) and "__spec__" in found:
            # The names of a module, of which one is called: functions that make models rather than their classes.
            called = [name for name, each in found.items() if callable(each) and not name.startswith("_")]
            return [repr(each) for each in sorted(called, key=lambda name: isinstance(found[name], type))][:12]
        if isinstance(found, enum.EnumType):
            return [repr(each) for each in found.__members__][:12]
        if isinstance(found, Mapping | list | tuple | set | frozenset):
            return [key for each in found if (key := key_written(each))][:12]
        return []

    def models_taking(self, call: ast.Call) -> list[str]:
        """Return the names of models, as texts, that can be called so, those of the module first; not the one read.

        Behind them come the functions of the module that take what is given by name.
        """
        own = self._scope.get("__name__")
        models = {name: each for name, each in self._scope.items() if isinstance(each, type)}
        fitting = {
            name: each
            for name, each in models.items()
            if issubclass(each, nn.Module) and each is not self._cls and _takes(each, call)
        }
        named = {each.arg for each in call.keywords}
        functions = [
            name
            for name, each in self._scope.items()
            if isinstance(each, FunctionType) and each.__module__ == own and _takes(each, call)
            if named & parameters_of(each).keys()
        ]
        names = [*sorted(fitting, key=lambda name: fitting[name].__module__ != own), *functions]
        return [*map(repr, names)][:12]

    def members(self, node: ast.expr) -> list[str]:
        """Return the values of an enumeration that a name stands for, which it is called with; none for another."""
        found = self.value(node)
        members: list[Any] = [*found.__members__.values()] if isinstance(found, enum.EnumType) else []
        values = [each.value for each in members]
        return [repr(each) for each in values if isinstance(each, str | int)]

    def value(self, node: ast.expr) -> Any:
        """Return what a name that does not come from the constructor stands for, None where that is not known."""
        match node:
            case ast.Name(id=name):
                return self._own.get(name, self._scope.get(name, getattr(builtins, name, None)))
            case ast.IfExp(body=one, orelse=other):
                return self.value(one) or self.value(other)
            case ast.Dict(values=[one, *_]) if isinstance(one, ast.Name | ast.Attribute):
                return {None: self.value(one)}
            case ast.Subscript(value=table) | ast.Call(func=ast.Attribute(value=table, attr="get")):
                return _any_of(self.value(table))
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._own_attribute(name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                return self._inherited(name)
            case ast.Attribute(value=value, attr=name):
                return attribute_of(self.value(value), name)
            case _:
                return None

    def _own_attribute(self, name: str) -> Any:
        """Return an attribute of the class, a private one by the name that it has there."""
        if not name.startswith("__") or name.endswith("__"):
            return attribute_of(self._cls, name)
        lineage = self._cls.__mro__ if isinstance(self._cls, type) else ()
        found = (attribute_of(each, f"_{each.__name__.lstrip('_')}{name}") for each in lineage)
        return next((each for each in found if each is not None), None)

    def _inherited(self, name: str) -> Any:
        """Return a method as the class has it that the function's own class derives from."""
        lineage = (self._cls if isinstance(self._cls, type) else type(self._cls)).__mro__
        # Values of a class are the user's: they may not be compared.
        has_it = (any(value is self._function for value in vars(each).values()) for each in lineage)
        own = next((at for at, holds in enumerate(has_it) if holds), -1)
        return next((vars(each)[name] for each in lineage[own + 1 :] if name in vars(each)), None)

    def receiver(self, call: ast.Call, name: str) -> Any:
        """Return the callable that a call calls, None where that is not known."""
        if name == "super().__init__" or (name.endswith(".__init__") and isinstance(self._cls, type)):
            lineage = self._cls.__mro__ if isinstance(self._cls, type) else ()
            owner = next((at for at, each in enumerate(lineage) if _is_own(each, self._function)), -1)
            return next((each for each in lineage[owner + 1 :] if "__init__" in vars(each)), None)
        found = self.value(call.func)
        return found if callable(found) else None


def _any_of(table: Any) -> Any:
    """Return one of the callables that a table has, None where it has other things."""
    if not isinstance(table, Mapping):
        return None
    try:
        found = next(iter(table.values()), None)
    except Exception:  # noqa: BLE001 — A mapping of the user's.
        return None
    return found if callable(found) else None


def listed(node: ast.expr) -> ast.expr:
    """Return the table whose keys an expression lists: `TABLE.keys()`, `list(TABLE)`; another expression as it is."""
    match node:
        case ast.Call(func=ast.Attribute(value=table, attr="keys"), args=[]):
            return table
        case ast.Call(func=ast.Name(id="list" | "tuple" | "set" | "sorted" | "frozenset"), args=[inner, *_]):
            return listed(inner)
        case ast.List(elts=[ast.Starred(value=inner)]) | ast.Tuple(elts=[ast.Starred(value=inner)]):
            return listed(inner)
        case _:
            return node


def is_own_attribute(name: str) -> bool:
    """Whether an attribute is none that modules, tensors and Python's own values have."""
    return not any(hasattr(each, name) for each in (nn.Module, Tensor, str, list, dict, float))


def _is_own(cls: type, function: Any) -> bool:
    own = vars(cls).get("__init__")
    return own is not None and inspect.unwrap(own) is function


def _takes(called: Callable[..., Any], call: ast.Call) -> bool:
    """Whether a class or a function can be called with as many arguments as a call has, of these names."""
    spread = any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args)
    try:
        bind = inspect.signature(called).bind_partial if spread else inspect.signature(called).bind
        bind(
            *(None for each in call.args if not isinstance(each, ast.Starred)),
            **{each.arg: None for each in call.keywords if each.arg is not None},
        )
    except (TypeError, ValueError):
        return False
    return True
