"""What a constructor's body says about its parameters: which kind of thing each must be, and what it is compared with.

`config.width` makes `config` an object and `config.width` what `nn.Linear` takes there; `for depth in depths` makes
`depths` a sequence; `{"relu": …}[act]` says what `act` may be. Values are followed through plain assignments, through
`super().__init__(…)` and into the constructors of other classes, not further. Nothing is executed.
"""

import ast
import enum
import inspect
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from torch import Tensor, nn

from fxworker.choices import attribute_of, every_parameter_of, parameters_of
from fxworker.evidence import METHODS, Kind, Usage, Use, merge

_PROPERTIES: Final = frozenset({"shape", "ndim"})
"""What only tensors have, and arrays."""

_SHARED: Final = frozenset({"copy", "pop", "update", "to", "device", "dtype", "weight", "bias"})

_BUILTINS: Final[dict[str, Kind]] = {
    **dict.fromkeys(
        ("len", "enumerate", "zip", "sum", "list", "tuple", "set", "sorted", "reversed", "any", "all"), "sequence"
    ),
    **dict.fromkeys(("range", "int", "float", "round", "abs"), "number"),
}
_TAKING_TENSORS: Final = ("nn.Parameter", "torch.cumprod", "torch.cumsum", "torch.as_tensor", "torch.stack")
"""How functions end whose first argument is a tensor."""

_TAKING_MODULES: Final = "ModuleList"
"""How classes end that take a list of modules."""

_DEEPEST: Final = 3
"""How many constructors a value is followed into."""


def usage_of(cls: Any, depth: int = 0, owner: Any = None) -> Usage:
    """Return what the constructors of a class, its own and those it inherits, say about the parameters.

    Args:
        cls: The class, or a function.
        depth: In how many constructors this one is called.
        owner: The class whose method the function is.
    """
    function = _constructor(cls)
    tree = _tree(function)
    if tree is None:
        return {}
    reader = _Reader(function.__globals__, owner or cls, function, depth)
    reader.read(tree)
    reader.read_methods(_methods(cls))
    return reader.usage


def _constructor(cls: Any) -> Any:
    """Return the function that constructs: the class's own or inherited `__init__`, or the callable itself."""
    function = cls.__init__ if isinstance(cls, type) else attribute_of(cls, "__func__") or cls
    function = inspect.unwrap(function)
    return function if inspect.isfunction(function) else None


def _tree(function: Any) -> ast.FunctionDef | None:
    if function is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError, RecursionError):
        return None
    return tree if isinstance(tree, ast.FunctionDef) else None


def _methods(cls: Any) -> Iterator[ast.FunctionDef]:
    """Yield the other methods of a class that its instances are used by."""
    for name, value in vars(cls).items() if isinstance(cls, type) else ():
        if name in {"forward", "reset_parameters", "encode", "decode"} and inspect.isfunction(value):
            tree = _tree(value)
            if tree is not None:
                yield tree


