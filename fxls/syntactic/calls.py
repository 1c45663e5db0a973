"""What a call gives and what it cannot be given: built-in functions, torch's, numpy's, and what the file defines."""

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fxls.syntactic.program import is_library_module, method_of
from fxls.syntactic.values import (
    METADATA,
    NONE,
    PERHAPS,
    PLAIN,
    SYMBOLIC,
    Buffer,
    Class,
    Constant,
    External,
    Function,
    Items,
    Method,
    Module,
    Symbolic,
    Value,
    collection,
    combined,
    holds_symbolic,
    joined,
    joined_all,
    may_be_symbolic,
)

if TYPE_CHECKING:
    from fxls.syntactic.reading import Reading
    from fxls.syntactic.scope import Scope

BUILTINS: Final = frozenset({
    "abs", "all", "any", "bool", "bytes", "callable", "complex", "dict", "divmod", "enumerate", "filter", "float",
    "format", "frozenset", "getattr", "hasattr", "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list",
    "map", "max", "min", "next", "object", "open", "pow", "print", "range", "repr", "reversed", "round", "set",
    "setattr", "slice", "sorted", "str", "sum", "super", "tuple", "type", "vars", "zip", "Exception", "ValueError",
    "RuntimeError", "NotImplementedError", "TypeError", "AssertionError", "Ellipsis", "NotImplemented", "KeyError",
    "locals", "globals", "property", "staticmethod", "classmethod", "input", "ord", "chr", "bin", "hex", "oct",
    "__name__", "__file__", "__debug__", "DeprecationWarning", "UserWarning", "StopIteration", "IndexError",
})  # fmt: skip

_NUMBERS: Final = frozenset({"int", "float", "complex", "range"})
_ITERATING: Final = frozenset({"list", "tuple", "set", "frozenset", "iter", "sum", "enumerate", "reversed", "sorted"})
_ASKING_TYPES: Final = frozenset({"isinstance", "issubclass", "hasattr", "callable"})
_CONCRETE: Final = frozenset({"id", "hash", "type", "print", "repr", "str", "vars"})

_FROM_VALUES: Final = frozenset({
    "torch." + name for name in (
        "as_tensor", "asarray", "from_numpy", "tensor", "sparse_coo_tensor", "finfo", "iinfo", "Size", "Tensor",
        "FloatTensor", "LongTensor", "from_dlpack", "range",
    )
})  # fmt: skip
_FROM_SIZES: Final = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn"})
"""What takes a symbolic size, but not as the first of several arguments."""

_NUMPY: Final = frozenset({
    "numpy." + name for name in (
        "arange", "array", "asarray", "empty", "full", "linspace", "ones", "zeros", "prod", "float32", "float64",
        "int64",
    )
})  # fmt: skip
_EINOPS: Final = frozenset({"rearrange", "reduce", "repeat", "pack", "unpack", "einsum", "asnumpy", "parse_shape"})
_CONCRETE_EXTERNAL: Final = frozenset({
    "torch.is_tensor", "torch.jit.is_scripting", "torch.jit.is_tracing", "torch.is_grad_enabled",
    "torch.compiler.is_compiling", "torch.is_autocast_enabled", "torch.overrides.has_torch_function",
})  # fmt: skip
_FALSE: Final = frozenset({"torch.is_tensor", "torch.jit.is_scripting", "torch.jit.is_tracing"})
_OPAQUE: Final = ("torch.utils.", "torch.autograd.", "torch.distributed.", "torch.jit.", "torch.cuda.", "torch.fx.",
                  "torch.compiler.", "torch.nn.utils.", "torch.nn.init.", "torch.onnx.", "torch.ops.", "torch.func.",
                  "torch.overrides.", "torch.backends.", "torch.amp.", "torch.autocast", "torch._")  # fmt: skip
_GROWING: Final = frozenset({"append", "extend", "insert", "add", "update", "appendleft", "setdefault"})


