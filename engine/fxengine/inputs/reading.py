"""What the source of a forward says about the shapes of its parameters: comments, docstrings, patterns, unpacking.

Everything is read as an einops pattern, ``b c h w``: names or numbers of axes. Nothing is run.
"""

import ast
import functools
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from torch import nn

__all__ = ["counted", "definition_read", "lengths_said", "may_be_none", "measured", "patterns_said", "starred_part"]

_SEPARATOR: Final = r"(?:\s*[,×]\s*|\s+[xX]\s+|(?<=[A-Z0-9])x(?=[A-Z0-9]))"
_AXIS: Final = r"(?:[A-Za-z_][\w/*+ -]*?|\d+|\.\.\.)"
_SHAPE: Final = re.compile(rf"[(\[{{]\s*({_AXIS}(?:{_SEPARATOR}{_AXIS})+)\s*,?\s*[)\]}}]")
"""``(B, C, H, W)``, ``[batch, seq, dim]``, ``(N x C x H x W)``, ``{batch_size, length}``."""

_DATA_TYPE: Final = re.compile(r"(?:b?float|u?int|complex)(?:8|16|32|64|128)?|bool|long|double|half")
"""What stands behind the axes of ``Tensor[batch, points, 3, float32]``."""

_BARE: Final = re.compile(rf"\b([BN](?:{_SEPARATOR}(?:[A-Z]\w?|\d+)){{1,4}})\b")
"""``B, C, H, W`` or ``B x N x C`` without brackets."""

_AXES_ALONE: Final = re.compile(r"#+\s*(\w+(?:\s*\*\s*\w+)?(?:\s*,\s*(?:\w+(?:\s*\*\s*\w+)?)){1,4})\s*,?\s*$")
_USUAL_AXIS: Final = re.compile(r"b|bs|bsz|\w*batch\w*|n_?q|h|w|hw|dim|\w+_(?:dim|model|len|length|size)|num_\w+|[3-9]")
"""A comment that has nothing but axes, ``# nq, bs, d_model``, and what one of them is called at least."""

_PARAMETER: Final = re.compile(r"(?:def \w+\(\s*self\s*,\s*)?(\w+)\s*(?::[^=]*)?(?:=[^=]*)?,?\s*\)?\s*(?:->.*)?:?$")
"""A line that holds one parameter, or a definition's head with one."""

_OPTIONAL: Final = re.compile(r"=\s*None\s*,$")
"""How a parameter ends that may be left out, and no assignment."""

_NAMED_AXIS: Final = re.compile(r"[A-Z]\w?|\d+")
"""An axis as checks name it."""

_INPUT: Final = re.compile(
    r"(?:[Ss]hapes?\s+of\s+(?:the\s+)?inputs?\b|\b[Ii]nputs?\b[^.:\n]{0,30}\bshapes?\b|^\s*[-*]?\s*[Ii]nputs?:)"
    r"[^.\[(\n]{0,30}([\[(][^\])]*[\])])",
    re.MULTILINE,
)
"""A sentence about the shape of the input, or an entry: ``- Input: (N, C, L)``."""

_ENTRY: Final = re.compile(r"(\s*)(?:[-*]\s+|:param\s+)?[`*]{0,2}(\w+)[`*]{0,2}\s*(?::|\(|--|-\s)")
"""The beginning of what a docstring says of a parameter: ``x (Tensor)``, ``:param x:``, ``* **x** (Tensor) -``."""

_NAME_ALONE: Final = re.compile(r"(\s*)`{0,2}(\w+)`{0,2}\s*$")
"""The name of a parameter on a line of its own: what is said of it stands below, further in."""

_FORMULA: Final = re.compile(r":math:`([^`]*)`")
_OF_FORMULAS: Final = (
    (re.compile(r"\\times\b"), "×"),
    (re.compile(r"\\(?:mathcal|mathrm|text|mathbf|textrm)\b"), ""),
    (re.compile(r"\\(?:ldots|cdots|dots)\b"), "..."),
    (re.compile(r"_\{([^}]*)\}"), r"_\1"),
    (re.compile(r"[{}|\\$]"), ""),
)
"""What stands for a shape in a formula of LaTeX: ``N \\times C_{in}``."""

_ONE_AXIS: Final = re.compile(r"\(\s*((?:n|num)_\w+)\s*,?\s*\)")
"""A shape of one axis, called by how many of something there are: ``(n_edges,)``."""

_SUFFIX: Final = re.compile(r"_([A-Z](?:x[A-Z])+|[BN][A-Z]{1,4})$")
"""How some call their tensors: by their axes, as in `frames_BxLxM` and `scores_BLV`."""