class _Reader(ast.NodeVisitor):
    """Reads one constructor. Mutable."""

    def __init__(self, scope: Mapping[str, Any], cls: Any, function: Any, depth: int) -> None:
        self.usage: Usage = {}
        self._scope = scope
        self._cls = cls
        self._function = function
        self._depth = depth
        self._paths: dict[str, str] = {}
        self._keywords = ""
        self._sums: list[list[str]] = []

    def read(self, tree: ast.FunctionDef) -> None:
        """Read the constructor."""
        every = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        self._paths = {each.arg: each.arg for each in every if each.arg != "self"}
        self._keywords = tree.args.kwarg.arg if tree.args.kwarg is not None else ""
        for statement in tree.body:
            self.visit(statement)
        for paths in self._sums:
            # What is added to a list is one.
            if any("sequence" in self._use(path).kinds for path in paths):
                for path in paths:
                    self._use(path).note("sequence")

    def read_methods(self, trees: Iterable[ast.FunctionDef]) -> None:
        """Read how attributes that hold parameters are called later, and what is read from them."""
        kept = {name: path for name, path in self._paths.items() if name.startswith("self.")}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in kept:
                    use = self._use(kept[ast.unparse(node.func)])
                    if "class" not in use.kinds:
                        use.note("callable")
                elif (
                    isinstance(node, ast.Attribute) and ast.unparse(node.value) in kept and _is_own_attribute(node.attr)
                ):
                    path = kept[ast.unparse(node.value)]
                    self._use(path).note("object")
                    self._use(f"{path}.{node.attr}")

    def visit_Assign(self, node: ast.Assign) -> None:
        """Follow `self.x = x`, `a, b = pair` and `a, b = c, d`."""
        self.visit(node.value)
        path = self._path(node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for each, value in zip(target.elts, node.value.elts, strict=False):
                    self._bind(ast.unparse(each), self._path(value))
            elif isinstance(target, ast.Tuple | ast.List) and path:
                self._unpacked(target, path)
            elif isinstance(target, ast.Name | ast.Attribute):
                self._bind(ast.unparse(target), path)
            else:
                self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Follow `self.x: int = x`."""
        if node.value is not None:
            self.visit(node.value)
            self._bind(ast.unparse(node.target), self._path(node.value))

    def visit_For(self, node: ast.For) -> None:
        """A loop's variable is an item."""
        self._loop(node.target, node.iter)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """As in a loop; `visit_ListComp` and its like come here first."""
        self._loop(node.target, node.iter)
        for test in node.ifs:
            self.visit(test)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for generator in node.generators:
            self.visit(generator)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        """Its loops come before its items."""
        self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        """Likewise."""
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        """Likewise."""
        self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        """Likewise."""
        self._comprehension(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`config.width` makes an object; what is called says more (`visit_Call`)."""
        path = self._path(node.value)
        if path and node.attr in _PROPERTIES:
            self._use(path).note("tensor")
        elif path and node.attr not in _SHARED and not node.attr.startswith("__"):
            self._use(path).note("object")
            self._use(f"{path}.{node.attr}")
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`opt["dim"]` makes a mapping, `dims[0]` a sequence, `{"relu": …}[act]` says what `act` may be."""
        path, index = self._path(node.value), node.slice
        if path and isinstance(index, ast.Constant) and isinstance(index.value, str):
            self._use(path).note("mapping")
            self._use(f"{path}.{index.value}")
        elif path:
            use = self._use(path)
            use.note("sequence")
            if isinstance(index, ast.Constant) and isinstance(index.value, int):
                use.least = max(use.least, index.value + 1)
            self._use(f"{path}[]")
        key = self._path(index)
        if key:
            self._use(key).literals += self._keys(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Note what is called, and what is handed on to it."""
        path = self._path(node.func)
        method = node.func if isinstance(node.func, ast.Attribute) else None
        owner = self._path(method.value) if method is not None else ""
        if method is not None and owner and (method.attr in METHODS or method.attr in _SHARED):
            if method.attr in METHODS:
                self._use(owner).note(METHODS[method.attr])
            for part in (*node.args, *(each.value for each in node.keywords)):
                self.visit(part)
            return
        if path:
            self._use(path).note("class" if not self._in_lambda else "callable")
        name = ast.unparse(node.func)
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.expr() as key, *_]) if self._path(key):
                self._use(self._path(key)).note("string")
            case ast.Call(func=ast.Name(id="map" | "filter"), args=[ast.Lambda() as function, values]):
                self._loop(ast.Name(next((each.arg for each in function.args.args), "")), values)
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, ast.Name(id="str")]) if self._path(value):
                self._use(self._path(value)).textual = True
            case ast.Call(func=ast.Name(id="isinstance" | "callable" | "hasattr" | "exists" | "type" | "default")):
                pass
            case _:
                self._handed(node, name)
        self.generic_visit(node)

    _in_lambda = False

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """What is called later, not while it is constructed."""
        before, self._in_lambda = self._in_lambda, True
        self.generic_visit(node)
        self._in_lambda = before

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Arithmetic is for numbers, unless a list or a string is on the other side."""
        adds = isinstance(node.op, ast.Add)
        for side, other in ((node.left, node.right), (node.right, node.left)):
            path = self._path(side)
            if path:
                if adds and isinstance(other, ast.List | ast.Tuple | ast.ListComp):
                    self._use(path).note("sequence")
                elif isinstance(other, ast.JoinedStr) or (
                    isinstance(other, ast.Constant) and isinstance(other.value, str)
                ):
                    self._use(path).note("string")
                else:
                    self._use(path).note("number")
        if adds:
            self._sums.append([path for path in map(self._path, _summands(node)) if path])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """`mode == "linear"` says what it may be, `x is None` that it may be missing."""
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            for side, other in ((left, right), (right, left)):
                path = self._path(side)
                if path:
                    self._compared(self._use(path), operator, other, reverse=side is right)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        """`*dims` is a sequence."""
        path = self._path(node.value)
        if path:
            self._use(path).note("sequence")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """`if flag:` is the least that one can say of something."""
        self._tested(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """As in a statement."""
        self._tested(node.test)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        """The cases say what the subject may be."""
        path = self._path(node.subject)
        if path:
            for case in node.cases:
                self._use(path).literals += [
                    ast.unparse(each.value) for each in ast.walk(case.pattern) if isinstance(each, ast.MatchValue)
                ]
        self.generic_visit(node)

    def _use(self, path: str) -> Use:
        return self.usage.setdefault(path, Use())

    def _path(self, node: ast.expr) -> str:
        """Return the path of a value that comes from a parameter, "" for another."""
        match node:
            case ast.Name(id=name):
                return self._paths.get(name, "")
            case ast.Attribute(value=value, attr=name):
                known = self._paths.get(ast.unparse(node))
                around = self._path(value)
                return known or (f"{around}.{name}" if around and name not in _PROPERTIES else "")
            case ast.Subscript(value=value, slice=ast.Constant(value=key)):
                around = self._path(value)
                return "" if not around else f"{around}.{key}" if isinstance(key, str) else f"{around}[]"
            case ast.Subscript(value=value):
                around = self._path(value)
                return f"{around}[]" if around and not isinstance(node.slice, ast.Slice) else around
            case ast.BoolOp(op=ast.Or(), values=[first, *_]):
                return self._path(first)
            case _:
                return ""

    def _bind(self, name: str, path: str) -> None:
        if path:
            self._paths[name] = path
        elif name not in self.usage:
            # A parameter that is normalised (`x = x if … else (x, x)`) stays what was given.
            self._paths.pop(name, None)

    def _unpacked(self, target: ast.Tuple | ast.List, path: str) -> None:
        use = self._use(path)
        use.note("sequence")
        if not any(isinstance(each, ast.Starred) for each in target.elts):
            use.count = use.count or len(target.elts)
        for each in target.elts:
            if isinstance(each, ast.Name | ast.Attribute):
                self._bind(ast.unparse(each), f"{path}[]")

    def _loop(self, target: ast.expr, values: ast.expr) -> None:
        """Bind a loop's variables to items of what it goes over."""
        self.visit(values)
        path = self._path(values)
        if path:
            self._use(path).note("sequence")
            self._items(target, path)
            return
        match values:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if isinstance(target, ast.Tuple):
                self._loop(target.elts[-1], inner)
            case ast.Call(func=ast.Name(id="zip"), args=parts) if isinstance(target, ast.Tuple):
                for part, each in zip(parts, target.elts, strict=False):
                    self._loop(each, part)
            case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple" | "sorted" | "range"), args=[inner]):
                if values.func.id != "range":  # pyright: ignore[reportAttributeAccessIssue] — The pattern says a name.
                    self._loop(target, inner)
            case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values" | "keys")) if self._path(inner):
                use = self._use(self._path(inner))
                use.note("mapping")
                use.least = max(use.least, 1)
            case _:
                pass

    def _items(self, target: ast.expr, path: str) -> None:
        if isinstance(target, ast.Name):
            self._paths[target.id] = f"{path}[]"
            self._use(f"{path}[]")
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpacked(target, f"{path}[]")

    def _compared(self, use: Use, operator: ast.cmpop, other: ast.expr, *, reverse: bool) -> None:
        if isinstance(operator, ast.Is | ast.IsNot):
            use.optional = True
        elif isinstance(operator, ast.In | ast.NotIn) and not reverse:
            items = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else []
            use.literals += [*self._constants(items)] or self._keys(other)
        elif isinstance(operator, ast.In | ast.NotIn):
            is_text = isinstance(other, ast.Constant) and isinstance(other.value, str)
            use.note("string" if is_text else "sequence")
        elif isinstance(other, ast.Constant) and isinstance(other.value, str):
            use.note("string")
            use.literals.append(repr(other.value))
        elif isinstance(other, ast.Constant) and other.value is None:
            use.optional = True
        elif isinstance(other, ast.Constant) and isinstance(other.value, bool):
            use.note("flag")
        elif isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) or isinstance(other, ast.Constant):
            use.note("number")
            if isinstance(operator, ast.Eq) and isinstance(other, ast.Constant):
                use.literals.append(ast.unparse(other))
        elif isinstance(operator, ast.Eq | ast.NotEq):
            use.literals += self._constants([other])

    def _constants(self, nodes: Iterable[ast.expr]) -> Iterator[str]:
        """Yield the constants among expressions, also those that have a name, and the members of enumerations."""
        for node in nodes:
            value = node.value if isinstance(node, ast.Constant) else self._value(node)
            if isinstance(value, enum.Enum):
                yield ast.unparse(node)
            elif isinstance(node, ast.Constant) or isinstance(value, str | int | float):
                yield repr(value)

    def _tested(self, test: ast.expr) -> None:
        tests = test.values if isinstance(test, ast.BoolOp) else [test]
        for each in tests:
            path = self._path(each.operand if isinstance(each, ast.UnaryOp) else each)
            if path:
                self._use(path).note("flag")

    def _keys(self, table: ast.expr) -> list[str]:
        """Return what a table may be asked for: the keys of a dictionary that is written out, or that is there."""
        if isinstance(table, ast.Dict):
            return [ast.unparse(each) for each in table.keys if isinstance(each, ast.Constant)]
        found = self._value(table)
        if isinstance(found, Mapping | list | tuple | set | frozenset):
            return [repr(each) for each in found if isinstance(each, str | int)][:12]
        return []

    def _value(self, node: ast.expr) -> Any:
        """Return what a name that does not come from the constructor stands for, None where that is not known."""
        match node:
            case ast.Name(id=name):
                return self._scope.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return attribute_of(self._cls, name)
            case ast.Attribute(value=value, attr=name):
                return attribute_of(self._value(value), name)
            case _:
                return None

    def _handed(self, call: ast.Call, name: str) -> None:
        """Note what a value is handed to: as which parameter, and what is known about that."""
        named = [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        given: list[tuple[str | int, ast.expr]] = [*enumerate(call.args), *named]
        mine = [(at, self._path(value)) for at, value in given if self._path(value)]
        spread = [each.value for each in call.keywords if each.arg is None]
        for each in spread:
            if self._path(each):
                self._use(self._path(each)).note("mapping")
                self._spread(call, name, self._path(each))
        passes_on = any(isinstance(each, ast.Name) and each.id == self._keywords for each in spread)
        if not mine and not passes_on:
            return
        if not self._known_call(name, mine):
            self._received_by(self._receiver(call, name), mine, passes_on=passes_on)

    def _spread(self, call: ast.Call, name: str, path: str) -> None:
        """Note that a mapping which is handed on as arguments has those that the receiver cannot do without."""
        receiver = self._receiver(call, name)
        parameters = [*parameters_of(receiver).values()][len(call.args) :]
        given = {each.arg for each in call.keywords}
        wanted = [each.name for each in parameters if each.default is each.empty and each.name not in given]
        self._received_by(receiver, [(each, f"{path}.{each}") for each in wanted if each != "self"], passes_on=False)

    def _known_call(self, name: str, mine: list[tuple[str | int, str]]) -> bool:
        """Note what a call of Python's or torch's own says about the values that it is given; False for another."""
        kind = _BUILTINS.get(name)
        if kind is not None:
            for _, path in mine:
                self._use(path).note(kind)
        elif name.endswith(_TAKING_MODULES):
            for _, path in mine:
                self._use(path).note("sequence")
                self._use(f"{path}[]").note("callable")
        elif name.endswith(".join"):
            for _, path in mine:
                self._use(path).note("sequence")
                self._use(f"{path}[]").note("string")
        elif name == "self.register_buffer" or name.endswith(_TAKING_TENSORS):
            for at, path in mine:
                if at in {"tensor", "data"} or at == int(name == "self.register_buffer"):
                    self._use(path).note("tensor")
        else:
            return False
        return True

    def _received_by(self, receiver: Any, mine: list[tuple[str | int, str]], *, passes_on: bool) -> None:
        """Note what a receiver says about the parameters that it is given."""
        parameters = every_parameter_of(receiver)
        is_method = inspect.isfunction(receiver) and next(iter(parameters), "") == "self"
        owner = self._cls if is_method else None
        known = usage_of(receiver, self._depth + 1, owner) if self._is_followed(receiver) else {}
        for at, path in mine:
            found = parameters.get(at) if isinstance(at, str) else _positional(parameters, at + is_method)
            use = self._use(path)
            if found is None:
                use.names += [at] if isinstance(at, str) else []
                continue
            self._received(use, found)
            merge(self.usage, path, known, found.name)
        if passes_on:
            for name in parameters:
                merge(self.usage, name, known, name)

    def _received(self, use: Use, parameter: inspect.Parameter) -> None:
        use.names.append(parameter.name)
        if isinstance(parameter.default, bool | int | float | str | tuple):
            use.defaults.append(repr(parameter.default))
        kinds: dict[Any, Kind] = {int: "number", float: "number", str: "string", bool: "flag"}
        kind = kinds.get(parameter.annotation)
        if kind is not None:
            use.note(kind)

    def _receiver(self, call: ast.Call, name: str) -> Any:
        """Return the callable that a call calls, None where that is not known."""
        if name == "super().__init__" or (name.endswith(".__init__") and isinstance(self._cls, type)):
            lineage = self._cls.__mro__ if isinstance(self._cls, type) else ()
            owner = next((at for at, each in enumerate(lineage) if _is_own(each, self._function)), -1)
            return next((each for each in lineage[owner + 1 :] if "__init__" in vars(each)), None)
        found = self._value(call.func)
        return found if callable(found) else None

    def _is_followed(self, receiver: Any) -> bool:
        if self._depth >= _DEEPEST or receiver is None or receiver is self._cls:
            return False
        module = str(attribute_of(receiver, "__module__"))
        return module.partition(".")[0] != "torch" and (
            (isinstance(receiver, type) and issubclass(receiver, nn.Module)) or inspect.isfunction(receiver)
        )


def _is_own_attribute(name: str) -> bool:
    """Whether an attribute is none that modules, tensors and Python's own values have."""
    return not any(hasattr(each, name) for each in (nn.Module, Tensor, str, list, dict, float)) and name not in _SHARED


def _summands(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is added in `a + b + c`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _summands(node.left)
        yield from _summands(node.right)
    else:
        yield node


def _is_own(cls: type, function: Any) -> bool:
    own = vars(cls).get("__init__")
    return own is not None and inspect.unwrap(own) is function


def _positional(parameters: Mapping[str, inspect.Parameter], index: int) -> inspect.Parameter | None:
    named = [each for each in parameters.values() if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return named[index] if index < len(named) else None
