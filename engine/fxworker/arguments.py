"""Inferring the arguments of a constructor: from defaults elsewhere in the file, annotations, names, and what it says.

A small best-first search: the first proposal for every required parameter, then, for those that the error or the line
that raised it speaks of, the next ones. Arguments are Python expressions, so that what was found can be written into
the file as a directive.
"""

import ast
import dataclasses
import enum
import heapq
import inspect
import itertools
import linecache
import re
import time
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from torch import nn

from fxworker.conventions import usual_values
from fxworker.patience import patience

_TRIALS: Final = 32
_SECONDS: Final = 1.0

_PLAIN: Final[dict[Any, tuple[str, ...]]] = {
    int: ("64", "4", "2"),
    float: ("0.1", "1.0"),
    bool: ("False", "True"),
    str: ("''",),
    list: ("[2, 2, 2, 2]", "[64, 64]", "[]"),
    tuple: ("(2, 2)", "(64, 64)"),
    dict: ("{}",),
    set: ("set()",),
    type(None): ("None",),
}
_UNKNOWN: Final = ("64", "torch.nn.Identity()", "(64, 64)", "None", "0.1", "True")

_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class Search:
    """A search for the arguments of a class. Mutable; runs once.

    Attributes:
        error: What the furthest attempt raised.
        tried: The expression of that attempt.
    """

    def __init__(
        self,
        name: str,
        cls: Any,
        scope: Mapping[str, Any],
        tree: ast.Module | None,
        attempt: Callable[[Callable[[], Any]], Any],
        *,
        inner: bool = False,
    ) -> None:
        self.error: BaseException | None = None
        self.tried = ""
        self._name = name
        self._cls = cls
        self._scope = dict(scope)
        self._attempt = attempt
        self._inner = inner
        self._parameters = _parameters(cls)
        self._proposals: dict[str, list[str]] = {}
        self._hints = _hints(cls)
        self._literals = _literals(_definition(cls, tree))
        self._defaults = _defaults(self._scope, cls)

    def run(self) -> tuple[str, nn.Module] | None:
        """Return the expression that builds the class and what it builds, None if none was found in time."""
        required = [name for name, each in self._parameters.items() if each.default is each.empty]
        first = {name: self._proposed(name)[0] for name in required}
        queue: list[tuple[float, int, float, dict[str, str]]] = [(0.0, 0, 0.0, first)]
        deadline = time.monotonic() + _SECONDS
        serial = itertools.count(1)
        seen = set[str]()
        for _ in range(_TRIALS):
            if not queue or time.monotonic() > deadline:
                return None
            _, _, cost, choice = heapq.heappop(queue)
            expression = self._expression(choice)
            root, error = self._try(expression)
            if root is not None:
                return expression, root
            if error is not None and (self.error is None or _depth(error) >= _depth(self.error)):
                self.error, self.tried = error, expression
            for step, changed in self._next(choice, error):
                key = repr(sorted(changed.items()))
                if key not in seen:
                    seen.add(key)
                    priority = cost + step - 0.02 * _depth(error)
                    heapq.heappush(queue, (priority, next(serial), cost + step, changed))
        return None

    def _try(self, expression: str) -> tuple[nn.Module | None, BaseException | None]:
        try:
            code = compile(expression, "<inferred>", "eval")
            with patience(_SECONDS):
                root = self._attempt(lambda: eval(code, self._scope))  # noqa: S307 — Literals and classes of the file.
        except BaseException as error:  # noqa: BLE001 — User code raises whatever it likes.
            return None, error
        return (root, None) if isinstance(root, nn.Module) else (None, None)

    def _expression(self, arguments: Mapping[str, str]) -> str:
        positional = inspect.Parameter.POSITIONAL_ONLY
        words = [
            value if name in self._parameters and self._parameters[name].kind is positional else f"{name}={value}"
            for name, value in arguments.items()
        ]
        return f"{self._name}({', '.join(words)})"

    def _proposed(self, name: str) -> list[str]:
        """Return expressions for a parameter, best first."""
        if name not in self._proposals:
            parameter = self._parameters.get(name) or inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            self._proposals[name] = self._propose(parameter)
        return self._proposals[name]

    def _propose(self, parameter: inspect.Parameter) -> list[str]:
        hint = self._hints.get(parameter.name, parameter.annotation)
        found = [*self._literals.get(parameter.name, ()), *self._of_hint(hint, parameter.name)]
        known = usual_values(parameter.name)
        if self._inner and known[:1] == ("3",):
            # Channels of an image enter the outermost model; a part of it takes what its neighbours give.
            known = known[1:]
        plain = _PLAIN.get(hint, ())
        # A name says how much, an annotation says what.
        found += [*(each for each in known if not plain or _is_of(each, hint)), *self._defaults.get(parameter.name, ())]
        found += [*plain, *known]
        configuration = self._configuration(parameter.name)
        if configuration:
            found.insert(0, configuration)
        usual = repr(parameter.default)
        return [each for each in dict.fromkeys([*found, *_UNKNOWN]) if each != usual]

    def _of_hint(self, hint: Any, name: str) -> Iterator[str]:
        """Yield expressions for an annotation that is more than a plain type."""
        origin = typing.get_origin(hint)
        arguments = typing.get_args(hint)
        if origin is typing.Literal:
            yield from map(repr, arguments)
        elif origin in {typing.Union, types.UnionType}:
            for each in arguments:
                if each is not type(None):
                    yield from _fitting(usual_values(name), each) or self._of_hint(each, name)
        elif origin is type or hint is type:
            bound = arguments[0] if arguments else nn.Module
            yield from (["torch.nn.Identity"] if _is_module(bound) else [])
        elif origin in {tuple, list} and arguments:
            inner = _fitting(usual_values(name), arguments[0]) or list(_PLAIN.get(arguments[0], ()))[:1]
            count = 2 if origin is list or Ellipsis in arguments else len(arguments)
            if inner:
                items = ", ".join([inner[0]] * count)
                yield f"[{items}]" if origin is list else f"({items},)"
        elif isinstance(hint, type):
            yield from self._of_class(hint)

    def _of_class(self, hint: type) -> Iterator[str]:
        if issubclass(hint, enum.Enum):
            member = next(iter(hint), None)
            if member is not None and self._visible(hint):
                yield f"{self._visible(hint)}.{member.name}"
        elif hint is nn.Module:
            yield "torch.nn.Identity()"
        elif hint not in _PLAIN and self._visible(hint) and _is_bare(hint):
            yield f"{self._visible(hint)}()"

    def _visible(self, cls: type) -> str:
        """Return the name that a class has in the file, "" if it has none."""
        return next((name for name, value in self._scope.items() if value is cls), "")

    def _configuration(self, name: str) -> str:
        """Return the construction of a configuration class for a parameter such as `config`."""
        if not re.fullmatch(r"(.*_)?(config|cfg|conf|args|params|hparams|options|opt|hps|configuration)", name):
            return ""
        classes = [
            (key, value)
            for key, value in self._scope.items()
            if isinstance(value, type) and re.search(r"(?i)(config|args|params|options|configuration)", key)
            if _is_bare(value)
        ]
        classes.sort(key=lambda each: -_overlap(each[0], self._name))
        if classes:
            return f"{classes[0][0]}()"
        instances = [key for key in self._scope if key.lower() == name.lower()]
        return instances[0] if instances else ""

    def _next(self, choice: dict[str, str], error: BaseException | None) -> Iterator[tuple[float, dict[str, str]]]:
        """Yield choices that may mend an error, each with what it costs.

        First come those that change a parameter which the error, or the line that raised it, names; it may be one
        that has a default.
        """
        missing = [name for name in _missing(error) if name not in choice]
        if missing:
            # A constructor of `**kwargs` says only now what it wants.
            yield 0.0, {**choice, **{name: self._proposed(name)[0] for name in missing}}
        blamed = _blamed(error, {*self._parameters, *choice}) if error is not None else []
        for rank, name in enumerate([*blamed, *(each for each in choice if each not in blamed)]):
            proposals = self._proposed(name)
            start = proposals.index(choice[name]) + 1 if choice.get(name) in proposals else 0
            following = [*(_numbers(error) if name in blamed else ()), *proposals[start : start + 4]]
            unasked = 1.0 if name in blamed else 3.0
            # An error of type asks for another kind of value, not for the next of the same kind.
            width = 0.1 if isinstance(error, TypeError) else 1.0
            for step, value in enumerate(following):
                yield unasked + 0.1 * rank + width * step, {**choice, name: value}