_RETURNED: Final = re.compile(r"^\s*:?(?:Returns?(?: types?)?|Outputs?|Yields?)\s*:?\s*$", re.MULTILINE)
"""Behind this a docstring speaks of what comes out, which is called as what goes in as often as not."""

_COUNTED: Final = re.compile(r"(?<![\w.])1(?:\.0?)?\s*-\s*([A-Za-z_]\w*)\b(?!\s*[.(\[])")
"""What is taken from one."""

_PATTERN_FUNCTIONS: Final = frozenset({"rearrange", "reduce", "repeat", "einsum", "parse_shape"})
_MOST: Final = 3


def patterns_said(root: nn.Module | Callable[..., Any], names: list[str]) -> dict[str, list[str]]:
    """Return for each parameter that the source speaks of the patterns of its shape, the most telling first."""
    function: Any = inspect.unwrap(root.forward if isinstance(root, nn.Module) else root)
    found: dict[str, list[str]] = {}
    source, definition = _source(root), definition_read(root)
    if definition is None:
        return found
    only = _required(definition)
    for name, pattern in (
        *((name, " ".join(suffix[1].replace("x", ""))) for name in names if (suffix := _SUFFIX.search(name))),
        *_of_comments(source, names),
        *_of_docstring(inspect.getdoc(function) or "", names),
        *_of_code(definition, names),
        *(_of_docstring(inspect.getdoc(type(root)) or "", names) if isinstance(root, nn.Module) else ()),
        *_of_sentences(inspect.getdoc(function) or "", only),
        *(_of_sentences(inspect.getdoc(type(root)) or "", only) if isinstance(root, nn.Module) else ()),
    ):
        known = found.setdefault(name, [])
        if pattern not in known and len(known) < _MOST:
            known.append(pattern)
    for group in _permuted_alike(definition, names):
        told = next((found[name] for name in group if name in found), [])
        found.update({name: [*told] for name in group if told and name not in found})
    return found


def definition_read(root: nn.Module | Callable[..., Any]) -> ast.stmt | None:
    """Return the definition of a forward, None where it cannot be read. It is shared: nobody may change it."""
    return _parsed(_source(root))


@functools.lru_cache(maxsize=16)
def _parsed(source: str) -> ast.stmt | None:
    try:
        return ast.parse(source).body[0]
    except (SyntaxError, IndexError, ValueError):
        return None


def _permuted_alike(definition: ast.AST, names: Collection[str]) -> list[list[str]]:
    """Return the parameters whose dimensions are put into another order by the same calls, so that they have as many.

    Such are `src` and `pos` in `src.flatten(2).permute(2, 0, 1)` and `pos.flatten(2).permute(2, 0, 1)`.
    """
    groups: dict[str, list[str]] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "permute":
            inner: ast.expr = node
            while isinstance(inner, ast.Call | ast.Attribute):
                inner = inner.func if isinstance(inner, ast.Call) else inner.value
            if isinstance(inner, ast.Name) and inner.id in names:
                groups.setdefault(ast.unparse(node).removeprefix(inner.id), []).append(inner.id)
    return [group for group in groups.values() if len(group) > 1]


def counted(root: nn.Module | Callable[..., Any]) -> frozenset[str]:
    """Return the names of what the source takes from one, as in ``(1 - mask) * x``: numbers, and no flags."""
    return frozenset(_COUNTED.findall(_source(root)))


def lengths_said(root: nn.Module | Callable[..., Any], names: Collection[str]) -> frozenset[str]:
    """Return the parameters that steps are compared with: ``torch.arange(x.shape[1])[None] < lengths[:, None]``."""
    tree = definition_read(root)
    if tree is None:
        return frozenset()
    steps = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _counts_up(node.value, ())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], comparators=[right]):
                for one, other in ((left, right), (right, left)):
                    if _counts_up(one, steps) and isinstance(other, ast.Subscript | ast.Call):
                        found |= {each.id for each in ast.walk(other) if isinstance(each, ast.Name)}
            case _:
                pass
    return frozenset(found & set(names))


