"""What generated code says for people: where nodes come from, the shapes of values, and colours.

None of this is needed to run the code; ``print_readable`` asks for it.
"""

import itertools
import pprint
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fxengine.arguments import SYMBOLIC_NUMBERS
from fxengine.names import dtype_abbreviation
from fxengine.node import Node

_FRAME: Final = re.compile(r"^File \"(.+)\", line (\d+), in (.+)$")
_LONGEST_ANNOTATION: Final = 40


def _color(code: str) -> Callable[[str], str]:
    return lambda text: f"{code}{text}\033[0m"


_color_codes: Final = {
    "yellow": "\033[33m",
    "cyan": "\033[36m",
    "green": "\033[32m",
    "blue": "\033[34m",
    "red": "\033[31m",
    "dim": "\033[2m",
    "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
}
_color_fns: Final[dict[str, Callable[[str], str]]] = {name: _color(code) for name, code in _color_codes.items()}


@dataclass(frozen=True, slots=True)
class _ParsedStackTrace:
    """One frame out of the text of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        """Return the frame on one line."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(
    stack_trace: str | None, filter_fn: Callable[[str, str, str], bool] | None = None
) -> _ParsedStackTrace | None:
    """Return the innermost frame of a stack trace's text for which ``filter_fn(file, name, code)`` holds, if any."""
    if stack_trace is None:
        return None
    lines = [line.strip() for line in stack_trace.strip().split("\n")]
    for line, code in reversed(list(itertools.pairwise(lines))):
        match = _FRAME.match(line)
        if match is None:
            continue
        file, lineno, name = match.groups()
        if filter_fn is None or filter_fn(file, name, code):
            return _ParsedStackTrace(file, lineno, name, code)
    return None


@dataclass(frozen=True, slots=True)
class Commentary:
    """What to say, and how.

    Attributes:
        verbose: Say where nodes come from and annotate values with their shapes.
        include_stride: Say strides too.
        include_device: Say devices too.
        colored: Colour with terminal codes.
        include_meta: Print each node's ``meta`` before it.
        additional_meta: Entries of ``meta`` to say beside a node's origin.
        sym_repr: Writes symbolic numbers.
    """

    verbose: bool = False
    include_stride: bool = False
    include_device: bool = False
    colored: bool = False
    include_meta: bool = False
    additional_meta: Sequence[str] = ()
    sym_repr: Callable[[Any], str] = repr

    def paint(self, color: str, text: str) -> str:
        """Return ``text`` in ``color``, if colours are wanted."""
        return _color_fns[color](text) if self.colored else text

    def summary(self, node: Node) -> str:
        """Return the comment that says where ``node`` comes from, between line ends; nothing for inputs and outputs."""
        if node._op in {"placeholder", "output"}:
            return ""
        meta = node.meta
        additional = ", ".join(f"{key}: {meta[key]}" for key in self.additional_meta if key in meta)
        source = "No stacktrace found for following nodes"
        if node.stack_trace and (frame := _parse_stack_trace(node.stack_trace)) is not None:
            source = frame.get_summary_str()
        text = f"{f'# {additional} ' if additional else ''}#{_annotation(meta)}{_recomputation(meta)} {source}"
        return f"\n{self.paint('dim', text)}\n"

    def meta_dump(self, node: Node) -> str:
        """Return the node's ``meta`` as a string statement of several lines, if that is wanted."""
        if not self.include_meta or not node.meta:
            return ""
        entries = "".join(
            f"{key}: {pprint.pformat(str(value), width=80, compact=True)}\n" for key, value in node.meta.items()
        )
        return f'"""\n{entries}"""\n'

    def annotation(self, node: Node, otherwise: str) -> str:
        """Return the annotation that says dtype and shape of the node's value; ``otherwise`` if they are not known."""
        meta = node.meta
        value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if value is None:
            value = node.tensor
        if isinstance(value, torch.Tensor):
            if value.layout in {torch.sparse_csc, torch.sparse_csr}:
                return otherwise
            return f': "{self._tensor(value)}"'
        if isinstance(value, SYMBOLIC_NUMBERS):
            return f': "Sym({self.sym_repr(value)})"'
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
        if isinstance(dtype, torch.dtype) and shape is not None:  # Facts without a tensor.
            return f': "{dtype_abbreviation(dtype)}{_list(shape)}"'
        return otherwise

    def _tensor(self, tensor: torch.Tensor) -> str:
        stride = _list(tensor.stride()) if self.include_stride else ""
        device = str(tensor.device) if self.include_device else ""
        facts = (
            self.paint("red", dtype_abbreviation(tensor.dtype))
            + self.paint("blue", _list(tensor.shape))
            + self.paint("dim_blue", stride)
            + self.paint("dim_green", device)
        )
        kind = type(tensor)
        if kind is torch.Tensor or isinstance(tensor, FakeTensor):
            return facts
        placements = _placements(tensor)
        if placements is not None:
            return f"{kind.__name__}({facts}, {self.paint('dim_green', placements)})"
        return f"{kind.__name__}({facts})"


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(str(item) for item in items)}]"


def _placements(tensor: torch.Tensor) -> str | None:
    """Return how a distributed tensor lies on its devices; None for any other."""
    distributed = sys.modules.get("torch.distributed.tensor._api")
    if distributed is None or type(tensor) is not distributed.DTensor:
        return None
    specification: Any = getattr(tensor, "_spec", None)
    return distributed.DTensorSpec.format_shard_order_str(specification.placements, specification.shard_order)


def _annotation(meta: dict[str, Any]) -> str:
    custom: dict[Any, Any] = meta.get("custom") or {}
    if not custom:
        return ""
    cut = {
        key: f"{str(value)[:_LONGEST_ANNOTATION]}..." if len(str(value)) > _LONGEST_ANNOTATION else value
        for key, value in custom.items()
    }
    return f" Annotation: {cut}"


def _recomputation(meta: dict[str, Any]) -> str:
    """Return the tags with which activation checkpointing marks what is computed again in the backward pass."""
    recompute, graph_id = meta.get("recompute"), meta.get("ac_graph_id")
    if recompute is not None and graph_id is not None:
        return f" ac_graph_id: {graph_id} - {recompute.name}"
    if recompute is not None:
        return f" recompute: {recompute.name}"
    return f" ac_graph_id: {graph_id}" if graph_id is not None else ""
