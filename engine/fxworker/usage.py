"""What a constructor's body says about its parameters: which kind of thing each must be, and what it is compared with.

`config.width` makes `config` an object and `config.width` what `nn.Linear` takes there; `for depth in depths` makes
`depths` a sequence; `{"relu": …}[act]` says what `act` may be. Values are followed through plain assignments, through
`super().__init__(…)` and into the constructors of other classes, not further. Nothing is executed.
"""

import ast
import copy
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from torch import Tensor, nn

from fxworker.bindings import Bindings
from fxworker.called_by_name import note_named
from fxworker.choices import FIRST_KEY, attribute_of, every_parameter_of, parameters_of, required_parameters
from fxworker.conditions import (
    note_asked,
    note_attribute,
    note_cases,
    note_chosen,
    note_comparison,
    note_got,
    note_test,
)
from fxworker.conventions import is_table_called, is_text_called
from fxworker.documented import note_documented
from fxworker.evidence import GIVEN, METHODS, MOVED, OF_ARRAYS, PROPERTIES, SHARED, Kind, Usage, Use, merge
from fxworker.indexing import note_indices
from fxworker.known_calls import is_known_call, note_computed, note_kept, note_numbers
from fxworker.later import note_later
from fxworker.receivers import Reading, Way, holds_data, positional
from fxworker.surroundings import Surroundings, constructor_of, methods_of, tree_of

_SPLITTING: Final = frozenset({"split", "rsplit", "partition", "rpartition"})

_SOME_CLASS: Final = "'torch.nn.Identity'"
"""The full name of a class, where any will do."""

_ADDING: Final = frozenset({"append", "extend", "insert", "add_module", "setattr", "deepcopy", "register_module"})
"""What a loop calls that makes parts of a model."""

_MOST_METHODS: Final = 12
"""How many methods are read that a constructor calls."""


def usage_of(cls: Any) -> Usage:
    """Return what the constructors of a class, its own and those it inherits, say about the parameters.

    Args:
        cls: The class, or a function.
    """
    found = _read_of(cls, Way(), None).usage
    note_documented(cls, found)
    return found


def _read_of(cls: Any, way: Way, owner: Any) -> Reading:
    """Read a constructor that is come to in a way; `owner` is the class whose method it is."""
    key = id(cls), id(owner), way.constructors, way.methods
    if key in way.read:
        return way.read[key]
    function = constructor_of(cls)
    tree = tree_of(function)
    found = Reading(cls, {}, {})
    if tree is not None:
        reader = _Reader(function.__globals__, owner or cls, function, way)
        reader.read(tree)
        reader.read_methods(methods_of(cls))
        found = Reading(cls, reader.usage, reader.names)
    way.read[key] = found
    return found