def _parameters(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor that can be given by name."""
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in inspect.signature(cls).parameters.items() if each.kind not in fixed}


def _missing(error: BaseException | None) -> list[str]:
    """Return the names of the arguments that a `TypeError` says are missing."""
    text = str(error) if isinstance(error, TypeError) else ""
    return re.findall(r"'(\w+)'", text.partition(" missing ")[2]) if " missing " in text else []


def _numbers(error: BaseException | None) -> list[str]:
    """Return the small numbers that a message names, as in `must be between 1 and 7`."""
    return [each for each in dict.fromkeys(re.findall(r"\b\d{1,3}\b", str(error))) if each != "0"]


def _blamed(error: BaseException, names: set[str]) -> list[str]:
    """Return the parameters that an error speaks of, or the lines that raised it, innermost first."""
    words = _WORD.findall(str(error))
    traceback = error.__traceback__
    lines: list[str] = []
    while traceback is not None:
        lines.append(linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    for line in reversed(lines):
        words += _WORD.findall(line)
    return list(dict.fromkeys(word for word in words if word in names))


def _depth(error: BaseException | None) -> int:
    """Return how far an attempt came, as the line of the constructor that raised."""
    traceback = error.__traceback__ if error is not None else None
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "__init__":
            return traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _fitting(values: tuple[str, ...], hint: Any) -> list[str]:
    return [each for each in values if _is_of(each, hint)]


def _is_of(expression: str, hint: Any) -> bool:
    """Whether a literal is of a plain type."""
    try:
        return type(ast.literal_eval(expression)) is hint
    except (ValueError, SyntaxError):
        return False


def _is_module(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _is_bare(cls: type) -> bool:
    """Whether a class can be made without arguments, as far as it says."""
    if issubclass(cls, nn.Module):
        return False
    if dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        return all(
            not each.init or each.default is not missing or each.default_factory is not missing
            for each in dataclasses.fields(cls)
        )
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (ValueError, TypeError):
        return False
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(each.default is not each.empty or each.kind in fixed for each in parameters)


def _overlap(name: str, other: str) -> int:
    """Return how many letters two names have in common from their beginning."""
    count = 0
    for one, two in zip(name.lower(), other.lower(), strict=False):
        if one != two:
            break
        count += 1
    return count


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__)
    except Exception:  # noqa: BLE001 — Annotations are user code; one that cannot be evaluated says nothing.
        return {}


def _definition(cls: Any, tree: ast.Module | None) -> ast.AST | None:
    """Return the definition of a class at the top level of the file, None where there is none."""
    body = tree.body if tree is not None else []
    return next((node for node in body if isinstance(node, ast.ClassDef) and node.name == cls.__qualname__), None)


def _literals(definition: ast.AST | None) -> dict[str, list[str]]:
    """Return the strings that a class compares its parameters with: `if mode == "linear"`, `mode in ("a", "b")`."""
    if definition is None:
        return {}
    found: dict[str, list[str]] = {}
    for node in ast.walk(definition):
        match node:
            case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=str(value))]):
                found.setdefault(name, []).append(repr(value))
            case ast.Compare(
                left=ast.Name(id=name), comparators=[ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items)]
            ):
                values = [each.value for each in items if isinstance(each, ast.Constant)]
                found.setdefault(name, []).extend(repr(each) for each in values if isinstance(each, str))
            case _:
                pass
    return found


def _defaults(scope: Mapping[str, Any], cls: Any) -> dict[str, list[str]]:
    """Return the plain defaults that parameters of the same name have in other classes and functions of the file."""
    found: dict[str, list[str]] = {}
    module = getattr(cls, "__module__", None)
    for value in scope.values():
        if getattr(value, "__module__", None) != module or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        try:
            parameters = inspect.signature(value).parameters.values()
        except (ValueError, TypeError):
            continue
        for each in parameters:
            if isinstance(each.default, bool | int | float | str | tuple | list) and _is_literal(each.default):
                found.setdefault(each.name, []).append(repr(each.default))
    return found


def _is_literal(value: Any) -> bool:
    try:
        return ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError):
        return False
