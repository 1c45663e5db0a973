"""Which layer takes which parameter, and which optional parameters are needed: read from the source, nothing is run.

A forward is followed statement by statement with the model's real modules in hand, into the modules and functions that
it passes a parameter on to. Conditions that settings of the model or the absence of an argument decide are decided;
of the others both ways are read. What is not understood is a value of which nothing is known.
"""

import ast
import builtins
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, Final

from torch import Tensor, nn

from fxengine.inputs.clues import Clues, LayerWish
from fxengine.proxy import Proxy
from fxengine.source import is_user_file
from fxengine.syntax import COMPARISONS, definition_of

__all__ = ["Consumption", "consumption"]

_MOST_FUNCTIONS: Final = 150
"""How many functions are followed at most."""

_DEEPEST: Final = 10
"""How deep they may be nested."""

_MOST_ROUNDS: Final = 5
"""How often a loop is read that goes over layers and inputs together."""

_KEEPS_SHAPE: Final = frozenset({
    "contiguous", "float", "half", "double", "bfloat16", "to", "type", "type_as", "clone", "detach", "clamp", "cuda",
    "cpu", "relu", "gelu", "sigmoid", "tanh", "dropout", "silu", "softmax", "normalize", "requires_grad_",
})  # fmt: skip
"""Functions and methods behind which a tensor has the shape that it had before."""

_ON_PLAIN: Final = frozenset[Any]({getattr, hasattr, isinstance, len, callable, int, bool, float, max, min, type})
"""What is simply called with what is known."""

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    **COMPARISONS,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


@dataclass(frozen=True, slots=True)
class Consumption:
    """What the source says of parameters.

    Attributes:
        wishes: What the first layer wants that takes a parameter as it is, by the parameter's name.
        needed: The parameters with a default without which the model does not run, in the order of their use.
        items: What layers want that take the items of a parameter which is gone over, or unpacked, in their order.
        states: The parameters that recurrent layers take as their state, with these layers.
    """

    wishes: Mapping[str, LayerWish]
    needed: tuple[str, ...]
    items: Mapping[str, tuple[LayerWish, ...]] = field(default_factory=dict[str, tuple[LayerWish, ...]])
    states: Mapping[str, nn.RNNBase | nn.RNNCellBase] = field(default_factory=dict[str, nn.RNNBase | nn.RNNCellBase])


@dataclass(frozen=True, slots=True)
class _Given:
    """A tensor of the shape of an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class _Part:
    """An item of an argument."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class _Absent:
    """The default None of a parameter that was not passed."""

    name: str


class _Unknown:
    """A value of which nothing is known."""


_UNKNOWN: Final = _Unknown()
_Scope = dict[str, Any]


def consumption(
    root: nn.Module | Callable[..., Any], names: Sequence[str], passed: Collection[str], clues: Clues
) -> Consumption:
    """Return what the source of a model says of its parameters.

    Args:
        root: The model.
        names: The parameters.
        passed: Those that are passed in any case.
        clues: Knows what layers want.
    """
    function = inspect.unwrap(root.forward if isinstance(root, nn.Module) else root)
    bare = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(bare, FunctionType):
        return Consumption({}, ())
    try:
        parameters = inspect.signature(bare).parameters
    except (TypeError, ValueError):
        return Consumption({}, ())
    all_given, some_given = _Reader(clues), _Reader(clues)
    for reader, given in ((all_given, names), (some_given, passed)):
        scope: _Scope = {}
        for name, parameter in parameters.items():
            if name == "self" and isinstance(root, nn.Module):
                scope[name] = root
            elif name in names and name in given:
                scope[name] = _Given(name)
            elif parameter.default is None:
                scope[name] = _Absent(name)
            else:
                scope[name] = parameter.default if _is_plain(parameter.default) else _UNKNOWN
        kind = _Given if reader is all_given else _Absent
        reader.sought = {name for name, value in scope.items() if isinstance(value, kind)}
        reader.read(bare, scope)
    return Consumption(
        {**all_given.wishes, **some_given.wishes},
        tuple(name for name in some_given.needed if name in names),
        {name: tuple(each[index] for index in sorted(each)) for name, each in all_given.items.items()},
        all_given.states,
    )


