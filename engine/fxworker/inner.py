"""Classes that functions define: the function is executed as far as its classes need it, and they are taken from it.

What else the function does (training, printing, returning) is left out, as it is of a file. Parameters that the classes
look at get their defaults, or what a call of the function in the file gives them, or values that are searched for.
"""

import ast
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, Final, TypeAlias, get_args

from torch import nn

from fxworker.arguments import Search
from fxworker.costs import cost_of, lightened
from fxworker.executing import compiled
from fxworker.loading import Loaded
from fxworker.statements import Definition, assigned_by
from fxworker.wire import LOCALS, TraceTarget

_Attempt: TypeAlias = Callable[[Callable[[], Any]], Any]
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_MOST_CALLS: Final = 3
"""How many calls of a function are tried."""


class NotReachedError(Exception):
    """The classes of a function are not known, since it could not be executed as far as they need it.

    Attributes:
        tried: The call that came furthest.
    """

    def __init__(self, tried: str) -> None:
        super().__init__(f"`{tried}` could not be called")
        self.tried = tried


def locals_of(qualname: str, loaded: Loaded, scope: Mapping[str, Any], attempt: _Attempt) -> dict[str, Any]:
    """Return the local names of the functions around a class, from the outermost inwards.

    Args:
        qualname: The class, such as `make.<locals>.Net`.
        loaded: The file's module, executed.
        scope: The names of the file.
        attempt: What builds on the meta device.

    Raises:
        NotReachedError: A function could not be called; its cause is what the last attempt raised.
    """
    *functions, rest = qualname.split(LOCALS)
    found: dict[str, Any] = {}
    body: list[ast.stmt] = loaded.tree.body if loaded.tree is not None else []
    for depth, name in enumerate(functions, 1):
        inner = (functions[depth] if depth < len(functions) else rest).partition(".")[0]
        node, owner = _definition(name, body)
        if node is None:
            raise NotReachedError(name)
        found |= _known(LOCALS.join(functions[:depth]), node, owner, inner, {**scope, **found}, loaded, attempt)
        body = node.body
    return found


def mentions_of(targets: Iterable[TraceTarget], loaded: Loaded) -> dict[str, frozenset[str]]:
    """Return which other classes of their function the definitions of classes in functions speak of."""
    names = {each.qualname for each in targets if LOCALS in each.qualname}
    found: dict[str, frozenset[str]] = {}
    for statement in loaded.slice.statements if names else ():
        for qualname, node in _classes_in(statement.node):
            words = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            function = qualname.rpartition(LOCALS)[0]
            spoken = frozenset(f"{function}{LOCALS}{word}" for word in words)
            found[qualname] = spoken & names - {qualname}
    return found


