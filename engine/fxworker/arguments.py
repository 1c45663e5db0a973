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

_TRIALS: Final = 32
_SECONDS: Final = 1.0

_NAMED: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(pattern), values)
    for pattern, values in (
        (
            r"(in|input)_?(ch|channels?|chans?|planes|c)|channels_in|c_in|nc|inplanes|image_channels|img_channels",
            ("3", "64", "1"),
        ),
        (r"(n|num)_?class(es)?|num_labels|n_?cls|nclass|num_outputs|out_classes", ("10",)),
        (
            r"(img|image|input|patch_grid|crop)_?(size|res|resolution)|(in_)?resolution|image_(height|width)",
            ("32", "(32, 32)", "224"),
        ),
        (r"patch_?size|patch(_height|_width)?", ("4", "(4, 4)", "16")),
        (r"(window|win)_?size|window", ("4", "(4, 4)", "7")),
        (r"kernel(_?size)?|ks|k", ("3", "(3, 3)")),
        (
            r"stride|dilation|scale|scale_factor|upscale|r|factor|reduction|ratio|expansion|expand_ratio|mult",
            ("2", "1", "4"),
        ),
        (r"pad(ding)?", ("1",)),
        (r"groups|(n|num)_groups|cardinality", ("4", "1", "8")),
        (r"(n|num)_?heads?|heads?|nhead|h|attention_heads|num_attention_heads|kv_heads|num_kv_heads", ("4", "8", "1")),
        (r"(dim|d|size)_?(per_)?head|head_(dim|size)|dim_head|d_k|d_v", ("16", "64")),
        (
            r"(n|num)_?(layers?|blocks?|stages?|levels?|res_?blocks?)|depths?|layers?|blocks?|N",
            ("2", "(2, 2)", "[2, 2, 2, 2]"),
        ),
        (r"(n|num)_?experts?|experts", ("4",)),
        (r"top_?k", ("2",)),
        (
            r"(vocab|vocabulary)(_?size)?|(n|num)_(tokens|embeddings|words|items|users|codes|chars)|n?vocab|(src|tgt|trg)_vocab(_size)?|ntoken",
            ("1000",),
        ),
        (
            r"(max_?)?(seq_?(len(gth)?)?|len(gth)?|position(_embedding)?s|context(_length)?|tokens)|block_size|n_ctx|T|num_frames|frames",
            ("32", "64"),
        ),
        (
            r".*(drop|dropout|_prob|_rate|_p|momentum|alpha|beta|gamma|temperature|eps|epsilon|slope|lambda_?).*|p|eps",
            ("0.1",),
        ),
        (
            r".*(channels?|planes|filters?|width|features?|dims?|size|units|hidden|nf|ngf|ndf|embd?|embed(ding)?s?|d_model|d_ff|inner|mlp)(_?\d+)?|(in|out|hidden|latent|embed|model|z|x|y|c|t|d|n)?_?dim\d?|[cdnmx]\d?",
            ("64", "(64, 64)", "[64, 64]"),
        ),
        (
            r".*(norm)(_layer|_cls|_type)?",
            ("torch.nn.LayerNorm", "torch.nn.BatchNorm2d", "torch.nn.Identity()", "'layer'"),
        ),
        (
            r".*act(ivation)?(_layer|_fn|_cls|_func)?|non_?linearity",
            ("torch.nn.GELU", "torch.nn.GELU()", "torch.nn.functional.gelu", "'relu'"),
        ),
        (
            r".*(fn|func|layer|module|block|net|model|encoder|decoder|backbone|head|proj|submodule|inner|stem|body|neck|conv)",
            ("torch.nn.Identity()", "torch.nn.Linear(64, 64)", "torch.nn.Identity"),
        ),
        (r"device", ("'cpu'",)),
        (r"dtype", ("torch.float32", "None")),
        (
            r"(use|is|with|has|do|no|enable|return|add|share|causal|bias|learn).*|.*_bias|residual|bidirectional|causal|training|inplace",
            ("True", "False"),
        ),
        (r"mode|type|kind|name|variant|.*_(mode|type|name)|padding_mode", ("'default'",)),
    )
)
"""What parameters of a name usually take, best first. The first pattern that fits the whole name counts."""

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
        self._hints = _hints(cls)
        self._literals = _literals(_definition(cls, tree))
        self._defaults = _defaults(self._scope, cls)

    def run(self) -> tuple[str, nn.Module] | None:
        """Return the expression that builds the class and what it builds, None if none was found in time."""
        parameters = _parameters(self._cls)
        required = [name for name, each in parameters.items() if each.default is each.empty]
        proposals = {name: self._proposals(each) for name, each in parameters.items()}
        deadline = time.monotonic() + _SECONDS
        queue: list[tuple[float, int, dict[str, int]]] = [(0.0, 0, dict.fromkeys(required, 0))]
        serial = itertools.count(1)
        seen = set[str]()
        for _ in range(_TRIALS):
            if not queue or time.monotonic() > deadline:
                return None
            choice = heapq.heappop(queue)[2]
            expression = self._expression({name: proposals[name][index] for name, index in choice.items()})
            root, error = self._try(expression)
            if root is not None:
                return expression, root
            if error is not None and (self.error is None or _depth(error) >= _depth(self.error)):
                self.error, self.tried = error, expression
            for penalty, changed in self._next(choice, proposals, error):
                key = repr(sorted(changed.items()))
                if key not in seen:
                    seen.add(key)
                    cost = sum(changed.values()) + penalty - 0.02 * _depth(error)
                    heapq.heappush(queue, (cost, next(serial), changed))
        return None

    def _try(self, expression: str) -> tuple[nn.Module | None, BaseException | None]:
        try:
            code = compile(expression, "<inferred>", "eval")
            root = self._attempt(lambda: eval(code, self._scope))  # noqa: S307 — Literals and classes of the file.
        except BaseException as error:  # noqa: BLE001 — User code raises whatever it likes.
            return None, error
        return (root, None) if isinstance(root, nn.Module) else (None, None)

    def _expression(self, arguments: Mapping[str, str]) -> str:
        parameters = _parameters(self._cls)
        words = [
            value if parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY else f"{name}={value}"
            for name, value in arguments.items()
        ]
        return f"{self._name}({', '.join(words)})"

    def _proposals(self, parameter: inspect.Parameter) -> list[str]:
        """Return expressions for a parameter, best first."""
        hint = self._hints.get(parameter.name, parameter.annotation)
        found = [*self._literals.get(parameter.name, ()), *self._of_hint(hint, parameter.name)]
        known = _of_name(parameter.name)
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
                    yield from _fitting(_of_name(name), each) or self._of_hint(each, name)
        elif origin is type or hint is type:
            bound = arguments[0] if arguments else nn.Module
            yield from (["torch.nn.Identity"] if _is_module(bound) else [])
        elif origin in {tuple, list} and arguments:
            inner = _fitting(_of_name(name), arguments[0]) or list(_PLAIN.get(arguments[0], ()))[:1]
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

    def _next(
        self, choice: dict[str, int], proposals: dict[str, list[str]], error: BaseException | None
    ) -> Iterator[tuple[float, dict[str, int]]]:
        """Yield choices that may mend an error, each with what it costs beside its distance from the first choice.

        First come those that change a parameter which the error, or the line that raised it, names; it may be one
        that has a default.
        """
        blamed = _blamed(error, set(proposals)) if error is not None else []
        for rank, name in enumerate([*blamed, *(each for each in choice if each not in blamed)]):
            start = choice.get(name, -1) + 1
            unasked = 0.0 if name in blamed else 2.0
            for index in range(start, min(start + 3, len(proposals[name]))):
                # An error of type asks for another kind of value, not for the next of the same kind.
                jump = start - index if isinstance(error, TypeError) else 0
                yield unasked + 0.1 * rank + 0.9 * jump, {**choice, name: index}


def _parameters(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor that can be given by name."""
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in inspect.signature(cls).parameters.items() if each.kind not in fixed}


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


def _of_name(name: str) -> tuple[str, ...]:
    return next((values for pattern, values in _NAMED if pattern.fullmatch(name)), ())


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
