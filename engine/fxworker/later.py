"""What the methods of a model say about the values that its constructor keeps: how `forward` uses `self.depths`.

Only attributes that hold a parameter as it was given are looked at. What is only kept says nothing in a constructor.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from fxworker.bindings import Bindings
from fxworker.conditions import note_comparison
from fxworker.evidence import SHARED, Use
from fxworker.indexing import note_indices_in
from fxworker.surroundings import Surroundings, is_own_attribute

_GOING_OVER: Final = frozenset({"enumerate", "zip", "reversed", "len", "list", "tuple", "sorted"})
"""Functions whose arguments have items."""

_AXES: Final = frozenset({"dim", "axis"})
"""What the parameter is called that says along which axis a tensor is worked on."""

_ALONG: Final = frozenset({"squeeze", "unsqueeze", "size", "softmax", "log_softmax", "cumsum", "unbind", "flip"})
"""Methods of tensors whose first argument says so."""

_CONTEXT: Final = "torch.no_grad"
"""What gives something that can be entered by `with`, and needs nothing for it."""


def note_later(  # noqa: C901 - a table of expressions.
    trees: Iterable[ast.FunctionDef], names: Bindings, around: Surroundings
) -> None:
    """Note what methods say about attributes that hold parameters.

    Args:
        trees: The methods.
        names: Which names hold which parameters; what the methods say is added to what is known of these.
        around: What names stand for.
    """
    before = names.paths
    names.paths = {name: path for name, path in before.items() if name.startswith("self.")}
    methods = [*trees] if names.paths else []
    note_indices_in(methods, names)
    for node in (each for tree in methods for each in ast.walk(tree)):
        if isinstance(node, ast.For):
            _note_items(node, names)
        match node:
            case ast.Call():
                _called(node, names, around)
            case ast.Attribute(attr=name) if path := names.paths.get(ast.unparse(node.value)):
                if is_own_attribute(name) and name not in SHARED:
                    names.use(path).note("object")
                    names.use(f"{path}.{name}")
            case ast.Subscript(slice=ast.Constant(str(key))) if path := names.path(node.value):
                names.use(path).note("mapping")
                names.use(f"{path}.{key}")
            case ast.With(items=items):
                _entered(items, names)
            case ast.For() | ast.comprehension() if path := names.path(node.iter):
                names.use(path).note("sequence")
            case ast.Assign(targets=[ast.Tuple(elts=variables)], value=ast.Call() as call) if path := names.paths.get(
                ast.unparse(call.func)
            ):
                _unpacked(variables, call, names.use(path))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table):
                around.bind(name, table)
            case ast.Compare():
                note_comparison(node, names, around)
            case _:
                pass
    names.paths = before


def _unpacked(variables: list[ast.expr], call: ast.Call, use: Use) -> None:
    """Note into which variables is unpacked what is returned where something is called: two at least."""
    given = [ast.unparse(each) for each in (*call.args, *(each.value for each in call.keywords))]
    names = [ast.unparse(each) for each in variables if not _is_starred(each)]
    results = [given.index(each) if each in given and not any(map(_is_starred, call.args)) else 0 for each in names]
    use.results = max(use.results, (0, 0), tuple(results), key=len)


def _note_items(loop: ast.For, names: Bindings) -> None:
    """Note into how many variables is unpacked what the items return of what a loop goes over."""
    items = dict(_items(loop, names))
    for node in ast.walk(loop) if items else ():
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=variables)], value=ast.Call(func=ast.Name(id=name)) as call) if (
                name in items
            ):
                _unpacked(variables, call, names.use(items[name]))
            case _:
                pass


def _items(loop: ast.For, names: Bindings) -> Iterator[tuple[str, str]]:
    """Yield the variables of a loop, each with the path of what it is an item of."""
    pairs: list[tuple[ast.expr, ast.expr]] = [(loop.target, loop.iter)]
    match loop.target, loop.iter:
        case ast.Tuple(elts=[_, item]), ast.Call(func=ast.Name(id="enumerate"), args=[whole, *_]):
            pairs = [(item, whole)]
        case ast.Tuple(elts=several), ast.Call(func=ast.Name(id="zip"), args=wholes):
            pairs = [*zip(several, wholes, strict=False)]
        case _:
            pass
    for item, whole in pairs:
        path = names.path(whole)
        if isinstance(item, ast.Name) and path:
            yield item.id, path


def _entered(items: Iterable[ast.withitem], names: Bindings) -> None:
    """Note that a value is entered by `with`, or what it gives when it is called."""
    for item in items:
        match item.context_expr:
            case ast.Call(func=maker) if path := names.path(maker):
                names.use(path).literals.append(_CONTEXT)
            case whole if path := names.path(whole):
                names.use(path).literals.append(f"{_CONTEXT}()")
            case _:
                pass


def _called(call: ast.Call, names: Bindings, around: Surroundings) -> None:
    """Note what a call says about what it calls, and about what it is given."""
    path = names.paths.get(ast.unparse(call.func)) or _member(call.func, names)
    if path and "class" not in names.use(path).kinds:
        names.use(path).note("callable")
    given = [names.use(each) for each in map(names.path, call.args) if each]
    match call.func:
        case ast.Attribute(value=table, attr="get") if given and call.args:
            given[0].literals += around.keys(table)
        case ast.Name(id=name) if name in _GOING_OVER:
            for use in given:
                use.note("sequence")
        case ast.Attribute(attr=name) if name in _ALONG and len(call.args) == 1:
            _are_axes(given)
        case _:
            pass
    _are_axes(
        names.use(names.path(each.value)) for each in call.keywords if each.arg in _AXES and names.path(each.value)
    )


def _member(node: ast.expr, names: Bindings) -> str:
    """Return the path of an attribute of what a model keeps, "" for anything else."""
    match node:
        case ast.Attribute(value=whole, attr=name) if path := names.paths.get(ast.unparse(whole)):
            return f"{path}.{name}" if is_own_attribute(name) and name not in SHARED else ""
        case _:
            return ""


def _is_starred(target: ast.expr) -> bool:
    return isinstance(target, ast.Starred)


def _are_axes(uses: Iterable[Use]) -> None:
    for use in uses:
        use.note("number")
        use.axis = True
