"""What a name of a file may be whose statement is not executed, or fails: what is asked of it in the file tells.

The file is read and nothing is executed. What comes out is an expression that needs no other name of the file: it is
offered to the person as a comment, and models are built with it meanwhile.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from fxworker.conventions import is_configuration, usual_values

_Path: TypeAlias = tuple[str, ...]
"""A part of a value: its keys, and its attributes with a dot before them."""

_DEVICE: Final = re.compile(r"(?i)dev(ice)?")
_PROCESSES: Final = re.compile(r"(?i)(.*_)?world_?size")
_PROCESS: Final = re.compile(r"(?i)((local|global|node)_?)?rank|gpu(_?id)?")
_COUNTING: Final = re.compile(r"len|int|nunique|max|sum")
"""What is called that gives a number."""
_MAKING_TENSORS: Final = re.compile(r"tensor|as_tensor|from_numpy|(Float|Double)?Tensor")
"""What is called that makes a tensor."""
_TABLE: Final = re.compile(r"(?i).*(emb|vec|matrix|table|weight).*")
"""What arrays are called that have rows."""
_OF_ARRAYS: Final = frozenset({".shape", ".dtype", ".ndim", ".size"})
"""What is read of an array."""
_ANY_NUMBER: Final = "64"
_FEW: Final = 2
_ITEMS: Final = 10
"""How many items there are of what nothing else tells of."""
_NOTHING: Final = "None"


def value_of(name: str, binder: ast.stmt, tree: ast.Module | None) -> str:
    """Return what a name may be, as what is asked of it in a file and its own words tell; "None" if nothing does.

    Args:
        name: The name.
        binder: The statement that would assign it.
        tree: The file.
    """
    found = Asked.of(name, tree).expression((), name, whole=True)
    return _text(found) if any(map(_is_of_environment, _assigned_to(name, binder))) else found


def assumed_value(name: str, binder: ast.stmt, tree: ast.Module | None) -> str:
    """Return what a name is taken to be while models are built, "" where nothing tells.

    Args:
        name: The name.
        binder: The statement that would assign it, or another if its conditions were others.
        tree: The file.
    """
    if isinstance(binder, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ""
    if isinstance(binder, ast.Import | ast.ImportFrom) and not _is_called_as_value(name):
        return ""
    values = list(_assigned_to(name, binder))
    if literal := next(filter(_is_literal, values), None):
        return ast.unparse(literal)
    if tensor := next(filter(None, map(_tensor_made, values)), ""):
        return tensor
    asked = Asked.of(name, tree)
    if asked.called:
        # Nothing that could be written down has methods of its own.
        return ""
    found = asked.expression((), name, whole=False)
    if any(map(_is_of_environment, values)):
        return _text(found)
    if found == _NOTHING and any(map(_counts, values)):
        return _ANY_NUMBER
    return "" if found == _NOTHING else found


class Asked:
    """What is asked of a value, and of its parts. Mutable while it is read."""

    def __init__(self, name: str) -> None:
        self._known: dict[str, _Path] = {name: (), f"self.{name}": ()}
        self._paths: list[_Path] = []
        self._measured: set[_Path] = set()
        self._optional: set[_Path] = set()
        self._iterated: set[_Path] = set()
        self._arrays: set[_Path] = set()
        self.called = False

    @classmethod
    def of(cls, name: str, tree: ast.Module | None) -> "Asked":
        """Return what a file asks of what has a name there."""
        found = cls(name)
        # What a statement that keeps nothing does to it is not asked: `config.freeze()`.
        body = [each for each in tree.body if not isinstance(each, ast.Expr)] if tree is not None else []
        nodes = [node for each in body for node in ast.walk(each)]
        objects = _objects_in(nodes)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.expr() as value):
                    # A part that has a name of its own: `model = config["model"]`.
                    part = ast.unparse(target)
                    path = found._path(value)
                    if path and (isinstance(value, ast.Subscript) or part in objects):
                        found._known.setdefault(part, path)
                case _:
                    pass
        for node in nodes:
            found._note(node)
        return found

    def expression(self, path: _Path, name: str, *, whole: bool) -> str:
        """Return an expression for a part of the value; with `whole`, also for what it need not have."""
        parts = dict.fromkeys(each[len(path)] for each in self._paths if each[: len(path)] == path and each != path)
        inner = {
            each: self.expression((*path, each), each.lstrip("."), whole=whole)
            for each in parts
            if whole or (*path, each) not in self._optional
        }
        if path in self._arrays and parts.keys() <= _OF_ARRAYS and (parts or _usual(name) == _NOTHING):
            return _array(name, whole=not path)
        if parts and not any(each.startswith(".") for each in parts):
            return f"{{{', '.join(f'{each!r}: {value}' for each, value in inner.items())}}}"
        length = "1000" if path in self._measured else ""
        if parts:
            fields = [f"{each[1:]!r}: {value}" for each, value in inner.items() if each.startswith(".")]
            fields += [f"'__len__': lambda _: {length}"] if length else []
            return f"type({name!r}, (), {{{', '.join(fields)}}})()"
        usual = _several(name) if path in self._iterated else _usual(name)
        if length:
            return f"range({usual if usual.isdecimal() else _ITEMS})"
        return usual

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Call():
                self._note_call(node)
            case ast.ClassDef(bases=bases):
                self.called |= any(self._path(each) is not None for each in bases)
            case ast.For(iter=values) | ast.comprehension(iter=values):
                several = values.args if isinstance(values, ast.Call) and _is_of_items(values.func) else [values]
                self._iterated.update(path for path in map(self._path, several) if path is not None)
            case ast.Subscript() | ast.Attribute(ctx=ast.Load()):
                if path := self._path(node):
                    self._paths.append(path)
            case _:
                pass

    def _note_call(self, node: ast.Call) -> None:
        if node.args and _MAKING_TENSORS.fullmatch(_called(node)):
            self._arrays.update(path for path in map(self._path, _computed_with(node.args[0])) if path is not None)
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[value]):
                if (path := self._path(value)) is not None:
                    self._measured.add(path)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str()), *default]):
                if path := self._path(node):
                    self._paths.append(path)
                    self._optional |= {path} if default else set()
            case ast.Call(func=ast.Attribute() as method):
                self.called |= self._path(method) is not None
            case ast.Call(func=function):
                self.called |= self._path(function) == ()

    def _path(self, node: ast.expr) -> _Path | None:
        """Return the part of the value that an expression is, None for another."""
        match node:
            case ast.Name(id=name):
                return self._known.get(name)
            case (
                ast.Subscript(value=value, slice=ast.Constant(value=str(key)))
                | ast.Call(func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(key)), *_])
            ):
                path = self._path(value)
                return (*path, key) if path is not None else None
            case ast.Attribute(value=value, attr=name) if name != "get":
                known = self._known.get(ast.unparse(node)) if isinstance(value, ast.Name) else None
                path = self._path(value) if known is None else None
                return (*path, f".{name}") if path is not None else known
            case _:
                return None


def _several(name: str) -> str:
    """Return what is usually called so and has items."""
    lists = (each for each in usual_values(name) if each.startswith(("[", "(")))
    return next(lists, f"[{', '.join([_usual(name)] * _FEW)}]")


def _array(name: str, *, whole: bool) -> str:
    """Return an array that is called so; one that is a part of something goes with any other that has no rows."""
    if _TABLE.fullmatch(name):
        return f"torch.ones({_ITEMS}, {_ANY_NUMBER}).numpy()"
    return f"torch.ones({_ITEMS if whole else 1}).numpy()"


def _computed_with(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what an expression computes with, itself where it is no operation."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from _computed_with(left)
            yield from _computed_with(right)
        case ast.UnaryOp(operand=operand):
            yield from _computed_with(operand)
        case _:
            yield node


def _objects_in(nodes: list[ast.AST]) -> set[str]:
    """Return the names of which several attributes are read and none is called: those of plain objects."""
    read: dict[str, set[str]] = {}
    called = set[str]()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                called.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                read.setdefault(name, set()).add(attribute)
            case _:
                pass
    return {name for name, found in read.items() if len(found) >= _FEW} - called


def _text(value: str) -> str:
    """Return a variable of the environment: a text, whatever it is called."""
    return value if value.startswith("'") else "''"


def _is_called_as_value(name: str) -> bool:
    """Whether what is imported is called as constants and configurations are, and not as functions and classes."""
    return name.isupper() or is_configuration(name) or _DEVICE.fullmatch(name) is not None


def _usual(name: str) -> str:
    """Return what is usually called so at the top of a file, where processes are counted as well."""
    for pattern, value in ((_DEVICE, "'cpu'"), (_PROCESSES, "1"), (_PROCESS, "0")):
        if pattern.fullmatch(name):
            return value
    return next(iter(usual_values(name)), _NOTHING)


def _assigned_to(name: str, statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield what a statement would assign to a name, in any of its branches."""
    for node in ast.walk(statement):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from (each for target in targets for each in _paired(name, target, value))
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                yield value
            case _:
                pass