def _classes_in(node: ast.stmt, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes that the functions in a definition define, each with its qualified name."""
    if not isinstance(node, Definition):
        return
    is_class = isinstance(node, ast.ClassDef)
    if is_class and LOCALS in prefix:
        yield prefix + node.name, node
    for each in _definitions(node.body):
        yield from _classes_in(each, f"{prefix}{node.name}{'.' if is_class else LOCALS}")


def _known(
    key: str,
    node: _Function,
    owner: str,
    inner: str,
    scope: dict[str, Any],
    loaded: Loaded,
    attempt: _Attempt,
) -> dict[str, Any]:
    """Return the local names of a function, which is executed once for all its classes, if they allow that.

    Raises:
        NotReachedError: It could not be called even for the one that is asked for.
    """
    every = {each.name for each in _definitions(node.body) if isinstance(each, ast.ClassDef)} | {inner}
    ways, branch = [(every, node.body), ({inner}, node.body)], _towards(inner, node.body)
    if branch != node.body:
        # The arguments lead elsewhere.
        ways.append(({inner}, branch))
    known: dict[str, Any] | NotReachedError = {}
    for way, (wanted, body) in enumerate(ways):
        name = f"{key} {way} {' '.join(sorted(wanted))}"
        if name not in loaded.inner:
            try:
                function = _made(node, body, wanted, scope, loaded)
                loaded.inner[name] = _called(function, node, owner, scope, loaded, attempt)
            except NotReachedError as error:
                loaded.inner[name] = error
        known = loaded.inner[name]
        if not isinstance(known, NotReachedError) and inner in known:
            return known
    if isinstance(known, NotReachedError):
        raise known
    return known


def _definition(name: str, body: list[ast.stmt]) -> tuple[_Function | None, str]:
    """Return the function that a qualified name leads to in a body, and the class that it is a method of."""
    *classes, last = name.split(".")
    for cls in classes:
        found = next((each for each in _definitions(body) if isinstance(each, ast.ClassDef) and each.name == cls), None)
        body = found.body if found is not None else []
    nodes = (each for each in _definitions(body) if not isinstance(each, ast.ClassDef) and each.name == last)
    return next(nodes, None), ".".join(classes)


def _towards(name: str, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a function's body with the branch that defines a class in place of the choice, if only one does."""
    found: list[ast.stmt] = []
    for each in body:
        sides = (each.body, each.orelse) if isinstance(each, ast.If) else ()
        defining = [side for side in sides if any(inner.name == name for inner in _definitions(side))]
        found += _towards(name, defining[0]) if len(defining) == 1 else [each]
    return found


def _definitions(body: list[ast.stmt]) -> Iterator[_Function | ast.ClassDef]:
    """Yield the definitions of a body, those in its blocks too."""
    for statement in body:
        if isinstance(statement, Definition):
            yield statement
        else:
            for part in ast.iter_child_nodes(statement):
                inner = [part] if isinstance(part, ast.stmt) else getattr(part, "body", None)
                yield from _definitions(inner if isinstance(inner, list) else [])


def _made(
    node: _Function, body: list[ast.stmt], wanted: set[str], scope: dict[str, Any], loaded: Loaded
) -> FunctionType:
    """Return a function that executes what some names of another one's body need, and returns its local names."""
    body = _needed(body, wanted)
    used = {each.id for part in body for each in ast.walk(part) if isinstance(each, ast.Name)}
    arguments = _keywords(node.args, used)
    result = ast.copy_location(ast.Return(ast.Call(ast.Name("locals", ast.Load()), [], [])), node)
    function = ast.FunctionDef(node.name, arguments, [*body, result], [], None, type_comment=None)
    if hasattr(ast, "TypeVar"):  # From Python 3.12 on a definition has type parameters.
        function.type_params = []  # pyright: ignore[reportAttributeAccessIssue]
    tree = ast.fix_missing_locations(ast.copy_location(function, node))
    holder: dict[str, Any] = {}
    exec(compiled(tree, str(loaded.module.__file__), loaded.flags), scope, holder)  # noqa: S102 — This is what a worker is for.
    return holder[node.name]


def _needed(body: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    """Return the statements of a function's body that names need, without what is costly, and without returns."""
    parts = [each for each in body if not cost_of(each, {})]
    bound = {each: assigned_by(each) for each in parts}
    names, chosen = set(wanted), set[ast.stmt]()
    while True:
        new = [each for each in parts if each not in chosen and bound[each] & names]
        if not new:
            break
        chosen.update(new)
        names |= {each.id for part in new for each in ast.walk(part) if isinstance(each, ast.Name)}
    plain = _NoReturns()
    return [plain.visit(copy.deepcopy(lightened(each, {}))) for each in parts if each in chosen]


class _NoReturns(ast.NodeTransformer):
    """Lets a statement go on where it would return."""

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """Return what does nothing."""
        return ast.copy_location(ast.Pass(), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Leave the definitions inside as they are."""
        return node if isinstance(node, (*get_args(Definition), ast.Lambda)) else super().generic_visit(node)


def _keywords(arguments: ast.arguments, used: set[str]) -> ast.arguments:
    """Return parameters, all of them by name; those that are not used need no value."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults = [*itertools.repeat(None, missing), *arguments.defaults, *arguments.kw_defaults]
    every = [*positional, *arguments.kwonlyargs]
    nothing = ast.Constant(None)
    given = [
        default if default is not None or each.arg in used else nothing
        for each, default in zip(every, defaults, strict=True)
    ]
    for extra, empty in ((arguments.vararg, ast.Tuple([], ast.Load())), (arguments.kwarg, ast.Dict([], []))):
        if extra is not None:
            every.append(extra)
            given.append(empty)
    return ast.arguments([], [], None, every, given, None, [])


def _called(
    function: FunctionType,
    node: _Function,
    owner: str,
    scope: dict[str, Any],
    loaded: Loaded,
    attempt: _Attempt,
) -> dict[str, Any]:
    """Return what a function returns, called with arguments of a call in the file, or with such as are searched for."""
    if owner and node.args.args:
        # What a method looks up in its instance is rarely what its classes are about.
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), node.args.args[0].arg: _instance(owner, scope)}
    scope = {**scope, node.name: function}
    for call in itertools.islice(_calls(node, owner, loaded.tree, scope), _MOST_CALLS):
        try:
            return attempt(lambda call=call: eval(call, scope))  # noqa: S307 — A call that stands in the file.
        except Exception:  # noqa: BLE001, S112 — User code; another call, or a guess, may do.
            continue
    search = Search(node.name, function, scope, attempt, kind=dict)
    found = search.run()
    if found is None:
        raise NotReachedError(search.tried) from search.error
    return found[1]


def _instance(owner: str, scope: Mapping[str, Any]) -> Any:
    """Return an instance of a class that was not initialised, None where there can be none."""
    first, *rest = owner.split(".")
    found: Any = scope.get(first)
    for name in rest:
        found = getattr(found, name, None)
    try:
        made = object.__new__(found)
    except TypeError:  # It is no class, or one of a kind that Python itself makes.
        return None
    if isinstance(made, nn.Module):
        nn.Module.__init__(made)
    return made


def _calls(node: _Function, owner: str, tree: ast.Module | None, scope: Mapping[str, Any]) -> Iterator[str]:
    """Yield calls of a function in the file whose arguments are known, with all arguments by name."""
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    for call in ast.walk(tree) if tree is not None and not owner else ():
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == node.name):
            continue
        given = [*zip(names, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
        looked_up = {each.id for _, value in given for each in ast.walk(value) if isinstance(each, ast.Name)}
        if len(call.args) <= len(names) and looked_up <= scope.keys() and not cost_of(ast.Expr(call), {}):
            yield f"{node.name}({', '.join(f'{name}={ast.unparse(value)}' for name, value in given if name)})"