@dataclass(slots=True)
class _Reader:
    """Reads functions. Mutable: it collects.

    Attributes:
        clues: Knows what layers want.
        wishes: What was found of each parameter.
        needed: The absent parameters that something was done with.
        sought: The parameters of which something is still to be found out; there is nothing to read without any.
        items: What was found of the items of each parameter, by their index.
        states: The recurrent layers that take a parameter as their state.
    """

    clues: Clues
    wishes: dict[str, LayerWish] = field(default_factory=dict[str, LayerWish])
    needed: dict[str, None] = field(default_factory=dict[str, None])
    sought: set[str] = field(default_factory=set[str])
    items: dict[str, dict[int, LayerWish]] = field(default_factory=dict[str, dict[int, LayerWish]])
    states: dict[str, nn.RNNBase | nn.RNNCellBase] = field(default_factory=dict[str, nn.RNNBase | nn.RNNCellBase])
    _paths: dict[int, str] = field(default_factory=dict[int, str])
    _functions: int = 0
    _depth: int = 0
    _doubts: int = 0

    def __post_init__(self) -> None:
        self._paths = {id(module): path for path, module in self.clues.modules.items()}

    def read(self, function: FunctionType, scope: _Scope) -> Any:
        """Follow a function's body, and return what it returns as far as that is known."""
        code = function.__code__
        if self._functions >= _MOST_FUNCTIONS or self._depth >= _DEEPEST or not is_user_file(code.co_filename):
            return _UNKNOWN
        definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
        if not isinstance(definition, ast.FunctionDef):
            return _UNKNOWN
        self._functions += 1
        self._depth += 1
        try:
            return _Body(self, function, scope).run(definition.body)
        finally:
            self._depth -= 1

    def doubtful(self, by: int) -> None:
        """Note that it is not known whether what is read now runs, or that it is known again."""
        self._doubts += by

    def need(self, value: Any) -> None:
        """Note that something was done with a value that does not work with None."""
        if isinstance(value, _Absent) and not self._doubts:
            self.needed.setdefault(value.name)
            self.sought.discard(value.name)

    def take(self, value: Any, wish: LayerWish) -> None:
        """Note that a layer takes a value."""
        self.need(value)
        if isinstance(value, _Given):
            self.wishes.setdefault(value.name, wish)
            self.sought.discard(value.name)
        elif isinstance(value, _Part):
            self.items.setdefault(value.name, {}).setdefault(value.index, wish)

    def call_module(self, module: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow the call of a module."""
        path = self._paths.get(id(module), "")
        first = args[0] if args else next(iter(kwargs.values()), _UNKNOWN)
        if self.clues.is_transparent(path) or isinstance(module, nn.Identity):
            return first
        wish = self.clues.wish(path) if path else None
        if isinstance(module, nn.RNNBase | nn.RNNCellBase):
            state = args[1] if len(args) > 1 else kwargs.get("hx")
            if isinstance(state, _Given):
                self.states.setdefault(state.name, module)
                self.sought.discard(state.name)
        if wish is not None:
            self.take(first, wish)
            return _UNKNOWN
        if isinstance(module, nn.Sequential):
            for part in module:
                first = self.call_module(part, [first], {})
            return first
        return self.call_function(module.forward, args, kwargs)

    def call_function(self, function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Follow the call of a Python function or method."""
        function = inspect.unwrap(function)
        if isinstance(function, MethodType):
            args, function = [function.__self__, *args], inspect.unwrap(function.__func__)
        if not isinstance(function, FunctionType):
            return _UNKNOWN
        try:
            bound = inspect.signature(function).bind_partial(*args, **kwargs)
        except (TypeError, ValueError):
            return _UNKNOWN
        scope = dict(bound.arguments)
        for name, parameter in bound.signature.parameters.items():
            if name not in scope:
                scope[name] = parameter.default if _is_plain(parameter.default) else _UNKNOWN
        return self.read(function, scope)


class _Body:
    """The body of one function. Mutable: its scope changes as statements are read."""

    def __init__(self, reader: _Reader, function: FunctionType, scope: _Scope) -> None:
        self.reader = reader
        self.function = function
        self.scope = scope
        self.result: Any = _UNKNOWN

    def run(self, body: list[ast.stmt]) -> Any:
        """Read all statements; return what is returned."""
        self.statements(body)
        return self.result

    def statements(self, body: Iterable[ast.stmt]) -> bool:
        """Read statements, and return whether they end the function."""
        return any(not self.reader.sought or self._statement(statement) for statement in body)

    def _statement(self, statement: ast.stmt) -> bool:  # noqa: C901, PLR0912 - a table of syntax.
        match statement:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._bind(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.value(value))
            case ast.AugAssign(target=target, value=value):
                self.reader.need(self.value(target))
                self.reader.need(self.value(value))
            case ast.Expr(value=value):
                self.value(value)
            case ast.Return(value=value):
                self.result = self.value(value) if value is not None else None
                return True
            case ast.Raise():
                return True
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branch(test, body, orelse)
            case ast.For(target=target, iter=items, body=body):
                for each in _rounds(self.value(items)):
                    self._bind(target, each)
                    self.statements(body)
            case ast.While(body=body) | ast.With(body=body):
                return self.statements(body)
            case ast.Try(body=body, handlers=handlers):
                self._attempt(body, handlers)
            case _:
                pass
        return False

    def _branch(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> bool:
        decided = _truth(self.value(test))
        if decided is not None:
            return self.statements(body if decided else orelse)
        before = dict(self.scope)
        self.reader.doubtful(1)
        ends = self.statements(body)
        one, self.scope = self.scope, dict(before)
        other_ends = self.statements(orelse)
        self.reader.doubtful(-1)
        if not ends:
            self.scope = one if other_ends else _merged(one, self.scope)
        return ends and other_ends

    def _attempt(self, body: list[ast.stmt], handlers: list[ast.ExceptHandler]) -> None:
        """Read what is tried, which may be meant to fail, and what is done then."""
        before = dict(self.scope)
        self.reader.doubtful(1)
        self.statements(body)
        for handler in handlers:
            after, self.scope = self.scope, dict(before)
            ends = self.statements(handler.body)
            self.scope = after if ends else _merged(after, self.scope)
        self.reader.doubtful(-1)

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.scope[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self.reader.need(value)
                known = value if isinstance(value, tuple | list) and len(value) == len(targets) else None
                for index, each in enumerate(targets):
                    part = _Part(value.name, index) if isinstance(value, _Given) else _UNKNOWN
                    self._bind(each, known[index] if known is not None else part)
            case _:
                pass

    def value(self, expression: ast.expr) -> Any:  # noqa: C901, PLR0911, PLR0912 - a table of syntax.
        """Return what an expression stands for: an object of the model's, an argument, or nothing that is known."""
        match expression:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.scope[name] if name in self.scope else self._global(name)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self.value(base), name)
            case ast.Subscript(value=base, slice=index):
                return self._item(self.value(base), self.value(index))
            case ast.Call():
                return self._call(expression)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple([self.value(item) for item in items])
            case ast.BinOp(left=left, right=right):
                return self._arithmetic(self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = _truth(self.value(operand))
                return _UNKNOWN if truth is None else not truth
            case ast.UnaryOp(operand=operand):
                value = self.value(operand)
                self.reader.need(value)
                return value if isinstance(value, _Given) else _UNKNOWN
            case ast.BoolOp(op=kind, values=values):
                return self._either(isinstance(kind, ast.Or), values)
            case ast.Compare(left=left, ops=[kind], comparators=[right]):
                return _compared(type(kind), self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choice(test, body, orelse)
            case ast.NamedExpr(target=target, value=inner):
                value = self.value(inner)
                self._bind(target, value)
                return value
            case (
                ast.ListComp(elt=element, generators=generators) | ast.GeneratorExp(elt=element, generators=generators)
            ):
                *outer, innermost = generators
                for generator in outer:
                    self._bind(generator.target, _first_of(self.value(generator.iter)))
                for each in _rounds(self.value(innermost.iter)):
                    self._bind(innermost.target, each)
                    self.value(element)
                return _UNKNOWN
            case _:
                return _UNKNOWN

    def _global(self, name: str) -> Any:
        function = self.function
        if name in function.__code__.co_freevars and function.__closure__:
            cell = function.__closure__[function.__code__.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:  # Not bound yet.
                return _UNKNOWN
        return function.__globals__.get(name, getattr(builtins, name, _UNKNOWN))

    def _attribute(self, base: Any, name: str) -> Any:
        self.reader.need(base)
        if base is _UNKNOWN or isinstance(base, _Given | _Part | _Absent | Tensor):
            return _UNKNOWN
        try:
            return _still(getattr(base, name))
        except Exception:  # noqa: BLE001 - a property of the user's may raise anything.
            return _UNKNOWN

    def _item(self, base: Any, index: Any) -> Any:
        self.reader.need(base)
        if isinstance(base, nn.ModuleList | nn.ModuleDict | nn.Sequential | list | tuple | dict):
            try:
                return _still(base[index])
            except (LookupError, TypeError, ValueError):
                return _UNKNOWN
        if isinstance(base, _Given) and type(index) is int and index >= 0:
            return _Part(base.name, index)
        return _UNKNOWN

    def _arithmetic(self, left: Any, right: Any) -> Any:
        for value in (left, right):
            self.reader.need(value)
        if isinstance(left, _Given | _Part):
            return left
        return right if isinstance(left, int | float) and isinstance(right, _Given) else _UNKNOWN

    def _either(self, is_or: bool, values: list[ast.expr]) -> Any:
        found: Any = _UNKNOWN
        doubts = 0
        for expression in values:
            found = self.value(expression)
            truth = _truth(found)
            if truth is is_or:
                break
            if truth is None:  # What follows may not be looked at.
                self.reader.doubtful(1)
                doubts += 1
        self.reader.doubtful(-doubts)
        return found if not doubts or _truth(found) is is_or else _UNKNOWN

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
        decided = _truth(self.value(test))
        if decided is not None:
            return self.value(body if decided else orelse)
        self.reader.doubtful(1)
        found = self.value(body), self.value(orelse)
        self.reader.doubtful(-1)
        return next((each for each in found if isinstance(each, _Given)), _UNKNOWN)

    def _call(self, call: ast.Call) -> Any:
        args = [self.value(each) for each in call.args if not isinstance(each, ast.Starred)]
        kwargs = {each.arg: self.value(each.value) for each in call.keywords if each.arg is not None}
        if isinstance(call.func, ast.Attribute):
            owner = self.value(call.func.value)
            if isinstance(owner, _Given):
                return owner if call.func.attr in _KEEPS_SHAPE else _UNKNOWN
        function = self.value(call.func)
        if isinstance(function, type) or inspect.isbuiltin(function):
            return _of_python(function, args, kwargs)
        if isinstance(function, nn.Module):
            return self.reader.call_module(function, args, kwargs)
        return self._call_code(function, args, kwargs)

    def _call_code(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow the call of what is neither Python's own nor a module."""
        name = getattr(function, "__name__", "")
        if name == "rearrange" and len(args) > 1 and isinstance(args[1], str):
            self.reader.take(args[0], self.reader.clues.pattern_wish(args[1]))
            return _UNKNOWN
        if isinstance(function, FunctionType | MethodType):
            if args and name in _KEEPS_SHAPE and not is_user_file(function.__code__.co_filename):
                return args[0]
            return self.reader.call_function(function, args, kwargs)
        method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is wanted.
        if isinstance(method, FunctionType):
            return self.reader.call_function(method, [function, *args], kwargs)
        return _UNKNOWN


@dataclass(frozen=True, slots=True)
class _Rows:
    """What `zip` returns."""

    columns: tuple[Any, ...]


def _of_python(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a builtin function or a class returns."""
    if function is enumerate and args:
        return _Rows((range(_MOST_ROUNDS), args[0]))
    if function is zip:
        return _Rows(tuple(args))
    if function is isinstance and len(args) == 2 and isinstance(args[0], _Given):
        kinds = args[1] if isinstance(args[1], tuple) else (args[1],)
        return True if Tensor in kinds else _UNKNOWN
    if function in _ON_PLAIN:
        return _tried(function, [None if isinstance(each, _Absent) else each for each in args], kwargs)
    return args[0] if args and getattr(function, "__name__", "") in _KEEPS_SHAPE else _UNKNOWN


def _rounds(items: Any) -> Iterator[Any]:
    """Yield what the target of a loop stands for: the first thing, or all where layers go with items of an input."""
    modules = _modules_beside(items)
    for index in range(min(modules, _MOST_ROUNDS)) if modules else (0,):
        yield _nth_of(items, index)


def _modules_beside(items: Any) -> int:
    """Return how many modules are gone over together with an argument, 0 where there are no such."""
    if not isinstance(items, _Rows):
        return 0
    columns = [column for each in items.columns for column in (each.columns if isinstance(each, _Rows) else (each,))]
    counts = [len(each) for each in columns if isinstance(each, nn.ModuleList | nn.Sequential)]
    return min(counts, default=0) if any(isinstance(each, _Given) for each in columns) else 0


def _first_of(items: Any) -> Any:
    """Return the first thing that iterating yields."""
    return _nth_of(items, 0)


def _nth_of(items: Any, index: int) -> Any:
    """Return one of the things that iterating yields."""
    if isinstance(items, _Rows):
        return tuple([_nth_of(column, index) for column in items.columns])
    if isinstance(items, nn.ModuleList | nn.Sequential | list | tuple | range) and len(items):
        return items[index % len(items)]
    return _Part(items.name, index) if isinstance(items, _Given) else _UNKNOWN


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | tuple | list)


def _still(value: Any) -> Any:
    """A value that modules hold; what a trace that is under way has left there says nothing, and is not to be asked."""
    return _UNKNOWN if isinstance(value, Proxy) else value


def _truth(value: Any) -> bool | None:
    """Whether a value is true, None if that is not known."""
    if isinstance(value, _Absent):
        return False
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict | nn.Module):
        return True if isinstance(value, nn.Module) else bool(value)
    return None


def _compared(kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """Return what a comparison gives, where it is about None or about settings."""
    if kind in {ast.Is, ast.IsNot}:
        values = [None if isinstance(each, _Absent) else each for each in (left, right)]
        if any(each is _UNKNOWN for each in values):
            return _UNKNOWN
        return (values[0] is values[1]) is (kind is ast.Is)
    if all(_is_plain(each) for each in (left, right)):
        return _tried(_COMPARISONS[kind], [left, right], {})
    return _UNKNOWN


def _tried(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a function of plain things returns, or that nothing is known."""
    if any(each is _UNKNOWN or isinstance(each, _Given | _Absent) for each in (*args, *kwargs.values())):
        return _UNKNOWN
    try:
        return function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - `len` and `getattr` run the user's code.
        return _UNKNOWN


def _merged(one: _Scope, other: _Scope) -> _Scope:
    """Return what is known after either of two ways: where they differ, an argument that is still the same."""
    merged: _Scope = {}
    for name in {**one, **other}:
        values = (one.get(name, _UNKNOWN), other.get(name, _UNKNOWN))
        given = next((each for each in values if isinstance(each, _Given)), _UNKNOWN)
        merged[name] = values[0] if values[0] is values[1] else given
    return merged