def _paired(name: str, target: ast.expr, value: ast.expr) -> Iterator[ast.expr]:
    """Yield the value that a target gives to a name: `a, b = 1, 2`."""
    match target, value:
        case ast.Name(id=found), _ if found == name:
            yield value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            for each, one in zip(targets, values, strict=False):
                yield from _paired(name, each, one)
        case _:
            pass


def _is_literal(node: ast.expr) -> bool:
    """Whether an expression is a number, a string, or a collection of such."""
    try:
        return ast.literal_eval(node) is not None
    except (ValueError, TypeError, SyntaxError):
        return False


def _is_of_environment(node: ast.expr) -> bool:
    """Whether an expression is a variable of the environment: `os.environ["DATA"]`, `os.getenv("DATA")`."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr=name)):
            return name == "environ"
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            return name == "getenv" or (name == "get" and ast.unparse(value).endswith("environ"))
        case _:
            return False


def _tensor_made(node: ast.expr) -> str:
    """Return a tensor for an expression that makes one, "" for another: `torch.tensor(weights).float()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)) if _MAKING_TENSORS.fullmatch(name):
            return f"torch.ones({_ITEMS})"
        case ast.Call(func=ast.Attribute(value=value)):
            return _tensor_made(value)
        case _:
            return ""


def _is_of_items(called: ast.expr) -> bool:
    """Whether a function goes over what it is given."""
    return isinstance(called, ast.Name) and called.id in {"enumerate", "zip", "reversed", "sorted"}


def _counts(node: ast.expr) -> bool:
    """Whether an expression gives a number, by what it calls."""
    return _COUNTING.fullmatch(_called(node)) is not None


def _called(node: ast.expr) -> str:
    """Return the name of what an expression calls, without what it is one of; "" where it is no call."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