def _counts_up(expression: ast.expr, names: Collection[str]) -> bool:
    """Whether an expression is made of what `arange` makes, or of names that stand for that."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "arange")
        or (isinstance(each, ast.Name) and (each.id in names or each.id == "arange"))
        for each in ast.walk(expression)
    )


def may_be_none(root: nn.Module | Callable[..., Any], names: Collection[str]) -> frozenset[str]:
    """Return the parameters of which the source asks whether they are None."""
    tree = definition_read(root)
    if tree is None:
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ) if name in names:
                found.add(name)
            case _:
                pass
    return frozenset(found)


def _source(root: nn.Module | Callable[..., Any]) -> str:
    """Return the source of a forward, "" where there is none."""
    function: Any = inspect.unwrap(root.forward if isinstance(root, nn.Module) else root)
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError, IndexError):
        return ""


def _of_comments(source: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what comments say: behind a parameter, behind a line that begins with it, or ``# x: (B, C, H, W)``."""
    lines = source.splitlines()
    try:
        comments = [
            token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, IndentationError):
        return
    for comment in comments:
        code = lines[comment.start[0] - 1][: comment.start[1]].strip()
        shape = _shape_in(comment.string) or _axes_alone(comment.string)
        if not shape:
            continue
        subject = re.match(r"#+\s*`?(\w+)`?\s*(?::|=|\.shape|is|has|->|\()", comment.string)
        if subject and subject[1] in names:
            yield subject[1], shape
            continue
        parameter = _PARAMETER.match(code)
        if parameter and parameter[1] in names and (_OPTIONAL.search(code) or "=" not in code.partition(")")[0]):
            yield parameter[1], shape


def _of_docstring(text: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what the paragraphs of a docstring say that begin with a parameter: ``x (Tensor): ... (B, N, C)``."""
    lines = _FORMULA.sub(_without_formulas, _RETURNED.split(text)[0]).splitlines()
    for number, line in enumerate(lines):
        entry = _ENTRY.match(line) or _NAME_ALONE.match(line)
        if entry is None or entry[2] not in names:
            continue
        own = [line]
        for following in lines[number + 1 :]:
            if following.strip() and len(following) - len(following.lstrip()) <= len(entry[1]):
                break
            own.append(following)
        shape = _shape_in(" ".join(own).partition("(")[2] if "(" in line else " ".join(own)) or _shape_in(" ".join(own))
        if shape:
            yield entry[2], shape


def _without_formulas(formula: re.Match[str]) -> str:
    """Return what a formula says of a shape as people write it."""
    return functools.reduce(lambda text, each: each[0].sub(each[1], text), _OF_FORMULAS, formula[1])


def _of_sentences(text: str, required: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what is said of the input of those that take one: ``the shape of the input is [B, N, C, H, W]``."""
    match = _INPUT.search(text) if len(required) == 1 else None
    shape = _shape_in(match[1]) if match is not None else ""
    if shape:
        yield required[0], shape


def _required(definition: ast.AST) -> list[str]:
    """Return the names of the parameters that have no default, `self` apart."""
    if not isinstance(definition, ast.FunctionDef):
        return []
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = [each.arg for each in positional[: len(positional) - len(arguments.defaults)]]
    return [name for name in found if name != "self"]


def _of_code(definition: ast.AST, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what statements say: ``b, c, h, w = x.shape``, ``rearrange(x, "b c h w -> ...")``."""
    first = _first_assignments(definition)
    for node in ast.walk(definition):
        spoken = (*_summed(node, first), *_columns(node, first))
        yield from ((name, axes) for name, axes in spoken if name in names)
        name = _subject(node)
        if name not in names or getattr(node, "lineno", 0) > first.get(name, 1 << 30):
            continue
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if all(
                isinstance(each, ast.Name) for each in targets
            ):
                _, axes = starred_part(value, targets)
                yield name, " ".join(_axis(ast.unparse(each)) for each in axes)
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[_, *rest]) if (
                called in _PATTERN_FUNCTIONS
            ):
                pattern = rest[0] if rest else None
                if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str) and "..." not in pattern.value:
                    yield name, pattern.value.partition("->")[0].strip()
            case ast.BinOp(op=ast.Mult(), left=ast.Subscript() as one, right=ast.Subscript() as other) if (
                _added_axes(one) == "x." and _added_axes(other) == ".x"
            ):  # `x[:, None] * frequencies[None, :]`: each number with each.
                yield name, "b"
            case ast.Call(args=[_, ast.List(elts=axes)]) if axes and all(map(_is_axis, axes)):
                # A check of the shape: `check_shape(x, ["B", "C", "H", "W"])`.
                yield name, " ".join(ast.literal_eval(each) for each in axes)
            case _:
                pass


def _summed(node: ast.AST, first: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the names that an `einsum` is of, before they are assigned, with their axes."""
    match node:
        case ast.Call(func=ast.Name(id="einsum") | ast.Attribute(attr="einsum"), args=[ast.expr() as rule, *operands]):
            texts = [part.value for part in ast.walk(rule) if isinstance(part, ast.Constant)]
            terms = "".join(map(str, texts)).partition("->")[0].split(",")
            for term, operand in zip(terms, operands, strict=False):
                axes = term.split() if " " in term.strip() else list(term.strip())
                known = isinstance(operand, ast.Name) and node.lineno <= first.get(operand.id, node.lineno)
                if isinstance(operand, ast.Name) and known and len(axes) > 1 and all(map(str.isalpha, axes)):
                    yield operand.id, " ".join(axes)
        case _:
            pass


def _columns(node: ast.AST, first: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the name of a table whose columns are taken apart, before it is assigned: ``times, events = y.T``."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=columns)],
            value=ast.Attribute(value=ast.Name(id=name), attr="T")
            | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="t"), args=[]),
        ) if node.lineno <= first.get(name, node.lineno) and not any(isinstance(each, ast.Starred) for each in columns):
            yield name, f"b {len(columns)}"
        case _:
            pass


