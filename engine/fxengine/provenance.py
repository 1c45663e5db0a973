"""How a symbolic value came to be: the way from an input to it, and whether the data flowing in could change it.

A value is *metadata* if it follows from shapes, dtypes and devices alone: with an example input it is known before any
data flows. It is *data-dependent* if it follows from what tensors hold.
"""

import ast
import builtins
import math
import operator
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import torch

from fxengine.node import Node
from fxengine.proxy import Attribute, Proxy
from fxengine.source import SourceFrame, frame_at

Kind = Literal["metadata", "data-dependent", ""]
"""What a value follows from; empty if that cannot be told, as of an argument that may be a flag or a tensor."""

METADATA_ATTRIBUTES: Final = frozenset(
    {
        "device",
        "dtype",
        "is_complex",
        "is_cpu",
        "is_cuda",
        "is_floating_point",
        "is_meta",
        "is_nested",
        "is_quantized",
        "is_sparse",
        "itemsize",
        "layout",
        "names",
        "nbytes",
        "ndim",
        "requires_grad",
        "shape",
        "training",
    }
)
METADATA_METHODS: Final = frozenset(
    {
        "__len__",
        "dim",
        "element_size",
        "get_device",
        "is_complex",
        "is_contiguous",
        "is_floating_point",
        "is_inference",
        "is_signed",
        "ndimension",
        "nelement",
        "numel",
        "size",
        "storage_offset",
        "stride",
    }
)
_COUNTING: Final = frozenset({"argwhere", "bincount", "masked_select", "nonzero", "unique", "unique_consecutive"})
"""Operations whose results are as long as the data say."""
_SIZES: Final = frozenset({"__len__", "len", "nelement", "numel", "shape", "size"})
"""How a value is asked for its sizes."""
_COMPARING: Final = frozenset(
    {
        *("and", "eq", "ge", "gt", "inv", "invert", "isclose", "isfinite", "isin", "isinf", "isnan", "le"),
        *("logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "or", "xor"),
    }
)
"""Operations that give masks."""
_CONTAINER_METHODS: Final = frozenset({"items", "keys", "values"})
_METADATA_FUNCTIONS: Final = frozenset(
    {
        torch.is_complex,
        torch.is_floating_point,
        torch.numel,
        len,
        isinstance,
        hasattr,
        type,
    }
)
_PURE_FUNCTIONS: Final = frozenset(
    id(value) for module in (operator, math, builtins) for value in vars(module).values() if callable(value)
)
"""The functions that only combine numbers and containers, by identity: a trace puts others in their places."""


@dataclass(frozen=True, slots=True)
class Step:
    """One node on the way from an input to a value, where it is in the source, and how it reads there."""

    node: Node | None
    frame: SourceFrame | None
    text: str


def way_to(value: Proxy | Node | None) -> tuple[Step, ...]:
    """The shortest way from an input to a value, from a parameter or buffer if no input leads there, input first.

    The last step has no node if none was made of the value, an attribute that was only read.
    """
    if isinstance(value, Attribute) and value._node is None:
        *before, last = way_to(value.root)
        frame = frame_at(*value._read_at) if value._read_at is not None else None
        return (*before, last, Step(None, frame, f"{operand(last.text)}.{value.attr}"))
    node = value.node if isinstance(value, Proxy) else value
    return () if node is None else _way_to_node(node)


def written(node: Node) -> str:
    """How a node's value reads in the source: an input or an unpacked item by its name, else as an expression."""
    return _step(node).text


def _way_to_node(node: Node) -> tuple[Step, ...]:
    previous: dict[Node, Node | None] = {node: None}
    queue = deque([node])
    source: Node | None = None
    while queue:
        current = queue.popleft()
        if current.op == "placeholder":
            source = current
            break
        if source is None and not current.all_input_nodes:
            source = current
        for used in current.all_input_nodes:
            if used not in previous:
                previous[used] = current
                queue.append(used)
    steps: list[Step] = []
    at = source or node
    while at is not None:
        step = _step(at)
        # What one expression does in several nodes is one step.
        if steps and (steps[-1].frame, steps[-1].text) == (step.frame, step.text):
            steps.pop()
        steps.append(step)
        at = previous[at]
    return tuple(steps)


def kind_of(value: Proxy | Node | None) -> Kind:
    """What a value follows from."""
    if isinstance(value, Attribute) and value._node is None:
        return "metadata" if value.attr in METADATA_ATTRIBUTES else kind_of(value.root)
    node = value.node if isinstance(value, Proxy) else value
    return "" if node is None else _kind_of_node(node)


def kind_of_length(value: Proxy | Node | None) -> Kind:
    """What a value's length, or the number of its items, follows from: it is a size, unless data decide how many."""
    kind = kind_of(value)
    return "metadata" if kind == "data-dependent" and not _is_sized_by_data(value) else kind


def is_size_of_data(value: Proxy | Node | None) -> bool:
    """Whether a value is a size that follows from what tensors hold, as `x.nonzero().shape[0]` does.

    It is the first size, or all of them together, that counts what fulfils a condition.
    """
    if isinstance(value, Attribute) and value._node is None:
        return value.attr in _SIZES and _is_sized_by_data(value.root)
    node = value.node if isinstance(value, Proxy) else value
    pending, seen = [] if node is None else [node], set[Node]()
    while pending:
        current = pending.pop()
        if current in seen or _is_later_size(current):
            continue
        seen.add(current)
        if _own_kind(current) is None:
            pending.extend(current.all_input_nodes)
        elif _name(current) in _SIZES and any(map(_is_sized_by_data, current.all_input_nodes)):
            return True
    return False


def _is_later_size(node: Node) -> bool:
    """Whether a node is one size of a value, and not the first: `x.shape[1]`, `x.size(-1)`."""
    index = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if _name(node) not in {"getitem", "__getitem__", "size"} or not isinstance(index, int) or index == 0:
        return False
    owner = node.args[0] if node.args else None
    return _name(node) == "size" or (isinstance(owner, Node) and _name(owner) in _SIZES)


def _name(node: Node) -> str:
    """Return the name of what a node calls or reads."""
    if node.target is getattr:
        return str(node.args[1])
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def _is_sized_by_data(value: Proxy | Node | None) -> bool:
    """Whether the shape of a value follows from what tensors hold, as that of `x.nonzero()` and `x[x > 0]` does."""
    while isinstance(value, Attribute) and value._node is None:
        value = value.root
    node = value.node if isinstance(value, Proxy) else value
    pending, seen = [] if node is None else [node], set[Node]()
    while pending:
        current = pending.pop()
        if current in seen or _own_kind(current) == "metadata":
            continue
        seen.add(current)
        if _counts_what_holds(current):
            return True
        pending.extend(current.all_input_nodes)
    return False


def _counts_what_holds(node: Node) -> bool:
    """Whether an operation gives as many items as fulfil a condition."""
    name = _name(node)
    if name in {"getitem", "__getitem__"}:
        index = node.args[1] if len(node.args) > 1 else None
        return any(_is_mask(each) for each in (index if isinstance(index, tuple) else (index,)))
    return name in _COUNTING or (name == "where" and len(node.args) + len(node.kwargs) == 1)


def _is_mask(index: Any) -> bool:
    """Whether an index is the outcome of a comparison."""
    if not isinstance(index, Node):
        return False
    return _name(index).strip("_") in _COMPARING and _own_kind(index) != "metadata"


def _kind_of_node(node: Node) -> Kind:
    found: set[str] = set()
    seen: set[Node] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        own = _own_kind(current)
        if own is None:
            pending.extend(current.all_input_nodes)
        else:
            found.add(own)
    if "data-dependent" in found:
        return "data-dependent"
    return "metadata" if found == {"metadata"} else ""


def _own_kind(node: Node) -> Kind | None:
    """What a node's value follows from whatever its inputs do; None if that is for its inputs to say."""
    match node.op:
        case "placeholder":
            return "data-dependent" if _is_used_as_tensor(node) else ""
        case "call_method":
            if node.target in _CONTAINER_METHODS:
                return None
            return "metadata" if node.target in METADATA_METHODS else "data-dependent"
        case "call_function":
            if node.target is getattr:
                return _kind_of_attribute(node)
            assert callable(node.target)
            if node.target in _METADATA_FUNCTIONS:
                return "metadata"
            return None if _is_pure(node.target) else "data-dependent"
        case _:
            return "data-dependent"


def _kind_of_attribute(node: Node) -> Kind:
    """What an attribute follows from: `x.device` and `x.device.type` are metadata, `x.T` is data."""
    owner, name = node.args
    if name in METADATA_ATTRIBUTES:
        return "metadata"
    is_attribute = isinstance(owner, Node) and owner.target is getattr
    return _kind_of_attribute(owner) if isinstance(owner, Node) and is_attribute else "data-dependent"


def _is_used_as_tensor(node: Node) -> bool:
    """Whether an input is annotated as a tensor, or a module, torch or a tensor's metadata is asked for with it."""
    if node.type is not None:
        return isinstance(node.type, type) and issubclass(node.type, torch.Tensor)
    return any(
        user.op in {"call_module", "call_method"}
        or (user.target is getattr and user.args[1] in METADATA_ATTRIBUTES)
        or (user.op == "call_function" and callable(user.target) and not _is_pure(user.target))
        for user in node.users
    )


def _is_pure(function: Callable[..., Any]) -> bool:
    """Whether a function only combines numbers and containers: an operator, or one of `math` or `builtins`."""
    return id(function) in _PURE_FUNCTIONS


def _step(node: Node) -> Step:
    origin = node.origin
    frame = origin.frames[-1] if origin is not None and origin.frames else None
    if node.op == "placeholder":
        return Step(node, frame, str(node.target))
    return Step(node, frame, _text(node, frame))


@lru_cache(maxsize=1024)
def operand(expression: str) -> str:
    """An expression so that an attribute or an item of it can be written after it."""
    if not expression:
        return ""
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError:  # It was shortened.
        return f"({expression})"
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.List)
    # Brackets around a tuple belong to it, those around anything else do not.
    enclosed = node.col_offset > 0 or (isinstance(node, ast.Tuple) and expression.startswith("("))
    return expression if simple or enclosed else f"({expression})"


def _text(node: Node, frame: SourceFrame | None) -> str:
    """How the node's expression reads; of a target that is unpacked into, its own name."""
    text = " ".join(frame.text.split()) if frame is not None else ""
    if node.target is operator.getitem and isinstance(node.args[1], int):
        targets = _unpacked(text)
        return targets[node.args[1]] if -len(targets) <= node.args[1] < len(targets) else text
    return text or node.name


@lru_cache(maxsize=1024)
def _unpacked(text: str) -> tuple[str, ...]:
    """The targets that a value is unpacked into; none where the text is another one."""
    try:
        parsed = ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return ()
    match parsed:
        case ast.Tuple(elts=elements) if all(
            isinstance(e, ast.Name | ast.Tuple | ast.Attribute | ast.Subscript) for e in elements
        ):
            return tuple(map(ast.unparse, elements))
        case _:
            return ()