def call(reading: "Reading", node: ast.Call, scope: "Scope") -> Value:  # noqa: C901, PLR0911, PLR0912 — A case for each kind.
    """Return what a call gives, having reported what it cannot be given."""
    if isinstance(node.func, ast.Name) and node.func.id == "super" and node.func.id not in scope.names:
        return Method(PLAIN, "super")
    function = reading.value(node.func, scope)
    args, known = _arguments(reading, node, scope)
    kwargs = dict[str, Value]()
    for each in node.keywords:
        value = reading.value(each.value, scope)
        if each.arg is not None:
            kwargs[each.arg] = value
        elif isinstance(value, Symbolic):
            reading.say("FX003", each.value, "starred", value)
    given = (*args, *kwargs.values())
    match function:
        case _ if isinstance(node.func, ast.Name) and node.func.id in BUILTINS and node.func.id not in scope.names:
            return _builtin(reading, node, node.func.id, args, kwargs)
        case _ if isinstance(node.func, ast.Attribute) and _is_super(node.func):
            return _call_above(reading, node.func.attr, scope, args, kwargs)
        case External(name=name):
            return _external(reading, node, name, args, kwargs)
        case Class():
            if _is_model(function):
                return reading.instance(function, args, kwargs)
            return Module(function, kwargs) if _is_record(function) and known and not args else _outcome(given)
        case Function():
            return reading.call_function(function, args, kwargs) if known else PERHAPS
        case Module():
            if not function.registered and any(map(holds_symbolic, given)):
                reading.say("FX007", node, "module", SYMBOLIC)
                return SYMBOLIC
            return _called(reading, node, function, args, kwargs, known=known)
        case Method():
            return _method(reading, node, function, scope, args, kwargs)
        case _:
            return _outcome(given)


def _called(
    reading: "Reading",
    node: ast.expr,
    module: Module,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    *,
    known: bool,
) -> Value:
    """Return what calling a module gives; layers of einops in it are seen from here."""
    if any(_is_einops(part) for part in _leaves(module)) and any(map(may_be_symbolic, args)):
        reading.say("FX006", node, "foreign", SYMBOLIC)
        return SYMBOLIC
    return reading.call_module(module, args, kwargs) if known else PERHAPS


def _leaves(module: Module) -> tuple[Value, ...]:
    """Return the parts of a sequence, or a module itself."""
    if isinstance(module.of, External) and module.of.name == "torch.nn.Sequential":
        return tuple(leaf for part in module.parts if isinstance(part, Module) for leaf in _leaves(part))
    return (module,)


def _is_einops(value: Value) -> bool:
    return isinstance(value, Module) and isinstance(value.of, External) and value.of.name.startswith("einops.layers")


