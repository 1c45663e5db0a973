"""Calls in a file that show how its models are built and fed.

Every scope is walked once in the order of its text: assignments are remembered, closed, so that at
`model(x, mask=None)` it is known what `model` is an instance of and what `x` stands for. Nothing is evaluated;
a loop's body is read once, and of two branches the later one counts.
"""

import ast
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from fxls.discovery.closing import Bound, Scope, closed, is_literal, without_device
from fxls.discovery.conditions import under
from fxls.discovery.index import ModelVariable
from fxls.discovery.loops import first_taken, item_of
from fxls.discovery.names import Names, blocks_of, defined_by, every_statement, imported_name
from fxls.discovery.roots import absolute_name
from fxls.discovery.syntax import (
    FunctionNode,
    docstring_of,
    dotted,
    example_code,
    is_main_guard,
    items_of,
    span_of,
    walk_but,
)
from fxls.text.scanning import LINE_END
from fxworker.wire import LOCALS, Construct, Inputs, Location, Span, TraceTarget

_WRAPPERS: Final = frozenset({
    "torch.compile", "torch.jit.script", "torch.fx.symbolic_trace", "symbolic_trace", "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel", "copy.deepcopy",
})  # fmt: skip
"""Calls whose result is, for us, the model that is their first argument."""

_EXPORTERS: Final = frozenset({
    "torch.export.export", "torch.jit.trace", "torch.onnx.export", "torch.onnx.dynamo_export",
})  # fmt: skip
"""Calls whose first two arguments are a model and its arguments."""

_TRACERS: Final = frozenset({"torch.fx.symbolic_trace", "fxengine.symbolic_trace", "torch.fx.Tracer.trace"})
_SELF_RETURNING: Final = frozenset({
    "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "share_memory", "to", "train",
})  # fmt: skip
_FILLING: Final = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
"""Methods that put something into what they are called on."""

_MAKERS: Final = (
    "torch.nn.Sequential", "torchvision.models.", "timm.create_model", "timm.models.", "segmentation_models_pytorch.",
)  # fmt: skip
"""What makes models of other files' classes. The layers of torch.nn are leaves: what is in them is torch's alone."""

_PUBLISHED: Final = "from_pretrained"
_MOST: Final = 6
"""How many ways to build, and to feed, a target are kept."""


