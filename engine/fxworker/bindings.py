"""Which names of a constructor hold which of the values that it is given, as paths such as `config.width`.

Assignments, loops and unpacking are followed. That something can be gone over, or has so many items, is noted on the
way; what else is done with a value is read elsewhere.
"""

import ast
import re
from collections.abc import Callable

from fxworker.evidence import GIVEN, METHODS, PROPERTIES, SHARED, Usage, Use


class Bindings:
    """The names, and expressions such as `self.dim`, that hold values. Mutable: it changes as code is read.

    Args:
        usage: The evidence that is added to.
        as_constant: Gives the constant that a name stands for.

    Attributes:
        paths: The names, with the paths of what they hold.
        alike: Values that are treated as others are: a loop goes over all of them.
        keywords: What `**kwargs` is called; what is read from it is a parameter as others are.
    """

    def __init__(self, usage: Usage, as_constant: Callable[[ast.expr], ast.expr]) -> None:
        self.paths: dict[str, str] = {}
        self.alike: list[tuple[str, str]] = []
        self.keywords = ""
        self._usage = usage
        self._as_constant = as_constant

    def use(self, path: str) -> Use:
        """Return the evidence for a value."""
        return self._usage.setdefault(path, Use())

    def path(self, node: ast.expr) -> str:
        """Return the path of a value that comes from a parameter, "" for another."""
        match node:
            case ast.Name(id=name):
                return self.paths.get(name, "")
            case ast.Attribute(value=value, attr=name) if not name.startswith("__"):
                known = self.paths.get(ast.unparse(node))
                around = self.path(value)
                return known or (f"{around}.{name}" if around and name not in PROPERTIES else "")
            case ast.Subscript(value=value, slice=index):
                if isinstance(key := self._as_constant(index), ast.Constant):
                    return self._entry(value, key.value)
                around = self.path(value)
                return f"{around}[]" if around and not isinstance(node.slice, ast.Slice) else around
            case ast.Call():
                return self._given_by(node)
            case ast.BoolOp(op=ast.Or(), values=[first, *_]):
                return self.path(first)
            case ast.IfExp(body=one, orelse=other):
                return self._either(self.path(one), self.path(other))
            case _:
                return ""

    def _entry(self, owner: ast.expr, key: object) -> str:
        """Return the path of an item by its constant key: a parameter where it is one of `**kwargs`."""
        if isinstance(owner, ast.Name) and owner.id == self.keywords and isinstance(key, str):
            return key
        around = self.path(owner)
        return "" if not around else f"{around}.{key}" if isinstance(key, str) else f"{around}[]"

    def _either(self, one: str, other: str) -> str:
        """Return the path of one of two values, of which the other is treated the same; "" unless both have one."""
        if not (one and other):
            return ""
        if one != other:
            self.alike.append((one, other))
        return one

    def _given_by(self, call: ast.Call) -> str:
        """Return the path of what a call gives: an entry, a copy, a text in other letters, what a parameter returns."""
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get" | "pop"), args=[ast.Constant(str(key))]
            ) if name == self.keywords:
                return key
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop"), args=[ast.Constant(str(key))]):
                around = self.path(value)
                return f"{around}.{key}" if around else ""
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(str(key)), *_]) if self.path(value):
                return f"{self.path(value)}.{key}"
            case (
                ast.Call(func=ast.Attribute(value=value, attr="copy"), args=[], keywords=[])
                | ast.Call(func=ast.Name(id="dict" | "deepcopy"), args=[value], keywords=[])
                | ast.Call(func=ast.Attribute(value=ast.Name(id="copy"), attr="copy" | "deepcopy"), args=[value])
            ):
                return self.path(value)
            case _ if (worded := in_words(call)) is not call:
                return self.path(worded)
            case _:
                path = "" if _is_of_python(call.func) else self.path(call.func)
                return f"{path}.{GIVEN}" if path else ""

    def bind(self, name: str, path: str, *, anew: bool = False) -> None:
        """Note that a name holds a value from now on, or with "" that it holds another, which may be made `anew`."""
        if path:
            self.paths[name] = path
        elif anew or name not in self._usage:
            # A parameter that is normalised (`x = x if … else (x, x)`) stays what was given.
            self.paths.pop(name, None)

    def unpacked(self, target: ast.Tuple | ast.List, path: str) -> None:
        """Bind names to the items of a value, which has so many if none of them is starred."""
        use = self.use(path)
        use.note("sequence")
        if not any(isinstance(each, ast.Starred) for each in target.elts):
            use.count = use.count or len(target.elts)
        is_whole = not any(isinstance(each, ast.Starred) for each in target.elts)
        for at, each in enumerate(target.elts):
            if isinstance(each, ast.Name | ast.Attribute):
                self.bind(ast.unparse(each), f"{path}[{at}]" if is_whole else f"{path}[]")
            elif isinstance(each, ast.Tuple | ast.List) and is_whole:
                self.unpacked(each, f"{path}[{at}]")

    def turned(self, node: ast.expr) -> str:
        """Return the path of a list of records that `zip(*records)` makes lists of, "" for another expression."""
        match node:
            case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred(value=value)]):
                return self.path(value)
            case _:
                return ""

    def turned_into(self, target: ast.Tuple | ast.List, path: str) -> None:
        """Note what records have that are turned into lists."""
        self.use(path).note("sequence")
        record = self.use(f"{path}[]")
        record.note("sequence")
        record.turned = True
        record.count = record.count or len(target.elts)
        for at, each in enumerate(target.elts):
            if isinstance(each, ast.Name | ast.Attribute):
                self.bind(ast.unparse(each), f"{path}[][{at}]")

    def loop(self, target: ast.expr, values: ast.expr) -> None:
        """Bind a loop's variables to items of what it goes over."""
        path = self.path(values)
        if path:
            self.use(path).note("sequence")
            self._items(target, path)
            return
        match values:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if isinstance(target, ast.Tuple):
                self.loop(target.elts[-1], inner)
            case ast.Call(func=ast.Name(id="zip"), args=parts) if isinstance(target, ast.Tuple):
                for part, each in zip(parts, target.elts, strict=False):
                    self.loop(each, part)
            case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple" | "sorted" | "range"), args=[inner]):
                if values.func.id != "range":  # pyright: ignore[reportAttributeAccessIssue] — The pattern says a name.
                    self.loop(target, inner)
            case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values" | "keys" as method)) if self.path(
                inner
            ):
                use = self.use(self.path(inner))
                use.note("mapping")
                use.least = max(use.least, 1)
                self._entries(target, self.path(inner), method)
            case ast.List(elts=several) | ast.Tuple(elts=several):
                self._each(target, [each for each in map(self.path, several) if each])
            case _:
                pass

    def taken_from(self, base: dict[str, str], given: dict[str, str]) -> None:
        """Bind what the constructor of a base has put into attributes to the values that it was given.

        Args:
            base: The names of that constructor, with the paths of what they hold.
            given: Its parameters, with the paths of what they were given here.
        """
        for name, path in base.items():
            first, *rest = re.split(r"(?=[.\[])", path, maxsplit=1)
            if name.startswith("self.") and first in given:
                self.paths.setdefault(name, given[first] + "".join(rest))

    def _entries(self, target: ast.expr, path: str, method: str) -> None:
        """Bind a loop's variables to the entries of a mapping."""
        match target, method:
            case ast.Tuple(elts=[_, value]), "items":
                self.bind(ast.unparse(value), f"{path}[]", anew=True)
            case ast.Name(id=name), "values":
                self.bind(name, f"{path}[]", anew=True)
            case _:
                pass

    def _each(self, target: ast.expr, paths: list[str]) -> None:
        """Bind a loop's variable to the first of the values that it goes over; the others are treated the same."""
        if isinstance(target, ast.Name) and paths:
            self.bind(target.id, paths[0], anew=True)
            self.alike.extend((paths[0], each) for each in paths[1:])

    def _items(self, target: ast.expr, path: str) -> None:
        if isinstance(target, ast.Name):
            self.paths[target.id] = f"{path}[]"
            self.use(f"{path}[]")
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpacked(target, f"{path}[]")


def in_words(node: ast.expr) -> ast.expr:
    """Return what a text is made of without regard to its case: `mode` for `mode.lower()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "upper" | "strip" | "casefold"), args=[]):
            return value
        case _:
            return node


def _is_of_python(called: ast.expr) -> bool:
    """Whether what is called is a method that Python's own values have, or modules."""
    name = called.attr if isinstance(called, ast.Attribute) else ""
    return METHODS.get(name, "tensor") != "tensor" or name in SHARED
