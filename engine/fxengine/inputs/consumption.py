"""Which layer takes which parameter, and which optional parameters are needed: read from the source, nothing is run.

A forward is followed statement by statement with the model's real modules in hand, into the modules and functions that
it passes a parameter on to. Conditions that settings of the model or the absence of an argument decide are decided;
of the others both ways are read. What is not understood is a value of which nothing is known.
"""

import ast
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from torch import Tensor, nn

from fxengine.inputs.clues import Clues, LayerWish
from fxengine.inputs.symbols import (
    COUNTING,
    EXTENT,
    KEEPS_SHAPE,
    MOST_ROUNDS,
    OF_MAPPINGS,
    ROUNDING,
    SHAPE,
    SIZING,
    UNKNOWN,
    Absent,
    Given,
    Part,
    Raised,
    Scope,
    Turned,
    compared,
    first_of,
    inherited,
    is_plain,
    merged,
    of_python,
    ordered,
    rounds,
    still,
    truth,
    turned,
    variable,
)
from fxengine.source import is_user_file
from fxengine.syntax import definition_of

__all__ = ["Consumption", "consumption"]

_MOST_FUNCTIONS: Final = 150
"""How many functions are followed at most."""

_DEEPEST: Final = 10
"""How deep they may be nested."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What the source says of parameters.

    Attributes:
        wishes: What the first layer wants that takes a parameter as it is, by the parameter's name.
        needed: The parameters with a default without which the model does not run, in the order of their use.
        items: What layers want that take the items of a parameter which is gone over, or unpacked, in their order.
        states: The parameters that recurrent layers take as their state, with these layers.
        rows: Those of them that are the state of one layer, without a dimension for layers.
        numbers: The parameters that sizes are made of.
        flags: The parameters that are asked whether they are true.
        shares: The parameters that sizes are multiplied with.
        texts: The texts that parameters are compared with.
        unpacked: The names that parameters are unpacked into.
        attributes: What is read of parameters that no tensor has. What layers want of it is among the wishes, by its
            path: `data.x`; `graphs[]` are the items of `graphs`.
        keys: What is looked up in parameters by a name, likewise.
    """

    wishes: Mapping[str, LayerWish]
    needed: tuple[str, ...]
    items: Mapping[str, tuple[LayerWish, ...]] = field(default_factory=dict[str, tuple[LayerWish, ...]])
    states: Mapping[str, nn.RNNBase | nn.RNNCellBase] = field(default_factory=dict[str, nn.RNNBase | nn.RNNCellBase])
    rows: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unpacked: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


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
    owner = root if isinstance(root, nn.Module) else getattr(root, "__self__", None)
    all_given, some_given = _Reader(clues), _Reader(clues)
    for reader, given in ((all_given, names), (some_given, passed)):
        scope: Scope = {}
        for name, parameter in parameters.items():
            if name == "self" and owner is not None:
                scope[name] = owner
            elif name in names and name in given:
                scope[name] = Given(name)
            elif parameter.default is None:
                scope[name] = Absent(name)
            else:
                scope[name] = parameter.default if is_plain(parameter.default) else UNKNOWN
        kind = Given if reader is all_given else Absent
        reader.sought = {name for name, value in scope.items() if isinstance(value, kind)}
        reader.read(bare, scope)
    return Consumption(
        {**all_given.wishes, **some_given.wishes},
        tuple(name for name in some_given.needed if name in names),
        {name: tuple(each[index] for index in sorted(each)) for name, each in all_given.items.items()},
        all_given.states,
        frozenset(all_given.rows),
        frozenset(all_given.numbers),
        frozenset(all_given.flags),
        frozenset(all_given.shares),
        {name: tuple(compared) for name, compared in all_given.texts.items()},
        all_given.unpacked,
        {name: tuple(read) for name, read in all_given.attributes.items()},
        {name: tuple(read) for name, read in all_given.keys.items()},
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
        rows: The parameters that are states without a dimension for layers.
        numbers: The parameters that sizes are made of.
        flags: The parameters that are asked whether they are true.
        shares: The parameters that sizes are multiplied with.
        texts: The texts that each parameter is compared with.
        unpacked: The names that parameters are unpacked into.
        attributes: What is read of each parameter that no tensor has.
        keys: What is looked up in each parameter by a name.
    """

    clues: Clues
    wishes: dict[str, LayerWish] = field(default_factory=dict[str, LayerWish])
    needed: dict[str, None] = field(default_factory=dict[str, None])
    sought: set[str] = field(default_factory=set[str])
    items: dict[str, dict[int, LayerWish]] = field(default_factory=dict[str, dict[int, LayerWish]])
    states: dict[str, nn.RNNBase | nn.RNNCellBase] = field(default_factory=dict[str, nn.RNNBase | nn.RNNCellBase])
    rows: set[str] = field(default_factory=set[str])
    numbers: set[str] = field(default_factory=set[str])
    flags: set[str] = field(default_factory=set[str])
    shares: set[str] = field(default_factory=set[str])
    texts: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    unpacked: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    attributes: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    keys: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    _paths: dict[int, str] = field(default_factory=dict[int, str])
    _inverted: set[str] = field(default_factory=set[str])
    _functions: int = 0
    _depth: int = 0
    _doubts: int = 0

    def __post_init__(self) -> None:
        self._paths = {id(module): path for path, module in self.clues.modules.items()}

    def read(self, function: FunctionType, scope: Scope) -> Any:
        """Follow a function's body, and return what it returns as far as that is known."""
        code = function.__code__
        if self._functions >= _MOST_FUNCTIONS or self._depth >= _DEEPEST or not is_user_file(code.co_filename):
            return UNKNOWN
        definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
        if not isinstance(definition, ast.FunctionDef):
            return UNKNOWN
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
        if isinstance(value, Absent) and not self._doubts:
            self.needed.setdefault(value.name)
            self.sought.discard(value.name)

    def read_of(self, known: dict[str, dict[str, None]], whole: Given | Part, name: str) -> Given:
        """Note what is read of a parameter, or of its items, and return what that stands for."""
        owner = whole.name if isinstance(whole, Given) else f"{whole.name}[]"
        if not self._doubts:
            known.setdefault(owner, {}).setdefault(name)
        return Given(f"{owner}.{name}")

    def look_up(self, whole: Given | Part) -> None:
        """Note that a parameter is a mapping, or each of its items."""
        if not self._doubts:
            self.keys.setdefault(whole.name if isinstance(whole, Given) else f"{whole.name}[]", {})

    def measure(self, sizes: Iterable[Any]) -> None:
        """Note that a tensor gets these sizes."""
        for size in sizes:
            if isinstance(size, tuple | list):
                self.measure(size)
            elif isinstance(size, Given):
                self.numbers.add(size.name)
                self.sought.discard(size.name)

    def multiply(self, *factors: Any) -> None:
        """Note that a size is multiplied with a parameter."""
        if any(each is EXTENT for each in factors):
            self.shares.update(each.name for each in factors if isinstance(each, Given))

    def compare(self, value: Any, with_: Any) -> None:
        """Note that a parameter is compared with a text, or looked for among some."""
        several = with_ if isinstance(with_, tuple) else (with_,)
        if isinstance(value, Given) and several and all(isinstance(each, str) for each in several):
            self.texts.setdefault(value.name, {}).update(dict.fromkeys(several))
            self.sought.discard(value.name)

    def asked(self, value: Any) -> bool | None:
        """Return whether a value that is asked whether it is true is so, None where that is not known."""
        if isinstance(value, Given):
            self.flags.add(value.name)
        return truth(value)

    def invert(self, value: Any) -> None:
        """Note that a parameter has flags: what a layer takes is made of it, as in ``mask * 1 + ~mask * 32``."""
        if isinstance(value, Given):
            self._inverted.add(value.name)

    def take(self, value: Any, wish: LayerWish) -> None:
        """Note that a layer takes a value."""
        self.need(value)
        if isinstance(value, Given) and value.name in self._inverted:
            return
        if isinstance(value, Given | Raised):
            self.wishes.setdefault(value.name, wish if isinstance(value, Given) else wish.lowered())
            self.sought.discard(value.name)
        elif isinstance(value, Part):
            self.items.setdefault(value.name, {}).setdefault(value.index, wish)

    def call_module(self, module: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow the call of a module."""
        path = self._paths.get(id(module), "")
        first = args[0] if args else next(iter(kwargs.values()), UNKNOWN)
        if self.clues.is_transparent(path) or isinstance(module, nn.Identity):
            return first
        wish = self.clues.wish(path) if path else None
        if isinstance(module, nn.RNNBase | nn.RNNCellBase):
            state = args[1] if len(args) > 1 else kwargs.get("hx")
            if isinstance(state, Given | Raised):
                self.states.setdefault(state.name, module)
                self.sought.discard(state.name)
            if isinstance(state, Raised):
                self.rows.add(state.name)
        if wish is not None:
            self.take(first, wish)
            return UNKNOWN
        if isinstance(module, nn.Sequential):
            parts: list[nn.Module | None] = [*module]
            for part in parts:
                # One that was given None for a layer has it among its parts, and fails when it comes there.
                first = self.call_module(part, [first], {}) if part is not None else UNKNOWN
            return first
        return self.call_function(module.forward, args, kwargs)

    def call_function(self, function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Follow the call of a Python function or method."""
        function = inspect.unwrap(function)
        if isinstance(function, MethodType):
            args, function = [function.__self__, *args], inspect.unwrap(function.__func__)
        if not isinstance(function, FunctionType):
            return UNKNOWN
        try:
            bound = inspect.signature(function).bind_partial(*args, **kwargs)
        except (TypeError, ValueError):
            return UNKNOWN
        scope = dict(bound.arguments)
        for name, parameter in bound.signature.parameters.items():
            if name not in scope:
                scope[name] = parameter.default if is_plain(parameter.default) else UNKNOWN
        return self.read(function, scope)


class _Body:
    """The body of one function. Mutable: its scope changes as statements are read."""

    def __init__(self, reader: _Reader, function: FunctionType, scope: Scope) -> None:
        self.reader = reader
        self.function = function
        self.scope = scope
        self.result: Any = UNKNOWN

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
                found = self._made_anew(targets, value, self.value(value))
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
                for sides in ordered(test):
                    values = [self.value(each) for each in sides]
                    self.reader.measure(values if any(type(each) in {int, float} for each in values) else ())
                return self._branch(test, body, orelse)
            case ast.For(target=target, iter=items, body=body):
                for each in self._indices(items, target, body) or rounds(self.value(items)):
                    self._bind(target, each)
                    self.statements(body)
            case ast.While(body=body) | ast.With(body=body):
                return self.statements(body)
            case ast.Try(body=body, handlers=handlers):
                self._attempt(body, handlers)
            case _:
                pass
        return False

    def _made_anew(self, targets: list[ast.expr], value: ast.expr, found: Any) -> Any:
        """Return what an object is that a function is given and returns: `data = pool(ids, data)` has its parts."""
        match targets, value:
            case [ast.Name(id=name)], ast.Call(args=arguments) if found is UNKNOWN:
                before = self.scope.get(name)
                is_given = any(isinstance(each, ast.Name) and each.id == name for each in arguments)
                is_object = isinstance(before, Given) and before.name in self.reader.attributes
                return before if is_given and is_object else found
            case _:
                return found

    def _indices(self, items: ast.expr, target: ast.expr, body: list[ast.stmt]) -> range | None:
        """The numbers that a loop goes through to reach items of an argument by them; None where that is not done."""
        match items, target:
            case ast.Call(func=ast.Name(id="range"), args=[last], keywords=[]), ast.Name(id=index):
                pass
            case _:
                return None
        reached = {
            node.value.id
            for each in body
            for node in ast.walk(each)
            if isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Name)
            and node.slice.id == index
        }
        if not any(isinstance(self.scope.get(each), Given) for each in reached):
            return None
        count = self.value(last)
        return range(min(count, MOST_ROUNDS)) if type(count) is int and count > 0 else None

    def _branch(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> bool:
        decided = self.reader.asked(self.value(test))
        if decided is not None:
            return self.statements(body if decided else orelse)
        before = dict(self.scope)
        self.reader.doubtful(1)
        ends = self.statements(body)
        one, self.scope = self.scope, dict(before)
        other_ends = self.statements(orelse)
        self.reader.doubtful(-1)
        if not ends:
            self.scope = one if other_ends else merged(one, self.scope)
        return ends and other_ends

    def _attempt(self, body: list[ast.stmt], handlers: list[ast.ExceptHandler]) -> None:
        """Read what is tried, which may be meant to fail, and what is done then."""
        before = dict(self.scope)
        self.reader.doubtful(1)
        self.statements(body)
        for handler in handlers:
            after, self.scope = self.scope, dict(before)
            ends = self.statements(handler.body)
            self.scope = after if ends else merged(after, self.scope)
        self.reader.doubtful(-1)

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.scope[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self.reader.need(value)
                names = tuple(each.id for each in targets if isinstance(each, ast.Name))
                if isinstance(value, Given) and len(names) == len(targets):
                    self.reader.unpacked.setdefault(value.name, names)
                known = value if isinstance(value, tuple | list) and len(value) == len(targets) else None
                known = (EXTENT,) * len(targets) if value is SHAPE else known
                for index, each in enumerate(targets):
                    part = Part(value.name, index) if isinstance(value, Given) else UNKNOWN
                    self._bind(each, known[index] if known is not None else part)
            case _:
                pass

    def value(self, expression: ast.expr) -> Any:  # noqa: C901, PLR0911, PLR0912 - a table of syntax.
        """Return what an expression stands for: an object of the model's, an argument, or nothing that is known."""
        match expression:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.scope[name] if name in self.scope else variable(self.function, name)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self.value(base), name)
            case ast.Subscript(value=base, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub()))):
                whole = self.value(base)
                return turned(whole) if isinstance(whole, Given | Turned) else UNKNOWN
            case ast.Subscript(value=base, slice=index):
                return self._item(self.value(base), self.value(index))
            case ast.Slice(lower=lower, upper=upper):
                self.reader.measure([self.value(each) for each in (lower, upper) if each is not None])
                return UNKNOWN
            case ast.Call():
                return self._call(expression)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple([self.value(item) for item in items])
            case ast.BinOp(left=left, op=kind, right=right):
                values = self.value(left), self.value(right)
                if isinstance(kind, ast.Mult):
                    self.reader.multiply(*values)
                return self._arithmetic(*values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                holds = self.reader.asked(self.value(operand))
                return UNKNOWN if holds is None else not holds
            case ast.UnaryOp(op=kind, operand=operand):
                value = self.value(operand)
                self.reader.need(value)
                if isinstance(kind, ast.Invert):
                    self.reader.invert(value)
                return value if isinstance(value, Given) else UNKNOWN
            case ast.BoolOp(op=kind, values=values):
                return self._either(isinstance(kind, ast.Or), values)
            case ast.Compare(left=left, ops=[kind], comparators=[right]):
                values = self.value(left), self.value(right)
                self.reader.compare(*values)
                return compared(type(kind), *values)
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
                    self._bind(generator.target, first_of(self.value(generator.iter)))
                for each in rounds(self.value(innermost.iter)):
                    self._bind(innermost.target, each)
                    self.value(element)
                return UNKNOWN
            case _:
                return UNKNOWN

    def _attribute(self, base: Any, name: str) -> Any:
        self.reader.need(base)
        if isinstance(base, Given | Part) and name in OF_MAPPINGS:
            self.reader.look_up(base)
            return UNKNOWN
        if isinstance(base, Given | Part) and not hasattr(Tensor, name):
            return self.reader.read_of(self.reader.attributes, base, name)
        if name == "shape" and (base is UNKNOWN or isinstance(base, Given | Part | Raised)):
            return SHAPE
        if base is UNKNOWN or isinstance(base, Given | Part | Raised | Absent | Tensor):
            return UNKNOWN
        try:
            return still(getattr(base, name))
        except Exception:  # noqa: BLE001 - a property of the user's may raise anything.
            return UNKNOWN

    def _item(self, base: Any, index: Any) -> Any:
        self.reader.need(base)
        if base is SHAPE:
            return EXTENT
        if isinstance(base, nn.ModuleList | nn.ModuleDict | nn.Sequential | list | tuple | dict):
            try:
                return still(base[index])
            except (LookupError, TypeError, ValueError):
                return UNKNOWN
        if isinstance(base, Given) and type(index) is int and index >= 0:
            return Part(base.name, index)
        if isinstance(base, Given | Part) and type(index) is str:
            return self.reader.read_of(self.reader.keys, base, index)
        return UNKNOWN

    def _arithmetic(self, left: Any, right: Any) -> Any:
        for value in (left, right):
            self.reader.need(value)
        if isinstance(left, Given | Part):
            return left
        return right if isinstance(left, int | float) and isinstance(right, Given) else UNKNOWN

    def _either(self, is_or: bool, values: list[ast.expr]) -> Any:
        found: Any = UNKNOWN
        doubts = 0
        for expression in values:
            found = self.value(expression)
            holds = self.reader.asked(found)
            if holds is is_or:
                break
            if holds is None:  # What follows may not be looked at.
                self.reader.doubtful(1)
                doubts += 1
        self.reader.doubtful(-doubts)
        return found if not doubts or truth(found) is is_or else UNKNOWN

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
        decided = self.reader.asked(self.value(test))
        if decided is not None:
            return self.value(body if decided else orelse)
        self.reader.doubtful(1)
        found = self.value(body), self.value(orelse)
        self.reader.doubtful(-1)
        return next((each for each in found if isinstance(each, Given)), UNKNOWN)

    def _call(self, call: ast.Call) -> Any:
        args = [each for argument in call.args for each in self._arguments(argument)]
        kwargs = {each.arg: self.value(each.value) for each in call.keywords if each.arg is not None}
        match call.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name):
                owner = self.scope.get(next(iter(self.function.__code__.co_varnames), ""))
                return self._call_code(inherited(owner, self.function, name), args, kwargs)
            case _:
                pass
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in COUNTING:
            self.reader.measure(args)
        if isinstance(call.func, ast.Attribute):
            owner = self.value(call.func.value)
            if call.func.attr in SIZING:
                sizes = args[1:] if isinstance(owner, ModuleType) and call.func.attr == "reshape" else args
                self.reader.measure(sizes if len(sizes) > 1 else [each for each in sizes if isinstance(each, tuple)])
            if call.func.attr == "size" and (owner is UNKNOWN or isinstance(owner, Given | Part | Raised)):
                return EXTENT if args or kwargs else SHAPE
            if isinstance(owner, Given):
                if call.func.attr == "unsqueeze" and (args or list(kwargs.values())) == [0]:
                    return Raised(owner.name)
                return owner if call.func.attr in KEEPS_SHAPE else UNKNOWN
        function = self.value(call.func)
        if isinstance(function, type) or inspect.isbuiltin(function) or getattr(function, "__name__", "") in ROUNDING:
            return of_python(function, args, kwargs)
        if isinstance(function, nn.Module):
            return self.reader.call_module(function, args, kwargs)
        return self._call_code(function, args, kwargs)

    def _arguments(self, expression: ast.expr) -> Iterator[Any]:
        """Yield what an expression among the arguments of a call passes; of an argument that is spread, one item."""
        if not isinstance(expression, ast.Starred):
            yield self.value(expression)
        elif isinstance(spread := self.value(expression.value), Given):
            yield Part(spread.name, 0)

    def _call_code(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow the call of what is neither Python's own nor a module."""
        name = getattr(function, "__name__", "")
        if name == "rearrange" and len(args) > 1 and isinstance(args[1], str):
            self.reader.take(args[0], self.reader.clues.pattern_wish(args[1]))
            return UNKNOWN
        if isinstance(function, FunctionType | MethodType):
            if args and name in KEEPS_SHAPE and not is_user_file(function.__code__.co_filename):
                return args[0]
            return self.reader.call_function(function, args, kwargs)
        method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is wanted.
        if isinstance(method, FunctionType):
            return self.reader.call_function(method, [function, *args], kwargs)
        return UNKNOWN
