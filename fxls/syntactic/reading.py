"""Following symbolic values through the code of a file's models, by syntax alone.

Every parameter of `forward` is symbolic, and so is what comes of it. Functions and methods of the file are followed
into, with what they are handed; both branches of a condition that nobody can decide are read, a loop is read twice.
What a constructor stores is found in the same way, with the constructor's defaults.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fxls.syntactic import expressions, statements
from fxls.syntactic.program import (
    FunctionNode,
    class_value,
    decorators,
    is_library_module,
    method_of,
    names_of,
    outer_base,
)
from fxls.syntactic.scope import Scope
from fxls.syntactic.values import (
    METADATA,
    NONE,
    PERHAPS,
    PLAIN,
    SYMBOLIC,
    Class,
    Constant,
    External,
    Function,
    Items,
    Method,
    Module,
    Perhaps,
    Plain,
    Symbolic,
    Value,
    collection,
    combined,
    holds_symbolic,
    joined_all,
    outcome_of,
)
from fxworker.wire import Span

Report = Callable[[str, ast.AST, str, Value], None]
"""Takes a finding: the code, the node that it is about, which way it came about, and the value that is to blame."""

_DEPTH: Final = 12
_STEPS: Final = 60_000
"""How many expressions are read at most: a file that takes more is read in part."""

_METADATA_NAMES: Final = frozenset(
    {"shape", "dtype", "device", "ndim", "layout", "is_cuda", "requires_grad", "itemsize"}
)
_METADATA_METHODS: Final = frozenset({
    "size", "dim", "numel", "nelement", "element_size", "ndimension", "stride", "storage_offset", "is_contiguous",
    "is_floating_point", "is_complex", "get_device", "type",
})  # fmt: skip
_ONLY_TENSORS: Final = frozenset({"shape", "ndim"})
_TRANSPARENT: Final = frozenset({"staticmethod", "classmethod", "property"})
_UNREADABLE: Final = frozenset({"torch.jit.script", "torch.fx.wrap", "fx.wrap", "overload", "torch.jit.unused"})


class Reading:
    """One file that is read. Mutable."""

    def __init__(self, tree: ast.Module, report: Report) -> None:
        self.names = names_of(tree)
        self._report = report
        self._steps = 0
        self._quiet = 0
        self._constructing = 0
        self.metadata_methods = _METADATA_METHODS
        self._depth = 0
        self.taking: ast.expr | None = None
        self._running: list[int] = []
        self._made: dict[tuple[int, tuple[object, ...]], Mapping[str, Value]] = {}
        self.entered = set[int]()
        self._wrapped = _wrapped_names(tree)
        scope = Scope(self.names, [], [])
        self.silently(lambda: self._module_level(tree, scope))

    def read_model(self, cls: Class, *, part: bool = False) -> None:
        """Read the forward of a class whose instance is traced by itself.

        One that is a `part` of other models is called by them, so that what it need not be handed has its default.
        """
        found = method_of(cls, "forward")
        if found is None:
            return
        owner, node = found
        model = self.instance(cls, (), {})
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]
        every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
        given = dict[str, Value]({each.arg: SYMBOLIC for each in every})
        if part:
            names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
            optional = {*names[len(names) - len(arguments.defaults) :]} if arguments.defaults else set[str]()
            optional |= {
                each.arg for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value
            }
            known = self._bound(node, (), {}, skip=1)
            given |= {name: known[name] for name in optional if isinstance(known[name], Constant)}
        self._enter(node, given, model, owner, ())

    @property
    def is_constructing(self) -> bool:
        """Whether what is read now runs before the model is traced."""
        return self._constructing > 0

    # Modules and functions.

    def instance(self, cls: Class, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Module:
        """Return an instance of a class, with what its constructor stores."""
        key = (id(cls), (*map(_mark, args), *((name, _mark(value)) for name, value in sorted(kwargs.items()))))
        if key not in self._made:
            self._made[key] = {}  # A constructor that makes another of its own kind finds nothing known.
            stored = dict[str, Value]()
            found = method_of(cls, "__init__")
            if found is not None:
                owner, node = found
                me = Module(cls, stored)
                self._constructing += 1
                self.silently(lambda: self._enter(node, self._bound(node, args, kwargs, skip=1), me, owner, ()))
                self._constructing -= 1
            self._made[key] = stored
        return Module(cls, self._made[key])

    def call_function(self, function: Function, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """Return what a function of the file returns."""
        node = function.node
        if isinstance(node, ast.Lambda):
            names = {**function.around, **self._bound(node, args, kwargs)}
            return self.value(node.body, Scope(names, [], [], function.bound, function.cls))
        marks = decorators(node, self.names)
        if marks & _UNREADABLE or node.name in self._wrapped:
            return combined((*args, *kwargs.values()))
        if isinstance(node, ast.AsyncFunctionDef):
            return PERHAPS
        skip = 0 if function.bound is None or "staticmethod" in marks else 1
        bound = self._bound(node, args, kwargs, skip=skip)
        return self._enter(node, bound, function.bound, function.cls, function.around)

    def call_module(self, module: Module, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """Return what a module returns; one of the file is looked into."""
        if isinstance(module.of, External):
            given = combined((*args, *kwargs.values()))
            if module.of.name == "torch.nn.Sequential" and module.parts:
                value = args[0] if args else PLAIN
                for part in module.parts:
                    value = self.call_module(part, (value,), {}) if isinstance(part, Module) else outcome_of(value)
                return value
            return SYMBOLIC if is_library_module(module.of.name) else outcome_of(given)
        found = method_of(module.of, "forward")
        if found is None:
            return SYMBOLIC if is_library_module(outer_base(module.of)) else PERHAPS
        owner, node = found
        if any(map(holds_symbolic, (*args, *kwargs.values()))):
            self.entered.add(id(module.of))
        return self._enter(node, self._bound(node, args, kwargs, skip=1), module, owner, ())

    def attribute(self, owner: Value, name: str) -> Value:
        """Return an attribute of a value."""
        match owner:
            case Symbolic():
                return METADATA if name in _METADATA_NAMES or owner.metadata else Method(owner, name)
            case External():
                return External(f"{owner.name}.{name}")
            case Module():
                return self._module_attribute(owner, name)
            case Perhaps(opaque=False) if name in _ONLY_TENSORS:
                return METADATA
            case Plain() | Constant() | Class() | Function():
                return Method(owner, name)
            case _:
                return Method(owner, name)

    def _module_attribute(self, owner: Module, name: str) -> Value:
        if name == "training":
            return Constant(True)  # As a module is when it is made.
        if name in owner.attributes:
            return owner.attributes[name]
        if isinstance(owner.of, Class):
            found = method_of(owner.of, name)
            if found is not None:
                cls, node = found
                function = Function(node, self.names, owner, cls)
                return self.call_function(function, (), {}) if "property" in decorators(node, self.names) else function
            value = class_value(owner.of, name)
            if value is not None:
                return self._default(value)
        elif is_library_module(owner.of.name) and name in {"weight", "bias"}:
            return PERHAPS  # A parameter, or None.
        return Method(owner, name)

    def _bound(
        self,
        node: FunctionNode | ast.Lambda,
        args: Sequence[Value],
        kwargs: Mapping[str, Value],
        *,
        skip: int = 0,
    ) -> dict[str, Value]:
        """Return the parameters of a function with what a call gives them; the first `skip` are bound otherwise."""
        arguments = node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][skip:]
        defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
        defaults |= {
            each.arg: value
            for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if value is not None
        }
        found: dict[str, Value] = {name: self._default(value) for name, value in defaults.items()}
        found |= {name: PLAIN for name in names if name not in found}
        found |= {each.arg: PLAIN for each in arguments.kwonlyargs if each.arg not in found}
        found |= dict(zip(names, args, strict=False))
        found |= {name: value for name, value in kwargs.items() if name in found}
        if arguments.vararg is not None:
            found[arguments.vararg.arg] = collection(args[len(names) :])
        if arguments.kwarg is not None:
            rest = [value for name, value in kwargs.items() if name not in found]
            found[arguments.kwarg.arg] = Items(None if rest else (), joined_all(rest), mapping=True)
        return found

    def _default(self, node: ast.expr) -> Value:
        return Constant(node.value) if isinstance(node, ast.Constant) else self.value(node, Scope(self.names, [], []))

    def _enter(
        self,
        node: FunctionNode,
        bound: Mapping[str, Value],
        me: Value | None,
        cls: Class | None,
        around: Mapping[str, Value] | tuple[()],
    ) -> Value:
        """Read the body of a function; return what it returns."""
        if self._depth >= _DEPTH or self._running.count(id(node)) > 1:
            return PERHAPS
        self._depth += 1
        self._running.append(id(node))
        names = {**(around or self.names), **bound}
        static = "staticmethod" in decorators(node, self.names)
        if me is not None and node.args.args and not static:
            names[node.args.args[0].arg] = me
        scope = Scope(names, [], [], me, cls)
        ended = self.read(node.body, scope)
        self._running.pop()
        self._depth -= 1
        if scope.yielded:
            return Items(None, joined_all(scope.yielded))
        return joined_all(scope.returned if ended else [*scope.returned, NONE])

    def silently(self, read: Callable[[], object]) -> None:
        """Read something without reporting what is found."""
        self._quiet += 1
        try:
            read()
        finally:
            self._quiet -= 1

    def say(self, code: str, node: ast.AST, way: str, value: Value) -> None:
        """Report a finding, unless what is read now is only a constructor, or what its author catches."""
        if not self._quiet:
            self._report(code, node, way, value)

    def _module_level(self, tree: ast.Module, scope: Scope) -> None:
        for statement in tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                self.read([statement], scope)

    # What is read: see the modules of that name.

    def read(self, body: Iterable[ast.stmt], scope: Scope) -> bool:
        """Read statements; whether nothing behind them runs."""
        return statements.block(self, body, scope)

    def store(self, target: ast.expr, value: Value, scope: Scope, source: ast.expr) -> None:
        """Bind a value to a target: a name, several, an attribute, an item."""
        statements.store(self, target, value, scope, source)

    def ask(self, node: ast.expr, scope: Scope, way: str) -> bool | None:
        """Read a condition, report what in it is symbolic, and return its outcome where that is known."""
        return expressions.ask(self, node, scope, way)

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """Return what an expression stands for, having reported what in it asks too much."""
        self._steps += 1
        return PLAIN if self._steps > _STEPS else expressions.value_of(self, node, scope)

    def each_of(self, node: ast.expr, value: Value, way: str = "iterated") -> Value:
        """Return what iterating a value gives each time."""
        return expressions.each_of(self, node, value, way)


def _mark(value: Value) -> object:
    """Return what two values have in common if and only if they are alike."""
    match value:
        case Constant():
            return (type(value.value).__name__, repr(value.value))
        case External():
            return value.name
        case Class() | Function() | Module() | Items():
            return id(value)
        case _:
            return type(value).__name__


def _wrapped_names(tree: ast.Module) -> set[str]:
    """Return the names that the file hands to `torch.fx.wrap`."""
    found = set[str]()
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function, args = node.value.func, node.value.args
            if isinstance(function, ast.Attribute | ast.Name) and args and isinstance(args[0], ast.Constant):
                name = function.attr if isinstance(function, ast.Attribute) else function.id
                if name == "wrap" and isinstance(args[0].value, str):
                    found.add(args[0].value)
    return found


def spans(node: ast.expr | ast.pattern) -> Span:
    """Return where a node stands."""
    return Span(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


__all__ = ["Method", "Reading", "Report", "Scope", "spans"]