class _Reader(ast.NodeVisitor):
    """Reads one constructor. Mutable."""

    def __init__(self, scope: Mapping[str, Any], cls: Any, function: Any, way: Way) -> None:
        self.usage: Usage = {}
        self._around = Surroundings(scope, cls, function)
        self._cls = cls
        self._way = way
        self._names = Bindings(self.usage, self._as_constant)
        self._keywords = ""
        self._sums: list[list[str]] = []
        self._same: list[tuple[str, str]] = []
        self._made: dict[str, dict[str, str]] = {}
        self._inner: dict[str, ast.FunctionDef] = {}
        self._texts = set[str]()
        self._seen: set[str] = {"forward"}

    @property
    def names(self) -> dict[str, str]:
        """Which names hold which of the values that are given."""
        return self._names.paths

    def read(self, tree: ast.FunctionDef) -> None:
        """Read the constructor."""
        every = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        self._names.paths = {each.arg: each.arg for each in every if each.arg != "self"}
        self._texts = {
            each.arg for each in every if each.annotation is not None and ast.unparse(each.annotation) == "str"
        }
        self._keywords = self._names.keywords = tree.args.kwarg.arg if tree.args.kwarg is not None else ""
        for statement in tree.body:
            self.visit(statement)
        for one, other in self._same:
            # Which of them is used is decided while it runs.
            known = copy.deepcopy(self.usage)
            merge(self.usage, one, known, other)
            merge(self.usage, other, known, one)
        for one, other in self._names.alike:
            merge(self.usage, other, copy.deepcopy(self.usage), one)
        self._read_sums()
        for path, use in [*self.usage.items()]:
            # What gives a number for its size is no tensor.
            measured = self.usage.get(f"{path}.size.{GIVEN}")
            if measured is not None and "number" in measured.kinds:
                use.note("object")
                use.apart = True

    def _as_constant(self, node: ast.expr) -> ast.expr:
        """Return the text that a name stands for where the code is that is read now."""
        return self._around.as_constant(node)

    def _read_sums(self) -> None:
        """What is added to a list is one, and so is what is added to a text."""
        for paths in self._sums:
            if any(is_text_called(_last_of(path)) for path in paths):
                for path in paths:
                    self._names.use(path).kinds.pop("number", None)
                    self._names.use(path).note("string")
            if any("sequence" in self._names.use(path).kinds for path in paths):
                for path in paths:
                    self._names.use(path).note("sequence")

    def read_methods(self, trees: Iterable[ast.FunctionDef]) -> None:
        """Read what the methods say of the attributes that hold parameters."""
        note_later(trees, self._names, self._around)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Follow `self.x = x`, `a, b = pair` and `a, b = c, d`."""
        self.visit(node.value)
        path = self._names.path(node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for each, value in zip(target.elts, node.value.elts, strict=False):
                    self._names.bind(ast.unparse(each), self._names.path(value))
            elif isinstance(target, ast.Tuple | ast.List) and path:
                self._names.unpacked(target, path)
            elif isinstance(target, ast.Tuple | ast.List) and (path := self._names.turned(node.value)):
                self._names.turned_into(target, path)
            elif isinstance(target, ast.Name | ast.Attribute):
                self._names.bind(ast.unparse(target), path, anew=_is_made_anew(target, node.value))
                self._around.bind(ast.unparse(target), node.value)
                if isinstance(target, ast.Name):
                    self._gathered(target.id, node.value)
            else:
                self.visit(target)

    def _gathered(self, name: str, node: ast.expr) -> None:
        """Note that a name is an object of several values: `config = SimpleNamespace(dim=dim, heads=heads)`."""
        self._made.pop(name, None)
        if isinstance(node, ast.Call) and node.keywords and holds_data(self._around.value(node.func)):
            self._made[name] = {
                each.arg: self._names.path(each.value) for each in node.keywords if each.arg is not None
            }

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Follow `self.x: int = x`."""
        if node.value is not None:
            self.visit(node.value)
            self._names.bind(ast.unparse(node.target), self._names.path(node.value))

    def visit_For(self, node: ast.For) -> None:
        """A loop's variable is an item."""
        self._gone_over(node.target, node.iter)
        self._repeated(node.iter, node.body)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """As in a loop; `visit_ListComp` and its like come here first."""
        self._gone_over(node.target, node.iter)
        for test in node.ifs:
            self.visit(test)

    def _gone_over(self, target: ast.expr, values: ast.expr) -> None:
        self.visit(values)
        self._names.loop(target, values)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for generator in node.generators:
            self.visit(generator)
            note_numbers(generator, parts, self._names)
            self._repeated(generator.iter, parts)
        for part in parts:
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
        path = self._names.path(node.value)
        if path and node.attr in PROPERTIES:
            self._names.use(path).note("tensor")
        elif path and node.attr not in SHARED and not node.attr.startswith("__"):
            self._names.use(path).note("object")
            self._names.use(path).apart |= not hasattr(Tensor, node.attr) and node.attr not in OF_ARRAYS
            self._names.use(f"{path}.{node.attr}").read = True
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`opt["dim"]` makes a mapping, `dims[0]` a sequence, `{"relu": …}[act]` says what `act` may be."""
        note_indices(node, self._names)
        path, index = self._names.path(node.value), self._around.as_constant(node.slice)
        if path and isinstance(index, ast.Constant) and isinstance(index.value, str):
            self._names.use(path).note("mapping")
            self._names.use(f"{path}.{index.value}")
        elif path:
            use = self._names.use(path)
            use.note("tensor" if _has_axes(index) else "sequence")
            if isinstance(index, ast.Constant) and isinstance(index.value, int):
                use.least = max(use.least, index.value + 1)
            self._names.use(f"{path}[]")
        key = self._names.path(index)
        if key:
            self._names.use(key).literals += self._around.keys(node.value)
            is_text = key in self._texts or is_text_called(_last_of(key))
            if path and (is_text or is_table_called(_last_of(path))):
                # What it has is made up, and what is looked up in it must be there.
                self._names.use(path).note("mapping")
                self._names.use(key).note("string")
                self._names.use(key).literals.append(repr(FIRST_KEY))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Note what is called, and what is handed on to it."""
        path = self._names.path(node.func)
        named = note_named(node, self._names, self._around)
        note_got(node, self._names)
        note_kept(node, self._names)
        note_indices(node, self._names)
        self._own_method(node.func)
        self._own_function(node)
        if asked := _asked_of(node):
            table, key = asked
            if self._names.path(key):
                self._names.use(self._names.path(key)).literals += self._around.keys(table)
        method = node.func if isinstance(node.func, ast.Attribute) else None
        owner = self._names.path(method.value) if method is not None else ""
        if method is not None and owner and (method.attr in METHODS or method.attr in SHARED | MOVED):
            self._method_called(node, method.attr, self._names.use(owner), owner)
            self.visit(method.value)
            return
        if path:
            self._names.use(path).note("callable" if self._in_lambda or self._takes_tensors(node) else "class")
        name = ast.unparse(node.func)
        self.visit(named or node.func)
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.expr() as key, *_]) if self._names.path(key):
                self._names.use(self._names.path(key)).note("string")
            case ast.Call(func=ast.Name(id="map" | "filter"), args=[ast.Lambda() as function, values]):
                self._gone_over(ast.Name(next((each.arg for each in function.args.args), "")), values)
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, ast.Name(id="str" | "int" as kind)]) if (
                self._names.path(value)
            ):
                use = self._names.use(self._names.path(value))
                use.textual, use.numeric = use.textual or kind == "str", use.numeric or kind == "int"
            case ast.Call(func=ast.Name(id="isinstance" | "callable" | "hasattr" | "exists" | "type" | "default")):
                pass
            case _:
                note_computed(node, name, self._names)
                self._handed(node, name)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function in the constructor is read where it stands, and with what it is given where it is called."""
        self._inner[node.name] = node
        self.generic_visit(node)

    def _own_function(self, call: ast.Call) -> None:
        """Read a function of the constructor's own with the values that a call gives it, once."""
        function = self._inner.pop(call.func.id, None) if isinstance(call.func, ast.Name) else None
        if function is None:
            return
        before = self._names.paths
        given = {each.arg: self._names.path(value) for each, value in zip(function.args.args, call.args, strict=False)}
        given |= {each.arg: self._names.path(each.value) for each in call.keywords if each.arg is not None}
        self._names.paths = {**before, **{name: path for name, path in given.items() if path}}
        for statement in function.body:
            self.visit(statement)
        self._names.paths = before

    def _own_method(self, node: ast.expr) -> None:
        """Read a method of the same object, which looks at what the constructor has put there."""
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name not in self._seen:
                function = self._around.value(node)
            case _:
                return
        tree = tree_of(function) if inspect.isfunction(function) and len(self._seen) < _MOST_METHODS else None
        if tree is None:
            return
        self._seen.add(name)
        before, around = self._names.paths, self._around
        self._names.paths = {each: path for each, path in before.items() if each.startswith("self.")}
        self._around = Surroundings(function.__globals__, self._cls, function)
        for statement in tree.body:
            self.visit(statement)
        kept = {each: path for each, path in self._names.paths.items() if each.startswith("self.")}
        self._names.paths, self._around = {**before, **kept}, around

    def _method_called(self, node: ast.Call, name: str, use: Use, path: str) -> None:
        """Note what a method says about the value that it is one of."""
        given = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if name in METHODS:
            use.note(METHODS[name])
            if METHODS[name] == "tensor":
                # What is no tensor may have one of that name too.
                self._names.use(f"{path}.{name}").note("callable")
        if name in MOVED and f".{GIVEN}[" in path:
            # Of several things that a function gives those are tensors that are moved.
            use.note("tensor")
        if name in _SPLITTING and "." in given:
            use.literals.append(_SOME_CLASS)
        if name == "index" and given and isinstance(given[0], str):
            self._names.use(f"{path}[]").note("string")
            self._names.use(f"{path}[]").literals.append(repr(given[0]))
        if name in {"pop", "get"} and len(node.args) == 1 and given and isinstance(given[0], str):
            use.note("mapping")
            # Without a default there is None for what is not there.
            self._names.use(f"{path}.{given[0]}").optional |= name == "get"
        for part in (*node.args, *(each.value for each in node.keywords)):
            self.visit(part)

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
            path = self._names.path(side)
            if path:
                if adds and isinstance(other, ast.List | ast.Tuple | ast.ListComp):
                    self._names.use(path).note("sequence")
                elif isinstance(other, ast.JoinedStr) or (
                    isinstance(other, ast.Constant) and isinstance(other.value, str)
                ):
                    self._names.use(path).note("string")
                else:
                    self._names.use(path).note("number")
                    self._names.use(path).computed |= isinstance(node.op, ast.Sub | ast.Div | ast.Pow)
        if adds:
            self._sums.append([path for path in map(self._names.path, _summands(node)) if path])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """`mode == "linear"` says what it may be, `x is None` that it may be missing."""
        note_comparison(node, self._names, self._around)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        """`*dims` is a sequence."""
        path = self._names.path(node.value)
        if path:
            self._names.use(path).note("sequence")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """`if flag:` is the least that one can say of something; a name may be given one thing or another."""
        note_test(node.test, self._names)
        note_chosen(node, self._names)
        note_asked(node.test, self._names, raises=any(isinstance(each, ast.Raise) for each in node.body))
        self.visit(node.test)
        before = dict(self._names.paths)
        for statement in node.body:
            self.visit(statement)
        one, self._names.paths = self._names.paths, {**before}
        for statement in node.orelse:
            self.visit(statement)
        other = self._names.paths
        self._names.paths = {**one, **other, **{name: path for name, path in one.items() if before.get(name) != path}}
        for name, path in other.items():
            if path not in {one.get(name), before.get(name)} and one.get(name, "") not in {"", before.get(name)}:
                self._same.append((one[name], path))

    def visit_Assert(self, node: ast.Assert) -> None:
        """What must have an attribute has it."""
        note_attribute(node.test, self._names)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """As in a statement."""
        note_test(node.test, self._names)
        note_asked(node.test, self._names)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """`"width" in config and config["width"]`."""
        note_asked(node, self._names)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        """The cases say what the subject may be."""
        note_cases(node, self._names)
        self.generic_visit(node)

    def _repeated(self, values: ast.expr, body: Sequence[ast.AST]) -> None:
        """Note that a number says how many parts are made: `for _ in range(depth)`."""
        match values:
            case ast.Call(func=ast.Name(id="range"), args=[count]) if self._names.path(count):
                calls = [each for part in body for each in ast.walk(part) if isinstance(each, ast.Call)]
                if any(map(self._makes_parts, calls)):
                    self._names.use(self._names.path(count)).counts = True
            case _:
                pass

    def _makes_parts(self, call: ast.Call) -> bool:
        """Whether a call makes a part of a model, as far as one can tell."""
        found = self._around.value(call.func)
        last = ast.unparse(call.func).rpartition(".")[2]
        return (
            (isinstance(found, type) and issubclass(found, nn.Module))
            or last in _ADDING
            or bool(self._names.path(call.func))
        )

    def _takes_tensors(self, call: ast.Call) -> bool:
        """Whether a call is given tensors that are made for it, as a module is."""
        return any(isinstance(each, ast.Call) and ast.unparse(each.func).startswith("torch.") for each in call.args)

    def _handed(self, call: ast.Call, name: str) -> None:
        """Note what a value is handed to: as which parameter, and what is known about that."""
        for path in filter(None, map(self._names.path, call.args[:1])):
            self._names.use(path).literals += self._around.members(call.func)
        named = [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        # `Base.__init__(self, dim)` is given the object first.
        bound = name.endswith(".__init__") and not name.startswith("super(")
        given: list[tuple[str | int, ast.expr]] = [*enumerate(call.args[bound:]), *named]
        mine = [(at, self._names.path(value)) for at, value in given if self._names.path(value)]
        spread = [each.value for each in call.keywords if each.arg is None]
        for each in spread:
            owner = _owner_of_attributes(each)
            if path := self._names.path(owner or each):
                self._names.use(path).note("object" if owner is not None else "mapping")
                self._spread(call, name, path)
        for at, value in enumerate(call.args[bound:]):
            if isinstance(value, ast.Starred) and self._names.path(value.value):
                self._dealt_out(call, name, at, self._names.path(value.value))
        self._parts_handed(call, name, given)
        passes_on = any(isinstance(each, ast.Name) and each.id == self._keywords for each in spread)
        if not mine and not passes_on:
            return
        if not is_known_call(name, mine, self._names):
            self._received_by(self._around.receiver(call, name), mine, passes_on=passes_on)

    def _spread(self, call: ast.Call, name: str, path: str) -> None:
        """Note that a mapping which is handed on as arguments has those that the receiver cannot do without."""
        receiver = self._around.receiver(call, name)
        parameters = [*parameters_of(receiver).values()][len(call.args) :]
        given = {each.arg for each in call.keywords}
        wanted = [each.name for each in parameters if each.default is each.empty and each.name not in given]
        self._received_by(receiver, [(each, f"{path}.{each}") for each in wanted if each != "self"], passes_on=False)

    def _dealt_out(self, call: ast.Call, name: str, at: int, path: str) -> None:
        """Note that the items of a sequence are the arguments of a receiver, which cannot do without so many."""
        receiver = self._around.receiver(call, name)
        named = {each.arg for each in call.keywords}
        required = [each for each in required_parameters(receiver) if each not in named and each != "self"][at:]
        if not required or len(call.args) > at + 1 or receiver is None:
            return
        use = self._names.use(path)
        use.note("sequence")
        use.count = use.count or len(required)
        places = [f"{path}[{index}]" for index in range(len(required))]
        for each in places:
            self._names.use(each)
        self._received_by(receiver, [*zip(required, places, strict=True)], passes_on=False)

    def _received_by(self, receiver: Any, mine: list[tuple[str | int, str]], *, passes_on: bool) -> None:
        """Note what a receiver says about the parameters that it is given."""
        parameters = every_parameter_of(receiver)
        is_method = inspect.isfunction(receiver) and next(iter(parameters), "") == "self"
        # What a registry builds its own method finds in it.
        owner = self._cls if is_method else attribute_of(receiver, "__self__")
        way = self._way.into(method=is_method)
        read = _read_of(receiver, way, owner) if self._is_followed(receiver) else None
        known = read.usage if read is not None else {}
        given: dict[str, str] = {each: each for each in parameters} if passes_on else {}
        for at, path in mine:
            found = parameters.get(at) if isinstance(at, str) else positional(parameters, at + is_method)
            use = self._names.use(path)
            if found is None:
                use.names += [at] if isinstance(at, str) else []
                continue
            self._received(use, found)
            merge(self.usage, path, known, found.name)
            given[found.name] = path
        if read is not None and isinstance(receiver, type) and receiver in getattr(self._cls, "__mro__", ()):
            self._names.taken_from(read.names, given)
        if passes_on:
            for name in parameters:
                merge(self.usage, name, known, name)

    def _parts_handed(self, call: ast.Call, name: str, given: list[tuple[str | int, ast.expr]]) -> None:
        """Note what a receiver says about the parts of objects that it is given."""
        names = [(at, value.id) for at, value in given if isinstance(value, ast.Name)]
        held = [(at, self._made[each]) for at, each in names if each in self._made]
        receiver = self._around.receiver(call, name) if held else None
        parameters = every_parameter_of(receiver)
        way = self._way.into(method=False)
        known = _read_of(receiver, way, None).usage if self._is_followed(receiver) else {}
        for at, parts in held:
            found = parameters.get(at) if isinstance(at, str) else positional(parameters, at)
            name = found.name if found is not None else ""
            for field, path in parts.items():
                merge(self.usage, path, known, f"{name}.{field}")

    def _received(self, use: Use, parameter: inspect.Parameter) -> None:
        use.names.append(parameter.name)
        if isinstance(parameter.default, bool | int | float | str | tuple):
            use.defaults.append(repr(parameter.default))
        kinds: dict[Any, Kind] = {int: "number", float: "number", str: "string", bool: "flag"}
        kind = kinds.get(parameter.annotation)
        if kind is not None:
            use.note(kind)

    def _is_followed(self, receiver: Any) -> bool:
        if self._way.ends or receiver is None or receiver is self._cls:
            return False
        # What Python's own functions do with any value says nothing of this one.
        package = str(attribute_of(receiver, "__module__")).partition(".")[0]
        return package not in {"torch", *sys.stdlib_module_names} and (
            isinstance(receiver, type) or inspect.isfunction(receiver) or inspect.ismethod(receiver)
        )


def _has_axes(index: ast.expr) -> bool:
    """Whether only tensors, and arrays, are asked for such an item: `x[None]`, `x[:, 0]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(
        (isinstance(each, ast.Constant) and each.value in {None, ...})
        or (isinstance(each, ast.Slice) and len(parts) > 1)
        for each in parts
    )


def _asked_of(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """Return the table and the key of `TABLE.get(key)`, None for another call."""
    match call:
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[ast.expr() as key, *_]):
            return table, key
        case _:
            return None


def _is_made_anew(target: ast.expr, value: ast.expr) -> bool:
    """Whether a call makes a value without the one that the name had: `encoder = encoder_class(width)`."""
    name = ast.unparse(target)
    return isinstance(value, ast.Call) and all(
        ast.unparse(each) != name for each in ast.walk(value) if isinstance(each, ast.Name | ast.Attribute)
    )


def _owner_of_attributes(node: ast.expr) -> ast.expr | None:
    """Return what has the attributes that `vars(config)` and `config.__dict__` are, None for another expression."""
    match node:
        case ast.Attribute(value=owner, attr="__dict__") | ast.Call(func=ast.Name(id="vars"), args=[owner]):
            return owner
        case _:
            return None


def _last_of(path: str) -> str:
    """Return what a value is called that stands at a path."""
    return path.rpartition(".")[2]


def _summands(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is added in `a + b + c`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _summands(node.left)
        yield from _summands(node.right)
    else:
        yield node