@dataclass(slots=True)
class Sites:
    """What the walk found. Targets are named by their qualified names.

    `instances` are models at module level whose class is not in the file; `functions` are free functions that the
    file itself traces. `packages` are those that calls name in full, as the file itself does not import them.
    """

    constructs: dict[str, list[Construct]]
    inputs: dict[str, list[Inputs]]
    variables: list[ModelVariable]
    instances: list[TraceTarget]
    functions: set[str]
    packages: set[str]


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file. `local` are the classes in functions that can be traced, by the line that they begin on."""

    path: str
    text: str
    tree: ast.Module
    names: Names
    local: dict[int, str] = field(default_factory=dict[int, str])


def sites_of(source: Source, classes: frozenset[str], factories: dict[str, str]) -> Sites:
    """Return how the file builds and feeds its models.

    `classes` are the names of those that can be traced; `factories` are functions that return an instance, with the
    class that it is of.
    """
    walk = _Walk(source, classes, factories)
    walk.module(source.tree)
    return walk.sites


class _Mentions:
    """The lines that mention a model: what lies between them need not be looked at. Mutable: names are added."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self._text = text
        self._starts = [0, *(end.end() for end in LINE_END.finditer(text))]
        self._lines: list[int] = []
        self._known: set[str] = set()
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Count the lines that hold a name, too. Parts of longer names count as well, which does no harm."""
        if name in self._known:
            return
        self._known.add(name)
        start = self._text.find(name)
        while start >= 0:
            row = bisect_right(self._starts, start)
            insort(self._lines, row)
            start = self._text.find(name, self._starts[row] if row < len(self._starts) else len(self._text))

    def within(self, first: int, last: int) -> bool:
        """Whether a line from the first to the last, both included, mentions a model."""
        at = bisect_left(self._lines, first)
        return at < len(self._lines) and self._lines[at] <= last


class _Walk:
    """The state of one walk through a file."""

    def __init__(self, source: Source, classes: frozenset[str], factories: dict[str, str]) -> None:
        self._path = source.path
        self._names = source.names
        short = (each.rpartition(LOCALS)[2] for each in classes)
        self._aliases = _aliases(source.tree, classes)
        self._tree = source.tree
        self._mentions = _Mentions(source.text, (*short, *factories, *self._aliases, "symbolic_trace"))
        self._local = source.local
        self._classes = classes
        self._factories = factories
        self._functions: list[tuple[FunctionNode, bool]] = []
        self._in_example = False
        self._described: list[tuple[str, Construct]] = []
        self.sites = Sites({}, {}, [], [], set(), set())

    def module(self, tree: ast.Module) -> None:
        """Walk the module's body, its `__main__` block, then its functions, docstrings and methods."""
        scope = Scope()
        guarded = [statement for statement in tree.body if is_main_guard(statement)]
        self._body([each for each in tree.body if each not in guarded], scope, at_import=True)
        main = Scope(scope)
        for statement in guarded:
            self._block(statement, main)
        functions = self._take_functions()
        for node, _ in (each for each in functions if not each[1]):
            self._function(node, scope)
        self._in_example = True
        self._examples(tree, scope)
        self._in_example = False
        for node, _ in (each for each in functions if each[1]):
            self._function(node, scope)
        # What is described may get more arguments from what builds it: a call that is written out says more.
        for cls, construct in self._described:
            known = self.sites.constructs.setdefault(cls, [])
            known += [construct] * (len(known) < _MOST)

    def _examples(self, tree: ast.Module, scope: Scope) -> None:
        """Walk the code in the file's docstrings."""
        statements = every_statement(tree)
        definitions = [each for each in statements if isinstance(each, ast.ClassDef | FunctionNode)]
        for node in (tree, *sorted(definitions, key=_line)):
            docstring, line = docstring_of(node)
            if line and self._mentions.within(line, line + docstring.count("\n")):
                for body in example_code(docstring, line):
                    self._body(body, Scope(scope))

    def _take_functions(self) -> list[tuple[FunctionNode, bool]]:
        taken, self._functions = self._functions, []
        return taken

    def _function(self, node: FunctionNode, outer: Scope) -> None:
        """Walk a function's body with its parameters bound to their defaults, if it mentions a model."""
        if not self._mentions.within(node.lineno, node.end_lineno or node.lineno):
            return
        scope = Scope(outer)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument in (*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if argument is not None:
                scope.names[argument.arg] = Bound(None)
        defaults = zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
        for argument, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
            if default is not None:
                scope.names[argument.arg] = Bound(closed(default, outer))
        self._body(node.body, scope)
        for inner, _ in self._take_functions():
            self._function(inner, scope)

    def _body(self, body: list[ast.stmt], scope: Scope, *, at_import: bool = False) -> None:
        for statement in body:
            self._statement(statement, scope, at_import=at_import)

    def _block(self, statement: ast.stmt, scope: Scope, *, at_import: bool = False) -> None:
        for block in blocks_of(statement):
            self._body(block, scope, at_import=at_import)

    def _statement(self, statement: ast.stmt, scope: Scope, *, at_import: bool) -> None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._functions.append((statement, False))
                scope.names[statement.name] = Bound(None, kept=at_import)
            case ast.ClassDef():
                local = self._local.get(statement.lineno, "")
                scope.names[statement.name] = Bound(None, kept=at_import or bool(local), defines=local)
                self._methods(statement)
            case ast.Import() | ast.ImportFrom():
                self._import(statement, scope, at_import=at_import)
            case ast.Assign() | ast.AnnAssign():
                self._assignment(statement, scope, at_import=at_import)
            case ast.If():
                self._expressions(statement, scope, at_import=at_import)
                for body, holds in ((statement.body, True), (statement.orelse, False)):
                    with under(statement.test, scope, holds=holds):
                        self._body(body, scope, at_import=at_import)
            case _:
                self._expressions(statement, scope, at_import=at_import)
                self._block(statement, scope, at_import=at_import)

    def _expressions(self, statement: ast.stmt, scope: Scope, *, at_import: bool) -> None:
        """Read a statement's own expressions and bind what it binds."""
        items = statement.items if isinstance(statement, ast.With | ast.AsyncWith) else []
        for child in (*ast.iter_child_nodes(statement), *(item.context_expr for item in items)):
            if isinstance(child, ast.expr):
                self._expression(child, scope)
        match statement:
            case ast.AugAssign():
                _forget(statement.target, scope)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=filled, attr=name))) if name in _FILLING:
                _changed(filled, scope, at_import=at_import)
            case ast.For() | ast.AsyncFor():
                self._loop_variable(statement, scope)
            case ast.With() | ast.AsyncWith():
                for item in items:
                    if item.optional_vars is not None:
                        _forget(item.optional_vars, scope)
            case _:
                pass

    def _methods(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            if isinstance(statement, FunctionNode):
                self._functions.append((statement, True))
            elif isinstance(statement, ast.ClassDef):
                self._methods(statement)

    def _import(self, statement: ast.Import | ast.ImportFrom, scope: Scope, *, at_import: bool) -> None:
        for alias in statement.names:
            name = alias.asname or alias.name.partition(".")[0]
            # An example imports the very class that it explains; what else it imports the module may not have.
            if at_import or name not in self._classes:
                outside = scope.lookup(name)
                is_kept = at_import or (outside is not None and outside.kept)
                full = None if is_kept else self._in_full(statement, alias)
                scope.names[name] = Bound(full, kept=is_kept)

    def _in_full(self, statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.expr | None:
        """Return the full name of what is imported where the module does not; None where it cannot be named so."""
        name = absolute_name(imported_name(statement, alias), self._path)
        first = name.partition(".")[0]
        if not name or alias.name == "*" or self._binds(first):
            return None
        self.sites.packages.add(first)
        return ast.parse(name, mode="eval").body

    def _binds(self, name: str) -> bool:
        """Whether the module binds a name, otherwise than to the package that is called so."""
        if name in self._names.full:
            return self._names.full[name] != name
        return name in self._classes or name in self._defined

    @cached_property
    def _defined(self) -> frozenset[str]:
        return defined_by(self._tree)

    def _assignment(self, statement: ast.Assign | ast.AnnAssign, scope: Scope, *, at_import: bool) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if statement.value is None:
            return
        self._expression(statement.value, scope)
        value = first_taken(statement.value, scope) or closed(statement.value, scope)
        for target in targets:
            if not isinstance(target, ast.Name):
                _unpack(target, value, scope, at_import=at_import)
                continue
            model = self._model_of(statement.value, scope)
            if at_import:
                self._at_module_level(model, statement.value, value)
                model = model or self._instance(target, statement.value, value)
            if model:
                self._mention(target, model)
                self._mentions.add(target.id)
            kept = at_import and value is not None and is_literal(value)
            scope.names[target.id] = Bound(value, model, kept)

    def _loop_variable(self, statement: ast.For | ast.AsyncFor, scope: Scope) -> None:
        """Bind a loop's variable to the first of the values, where they are known."""
        _unpack(statement.target, item_of(statement.iter, scope), scope)

    def _expression(self, expression: ast.expr, scope: Scope) -> None:
        """Note the models that an expression mentions and the calls that build or feed one."""
        if scope.parent is None and not self._mentions.within(expression.lineno, expression.end_lineno or 0):
            return
        nodes = [*walk_but(expression, ast.IfExp)]
        for node in nodes:
            self._node(node, scope)
        for choice in (each for each in nodes if isinstance(each, ast.IfExp)):
            self._expression(choice.test, scope)
            for branch, holds in ((choice.body, True), (choice.orelse, False)):
                with under(choice.test, scope, holds=holds):
                    self._expression(branch, scope)

    def _node(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            bound = scope.lookup(node.id)
            if bound is not None and bound.model:
                self._mention(node, bound.model)
        elif isinstance(node, ast.Call | ast.Dict) and (described := self._describing(node, scope)):
            self._described.append(described)
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        elif isinstance(node, ast.NamedExpr):
            scope.names[node.target.id] = Bound(closed(node.value, scope), self._model_of(node.value, scope))

    def _call(self, call: ast.Call, scope: Scope) -> None:
        name = dotted(call.func)
        cls = self._class_named(name, scope)
        if cls:
            self._built(cls, call, scope)
            return
        if name in self._factories:
            self._built(self._factories[name], call, scope)
            return
        full = self._names.expand(name)
        if full in _TRACERS and call.args and isinstance(call.args[0], ast.Name):
            self.sites.functions.add(call.args[0].id)
        if full in _EXPORTERS and len(call.args) > 1:
            model = self._model_of(call.args[0], scope)
            arguments = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else [call.args[1]]
            if model:
                self._fed(model, call, arguments, [], scope)
            return
        model = self._model_of(call.func, scope)
        if model:
            self._fed(model, call, call.args, call.keywords, scope)

    def _describing(self, node: ast.Call | ast.Dict, scope: Scope) -> tuple[str, Construct] | None:
        """Return the class that a dictionary describes an instance of, and the call: `dict(type="Net", depth=3)`."""
        items = items_of(node)
        named = items.pop("type", None)
        text = named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else ""
        cls = self._class_named(text.rpartition(".")[2] or dotted(named or node), scope)
        values = {name: closed(value, scope) for name, value in items.items()} if cls else {}
        if not cls or None in values.values():
            return None
        keywords = [ast.keyword(name, value) for name, value in values.items() if value is not None]
        call = ast.Call(ast.Name(cls.rpartition(LOCALS)[2], ast.Load()), [], keywords)
        return cls, Construct(ast.unparse(call), "call", self._location(node))

    def _class_named(self, name: str, scope: Scope) -> str:
        """Return the class that can be traced which a name means, "" for anything else."""
        bound = scope.lookup(name) if self._local else None
        if bound is not None and bound.defines:
            return bound.defines
        name = self._aliases.get(name, name)
        return name if name in self._classes else ""

    def _model_of(self, expression: ast.expr, scope: Scope) -> str:
        """Return the target that an expression is an instance of, "" when it is none that is known."""
        match expression:
            case ast.Name(id=name):
                bound = scope.lookup(name)
                return "" if bound is None else bound.model
            case ast.Attribute(value=value, attr="forward" | "module"):
                return self._model_of(value, scope)
            case ast.Call(func=function, args=arguments):
                name = dotted(function)
                cls = self._class_named(name, scope)
                if cls:
                    return cls
                if name in self._factories:
                    return self._factories[name]
                if self._names.expand(name) in _WRAPPERS and arguments:
                    return self._model_of(arguments[0], scope)
                if isinstance(function, ast.Attribute) and function.attr in _SELF_RETURNING:
                    return self._model_of(function.value, scope)
                return ""
            case _:
                return ""

    def _at_module_level(self, model: str, value: ast.expr, closed_value: ast.expr | None) -> None:
        """Note that an instance of one of the file's classes stands at module level: this is the one to show."""
        if model in self._classes and isinstance(closed_value, ast.Call):
            inner = ast.unparse(self._unwrapped(closed_value))
            construct = Construct(inner, "instance", Location(self._path, span_of(value)))
            self.sites.constructs.setdefault(model, []).append(construct)

    def _unwrapped(self, built: ast.expr) -> ast.expr:
        """Return the model in what only wraps it: `Net()` of `nn.DataParallel(Net())`."""
        while isinstance(built, ast.Call) and built.args and self._names.expand(dotted(built.func)) in _WRAPPERS:
            built = without_device(built.args[0])
        return built

    def _instance(self, target: ast.Name, value: ast.expr, closed_value: ast.expr | None) -> str:
        """Note a module-level variable that holds a module of another file's class, and return its name."""
        built = without_device(value)
        full = self._names.resolve(built.func) if isinstance(built, ast.Call) else ""
        if not full.startswith(_MAKERS):
            return ""
        expression = target.id if closed_value is None else ast.unparse(closed_value)
        construct = Construct(expression, "instance", Location(self._path, span_of(value)))
        self.sites.instances = [each for each in self.sites.instances if each.qualname != target.id]
        self.sites.instances.append(TraceTarget(target.id, "instance", span_of(target), (construct,)))
        return target.id

    def _built(self, target: str, call: ast.Call, scope: Scope) -> None:
        expression = closed(call, scope)
        if expression is None and isinstance(call.func, ast.Attribute) and call.func.attr == _PUBLISHED:
            # What it fetches is made up: this one is a class method of the file's own.
            arguments = closed(ast.Call(ast.Name(target, ast.Load()), call.args, call.keywords), scope)
            if isinstance(arguments, ast.Call):
                expression = ast.Call(call.func, arguments.args, arguments.keywords)
        known = self.sites.constructs.setdefault(target, [])
        if expression is None or len(known) >= _MOST:
            return
        known.append(Construct(ast.unparse(expression), "call", self._location(call)))

    def _fed(
        self,
        target: str,
        call: ast.Call,
        arguments: list[ast.expr],
        keywords: list[ast.keyword],
        scope: Scope,
    ) -> None:
        known = self.sites.inputs.setdefault(target, [])
        if len(known) >= _MOST or not (arguments or keywords):
            return
        parts: list[str] = []
        for argument in arguments:
            starred = isinstance(argument, ast.Starred)
            value = closed(argument.value if starred else argument, scope)
            if value is None:
                return
            parts.append("*" * starred + ast.unparse(value))
        for keyword in keywords:
            value = closed(keyword.value, scope)
            if value is None:
                return
            parts.append(("**" if keyword.arg is None else f"{keyword.arg}=") + ast.unparse(value))
        known.append(Inputs(", ".join(parts), "call", self._location(call)))

    def _mention(self, name: ast.Name, model: str) -> None:
        if not self._in_example:
            self.sites.variables.append(ModelVariable(name.id, span_of(name), model))

    def _location(self, node: ast.expr) -> Location:
        span = span_of(node)
        # The columns of an example are not those of the file: its line is named from the beginning.
        return Location(self._path, Span(span.line, 0, span.line, 0) if self._in_example else span)


def _aliases(tree: ast.Module, classes: frozenset[str]) -> dict[str, str]:
    """Return the other names that a file gives its classes, as in `KAN = MultKAN`, each with the class."""
    found: dict[str, str] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=cls)) if cls in classes:
                found[name] = cls
            case _:
                pass
    return found


def _line(node: ast.stmt) -> int:
    return node.lineno


def _forget(target: ast.expr, scope: Scope) -> None:
    for name in _names_in(target):
        scope.names[name] = Bound(None)


def _unpack(target: ast.expr, value: ast.expr | None, scope: Scope, *, at_import: bool = False) -> None:
    """Bind the names of an assignment's target, one by one where both sides are written out."""
    if isinstance(target, ast.Name):
        scope.names[target.id] = Bound(value)
        return
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    ):
        for name, item in zip(target.elts, value.elts, strict=True):
            _unpack(name, item, scope)
        return
    if isinstance(target, ast.Subscript | ast.Attribute):
        _changed(target.value, scope, at_import=at_import)
        return
    _forget(target, scope)


def _changed(value: ast.expr, scope: Scope, *, at_import: bool) -> None:
    """Forget what `x[0] = 1`, `config.dim = 3` and `sizes.append(3)` change: a closed expression does not repeat it.

    What is changed while the module is imported has that change wherever it is named.
    """
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and (bound := scope.lookup(node.id)) is not None and not bound.model:
            scope.names[node.id] = Bound(None, kept=at_import and bound.kept)


def _names_in(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id