def _is_super(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"


def _call_above(
    reading: "Reading", name: str, scope: "Scope", args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """Return what a method of a base class gives; its constructor stores what it stores."""
    if scope.cls is None or not isinstance(scope.me, Module) or not isinstance(scope.me.of, Class):
        return PERHAPS
    found = method_of(scope.me.of, name, above=scope.cls)
    if found is None:
        return NONE if name == "__init__" else _outcome((*args, *kwargs.values()))
    cls, node = found
    return reading.call_function(Function(node, reading.names, scope.me, cls), args, kwargs)


def _is_model(cls: Class) -> bool:
    return bool({"forward", "__init__"} & cls.methods.keys()) or any(
        isinstance(base, Class) or (isinstance(base, External) and base.name.startswith("torch.nn"))
        for base in cls.bases
    )


def _is_record(cls: Class) -> bool:
    """Whether a class is one of `dataclasses`, which holds what it is given, or its defaults."""
    named = (each.func if isinstance(each, ast.Call) else each for each in cls.node.decorator_list)
    return any(ast.unparse(each).rpartition(".")[2] == "dataclass" for each in named)


def _arguments(reading: "Reading", node: ast.Call, scope: "Scope") -> tuple[tuple[Value, ...], bool]:
    """Return the positional arguments, and whether it is known how many there are."""
    found: list[Value] = []
    known = True
    for each in node.args:
        if isinstance(each, ast.Starred):
            value = reading.value(each.value, scope)
            if isinstance(value, Items) and value.items is not None:
                found += value.items
            else:
                known = False
                found.append(reading.each_of(each.value, value, "starred"))
        else:
            found.append(reading.value(each, scope))
    return tuple(found), known and all(each.arg is not None for each in node.keywords)


def _builtin(  # noqa: C901, PLR0911 — A case for each kind of function.
    reading: "Reading", node: ast.Call, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    symbolic = next((each for each in args if isinstance(each, Symbolic)), None)
    first = args[0] if args else PLAIN
    if name == "len":
        if isinstance(first, Symbolic):
            reading.say("FX002", node, "length", first)
        return Constant(len(first.items)) if isinstance(first, Items) and first.items is not None else PLAIN
    if name == "bool" and isinstance(first, Symbolic):
        reading.say("FX001", node, "asked", first)
        return PLAIN
    if name in _NUMBERS:
        if symbolic is not None:
            reading.say("FX004", node, "number", symbolic)
        return Items(None, PLAIN) if name == "range" else PERHAPS if symbolic is not None else PLAIN
    if name in _ASKING_TYPES:
        return Constant(False) if name == "isinstance" and _is_no_proxy(node, first) else PLAIN
    if name in _CONCRETE:
        return PLAIN
    if name == "getattr":
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
            asked = node.args[1].value
            found = not isinstance(first, Module) or len(args) < 3 or asked in first.attributes
            return reading.attribute(first, asked) if found else PERHAPS
        return _outcome(args)
    if name in {"max", "min", "any", "all", "sorted"}:
        return _choosing(reading, node, name, args, kwargs)
    if name in {"zip", "map", "filter"} or name in _ITERATING:
        return _iterating(reading, node, name, args)
    if name == "dict":
        return Items(None, joined_all(kwargs.values()), mapping=True)
    return combined(args)


def _is_no_proxy(node: ast.Call, value: Value) -> bool:
    """Whether `isinstance` is asked of a symbolic value, about anything but what stands for one."""
    text = ast.unparse(node.args[1]) if len(node.args) > 1 else ""
    return isinstance(value, Symbolic) and "Proxy" not in text


def _choosing(
    reading: "Reading", node: ast.Call, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """Return what a function gives that compares its arguments, or the items of its one argument."""
    if len(args) == 1:
        each = reading.each_of(node.args[0], args[0])
        if isinstance(args[0], Symbolic):
            return PERHAPS
        several = not isinstance(args[0], Items) or args[0].items is None or len(args[0].items) > 1
    else:
        each, several = combined(args), len(args) > 1
    if "key" in kwargs:
        each = apply(reading, node, kwargs["key"], (each,))
    if isinstance(each, Symbolic) and (several or name in {"any", "all"}):
        reading.say("FX001", node, "asked", each)
        return PERHAPS
    if name in {"any", "all"}:
        return PLAIN
    return Items(None, each) if name == "sorted" else PERHAPS if may_be_symbolic(each) else PLAIN


def _iterating(reading: "Reading", node: ast.Call, name: str, args: Sequence[Value]) -> Value:
    """Return what a function gives that goes through its arguments."""
    positions = [each for each in node.args if not isinstance(each, ast.Starred)]
    if len(positions) != len(node.args):
        return PERHAPS
    if name in {"map", "filter"}:
        items = [reading.each_of(each, value) for each, value in zip(positions[1:], args[1:], strict=True)]
        if name == "filter" or not args:
            return Items(None, joined_all(items))
        return Items(None, apply(reading, node, args[0], items))
    items = [reading.each_of(each, value) for each, value in zip(positions, args, strict=False)]
    match name:
        case "zip":
            return Items(None, collection(items))
        case "enumerate":
            return Items(None, collection((PLAIN, items[0] if items else PLAIN)))
        case "sum":
            return combined(items)
        case "set" | "frozenset" | "sorted":
            return Items(None, joined_all(items))
        case _:
            return (
                args[0] if args and isinstance(args[0], Items) else Items(() if not args else None, joined_all(items))
            )


def apply(reading: "Reading", node: ast.Call, function: Value, args: Sequence[Value]) -> Value:
    """Return what a function gives that is handed to another one."""
    match function:
        case Function():
            return reading.call_function(function, args, {})
        case Module():
            return _called(reading, reading.taking or node, function, args, {}, known=True)
        case _:
            return _outcome(args)


def _external(  # noqa: C901, PLR0911 — A case for each kind of function.
    reading: "Reading", node: ast.Call, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    given = (*args, *kwargs.values())
    symbolic = next((each for each in given if isinstance(each, Symbolic)), None)
    holds = any(map(holds_symbolic, given))
    tail = name.rpartition(".")[2]
    if name in _CONCRETE_EXTERNAL:
        return Constant(False) if name in _FALSE else PLAIN
    if name in {"torch.nn.Parameter", "torch.nn.parameter.Parameter"}:
        return SYMBOLIC if reading.is_constructing else PERHAPS
    if name in {"torch.nn.ParameterList", "torch.nn.ParameterDict"}:
        return Items(None, SYMBOLIC, mapping=name.endswith("Dict"))
    if name in {"torch.tensor", "torch.as_tensor"} and args and isinstance(args[0], Items) and holds:
        reading.say("FX002", node, "foreign", SYMBOLIC)
        return SYMBOLIC
    if is_library_module(name):
        return _layer(reading, name, node, args)
    if name.startswith("einops.layers"):
        return Module(External(name))
    if name.startswith("math."):
        return combined(given)  # The tracer wraps these.
    if _refuses(name, args, given):
        reading.say("FX006", node, "foreign", symbolic or SYMBOLIC)
        return SYMBOLIC
    if name.startswith("torch.") and not name.startswith(_OPAQUE) and tail[:1].islower():
        if holds:
            return SYMBOLIC
        return PERHAPS if any(map(may_be_symbolic, given)) else Buffer()
    return _outcome(given)


def _refuses(name: str, args: Sequence[Value], given: Sequence[Value]) -> bool:
    """Whether a function of a library is handed something symbolic that it cannot take."""
    if name in _FROM_VALUES:
        return bool(args) and holds_symbolic(args[0])
    if name in _FROM_SIZES:
        return len(args) > 1 and isinstance(args[0], Symbolic)
    if name in _NUMPY:
        return any(map(holds_symbolic, given))
    module, _, tail = name.rpartition(".")
    return module == "einops" and tail in _EINOPS and any(map(may_be_symbolic, given))


def _layer(reading: "Reading", name: str, node: ast.Call, args: Sequence[Value]) -> Value:
    """Return an instance of one of torch's modules, with those that it holds."""
    parts: tuple[Value, ...] = ()
    if name in {"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict"}:
        for each in args:
            if isinstance(each, Items):
                parts += each.items if each.items is not None and not each.mapping else (each.each,)
            else:
                parts += (each,)
        if any(isinstance(each, ast.Starred) for each in node.args) and name == "torch.nn.Sequential":
            parts = tuple(each for each in parts if isinstance(each, Module)) if len(parts) == len(node.args) else ()
        parts = tuple(_registered(each) for each in parts)
    return Module(External(name), parts=parts, registered=reading.is_constructing)


def _registered(value: Value) -> Value:
    return Module(value.of, value.attributes, value.parts) if isinstance(value, Module) else value


def _method(  # noqa: C901, PLR0911 — A case for each kind of owner.
    reading: "Reading",
    node: ast.Call,
    method: Method,
    scope: "Scope",
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    owner, name = method.owner, method.name
    match owner:
        case Symbolic():
            return METADATA if name in reading.metadata_methods or owner.metadata else SYMBOLIC
        case Items():
            return _of_collection(node, owner, name, scope, args)
        case Module() if name == "register_buffer" and isinstance(owner.attributes, dict):
            _register(owner.attributes, args, Buffer())
        case Module() if name == "register_parameter" and isinstance(owner.attributes, dict):
            _register(owner.attributes, args, SYMBOLIC)
        case Module() if name in {"append", "extend", "insert", "add_module", "register_module"}:
            _grow(node, owner, scope, args)
        case Module() if name in {"to", "eval", "train", "cuda", "cpu", "half", "float", "requires_grad_", "apply"}:
            return owner
        case Module() if isinstance(owner.of, External) and owner.of.name in {
            "torch.nn.ModuleList",
            "torch.nn.ModuleDict",
        }:
            each = joined_all(owner.parts) if owner.parts else PERHAPS
            return Items(None, collection((PLAIN, each)) if name == "items" else PLAIN if name == "keys" else each)
        case Buffer():
            return SYMBOLIC if any(map(holds_symbolic, args)) else Buffer()
        case Constant() if isinstance(owner.value, str):
            return PLAIN
        case _ if name == "size" and may_be_symbolic(owner):
            return METADATA
        case _ if name == "dim" and may_be_symbolic(owner) and not args:
            return METADATA
        case _:
            pass
    return _outcome((owner, *args, *kwargs.values()))


def _register(attributes: dict[str, Value], args: Sequence[Value], value: Value) -> None:
    """Note a tensor that a constructor registers by name."""
    if args and isinstance(args[0], Constant) and isinstance(args[0].value, str):
        given = args[1] if len(args) > 1 else PLAIN
        attributes[args[0].value] = NONE if given == NONE else value


def _grow(node: ast.Call, owner: Module, scope: "Scope", args: Sequence[Value]) -> None:
    """Note that a container of modules, which a name or an attribute stands for, holds a further one."""
    parts = tuple(each.each if isinstance(each, Items) else each for each in args if not isinstance(each, Constant))
    grown = Module(owner.of, owner.attributes, (*owner.parts, *parts), owner.registered)
    target = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    if isinstance(target, ast.Name):
        scope.names[target.id] = grown
    elif isinstance(target, ast.Attribute) and isinstance(scope.me, Module) and isinstance(scope.me.attributes, dict):
        scope.me.attributes[target.attr] = grown


def _of_collection(node: ast.Call, owner: Items, name: str, scope: "Scope", args: Sequence[Value]) -> Value:
    """Return what a method of a list or dictionary gives, and note what it puts into it."""
    if name in _GROWING and args:
        value = args[-1].each if name in {"extend", "update"} and isinstance(args[-1], Items) else args[-1]
        each = value if owner.items == () else joined(owner.each, value)
        target = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        grown = Items(None, each, owner.mapping, holds_symbolic(owner) or holds_symbolic(value))
        if isinstance(target, ast.Name) and target.id in scope.names:
            scope.names[target.id] = grown
        elif (
            isinstance(target, ast.Attribute)
            and isinstance(scope.me, Module)
            and isinstance(scope.me.attributes, dict)
            and target.attr in scope.me.attributes
        ):
            scope.me.attributes[target.attr] = grown
        return NONE
    match name:
        case "items":
            return Items(None, collection((PLAIN, owner.each)))
        case "keys":
            return Items(None, PLAIN)
        case "values" | "copy":
            return Items(owner.items if name == "copy" else None, owner.each, owner.mapping and name == "copy")
        case "pop" | "get":
            return joined(owner.each, PLAIN) if name == "get" else owner.each
        case _:
            return PLAIN


def _outcome(values: Sequence[Value]) -> Value:
    """Return what comes out of a call of something unknown."""
    return PERHAPS if any(map(may_be_symbolic, values)) or not values else _perhaps_module(values)


def _perhaps_module(values: Sequence[Value]) -> Value:
    return PERHAPS if any(isinstance(each, Module | Function | Class | External) for each in values) else PLAIN