def _added_axes(node: ast.Subscript) -> str:
    """Return which axes an index leaves and adds: `x[:, None]` is "x.", `x[None, :]` and `x[None]` are ".x"."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice, ast.Slice()]
    kinds = {"Constant": ".", "Slice": "x"}
    return "".join(kinds.get(type(part).__name__, "?") for part in parts)


def _is_axis(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMED_AXIS.fullmatch(node.value) is not None
    )


def _first_assignments(definition: ast.AST) -> dict[str, int]:
    """Return for each name the line where it is assigned first: what is said of it later is of another value."""
    first: dict[str, int] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    return first


def _subject(node: ast.AST) -> str:
    """Return the name that a statement unpacks the shape of, or that a call is about."""
    match node:
        case ast.Assign(value=value):
            return measured(starred_part(value, [])[0])
        case ast.Call(args=[ast.Name(id=name), *_]):
            return name
        case ast.BinOp(left=ast.Subscript(value=ast.Name(id=name))):
            return name
        case _:
            return ""


def starred_part(value: ast.expr, targets: list[ast.expr]) -> tuple[ast.expr, list[ast.expr]]:
    """Return what is unpacked beside other values, with its targets: `x.shape` of `b, n, h = *x.shape, self.heads`.

    Args:
        value: What is assigned; returned as it is, if there is nothing beside it.
        targets: What it is assigned to.
    """
    items = value.elts if isinstance(value, ast.Tuple) else []
    starred = [(index, each.value) for index, each in enumerate(items) if isinstance(each, ast.Starred)]
    if len(starred) != 1:
        return value, targets
    index, whole = starred[0]
    return whole, targets[index : len(targets) - (len(items) - 1 - index)]


def measured(value: ast.expr) -> str:
    """Return the name whose shape an expression is: ``x.shape`` or ``x.size()``."""
    match value:
        case ast.Attribute(value=ast.Name(id=name), attr="shape"):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[]):
            return name
        case _:
            return ""


def _shape_in(text: str) -> str:
    """Return the first shape in a text as a pattern, "" where there is none."""
    match = _SHAPE.search(text) or _BARE.search(text)
    if match is None:
        alone = _ONE_AXIS.search(text)
        return alone[1] if alone is not None else ""
    axes = [axis.strip() for axis in re.split(_SEPARATOR, match[1])]
    if _DATA_TYPE.fullmatch(axes[-1]):
        axes.pop()
    if "..." in axes or not all(axes) or len(axes) > 7 or any(len(axis.split()) > 3 for axis in axes):
        return ""
    first = axes[0].lower()
    if axes[0].isdigit() or not re.match(r"b|n|t|l|s|num|len|seq|c|h|\*", first):
        return ""
    return " ".join(map(_axis, axes))


def _axes_alone(comment: str) -> str:
    """Return the pattern of a comment that has nothing but axes, "" for any other."""
    match = _AXES_ALONE.match(comment)
    axes = [each.strip() for each in match[1].split(",")] if match is not None else []
    return " ".join(map(_axis, axes)) if any(map(_USUAL_AXIS.fullmatch, axes)) else ""


def _axis(axis: str) -> str:
    """Return an axis as one word; what is computed (``H*W``, ``num_patches + 1``) stands for its first name."""
    if axis.isdigit():
        return axis
    words = re.findall(r"[A-Za-z_]\w*", axis)
    if not words:
        return "n"
    if len(words) > 1 and "*" in axis:
        return "(" + " ".join(words) + ")"
    return "_".join(words)
