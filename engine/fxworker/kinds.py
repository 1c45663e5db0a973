"""What is taken for one value and is none: all that a layer returns, a part of the model, a method that is not called.

That is wrong with any inputs, and with any arguments of the model, as far as it follows from what is called alone.
"""

import operator
import re
from dataclasses import dataclass
from types import BuiltinMethodType, MethodType
from typing import Any, Final, TypeAlias

from torch import nn

from fxengine.advice import on_one_line
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.provenance import written
from fxengine.source import SourceFrame

_OF_KINDS: Final = (AttributeError, IndexError, NotImplementedError, TypeError)
"""What is raised of a value that is of another kind."""

_WRONG_CALL: Final = re.compile(r"\.forward\(\) (?:missing \d+ required|takes .*positional arguments? but)")
_CONTAINERS: Final = (nn.ModuleList, nn.ModuleDict)
_ITEM: Final = "getitem"
_ATTRIBUTE: Final = "getattr"

_Layers: TypeAlias = tuple[type[nn.Module], ...]
_RETURNED: Final[tuple[tuple[_Layers, str], ...]] = (
    ((nn.LSTM,), "the output and the states `(h, c)`"),
    ((nn.RNNBase,), "the output and the last state"),
    ((nn.LSTMCell,), "the states `(h, c)`"),
    ((nn.MultiheadAttention,), "the output and the weights"),
)
"""What layers return that never return one value."""

_OF_FUNCTIONS: Final = "values and indices"
_SEVERAL: Final = "several values"


@dataclass(frozen=True, slots=True)
class Mistaken:
    """What is taken for one value.

    Attributes:
        message: What is told of it.
        frame: Where it comes from, None where that is the place of the failure itself.
        certain: Whether it is none with any arguments of the model.
    """

    message: str
    frame: SourceFrame | None = None
    certain: bool = True


def mistaken(failure: ShapeFailure, root: Any) -> Mistaken | None:
    """Return what a node takes for a value that is none, as the reason for which it fails; None where it is another."""
    node, error = failure.node, failure.error
    if not isinstance(root, nn.Module) or failure.needs_data or _frame(node) is None:
        return None
    if isinstance(error, ValueError):
        return _of_states(node, root)
    if not isinstance(error, _OF_KINDS):
        return None
    shown = on_one_line(written(node))
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        if isinstance(module, _CONTAINERS) and isinstance(error, NotImplementedError):
            kind = type(module).__name__
            return Mistaken(f"`{_called(shown)}` is an `nn.{kind}`, which computes nothing itself: call its parts")
        if _WRONG_CALL.search(str(error)):
            return Mistaken(f"`{shown}` is called otherwise than it can be: {str(error).partition('() ')[2]}")
    for each in node.all_input_nodes:
        found = _of_input(each, node, shown, root)
        if found is not None:
            return found
    return None


def _of_input(source: Node, node: Node, shown: str, root: nn.Module) -> Mistaken | None:
    """Return what a node is given as one of its inputs, if that is no single value."""
    kind, text = source.meta.get("type"), on_one_line(written(source))
    if not isinstance(kind, type):
        return None
    if source.op == "get_attr" and issubclass(kind, nn.Module):
        part = next((each for each in str(source.target).split(".")[::-1] if not each.isdigit()), "")
        return Mistaken(f"`{shown}` is given the part `self.{part}` itself, and not what it makes of a value: call it")
    if _name(source) == _ATTRIBUTE and issubclass(kind, BuiltinMethodType | MethodType):
        return Mistaken(f"`{shown}` is given the method `{text}` itself: call it, `{text}(…)`", _frame(source))
    if not issubclass(kind, tuple | list) or not source.op.startswith("call") or _name(source) == _ATTRIBUTE:
        return None
    returned, certain = _returned(source, kind, root)
    if _name(node) == _ITEM and type(node.args[1]) is int:
        return Mistaken(f"`{text}` returns {returned}, and is taken apart into more values", _frame(source), certain)
    taker = f"`{shown}`" if shown != text else "the next call"
    taken = f"`{text}` returns {returned}, and {taker} takes them for one value"
    return Mistaken(f"{taken}: say which, as `{text}[0]`", _frame(source), certain)


def _returned(source: Node, kind: type, root: nn.Module) -> tuple[str, bool]:
    """Return what a call returns that is several values, and whether it does so with any arguments of the model."""
    if source.op != "call_module":
        is_pair = kind.__module__ == "torch.return_types" and {"values", "indices"} <= {*dir(kind)}
        return (_OF_FUNCTIONS if is_pair else _SEVERAL), True
    module = root.get_submodule(str(source.target))
    return next(((said, True) for layers, said in _RETURNED if isinstance(module, layers)), (_SEVERAL, False))


def _of_states(node: Node, root: nn.Module) -> Mistaken | None:
    """Return that the state of a layer is taken apart that has but one, as only that of an LSTM can be."""
    state = node.args[0] if _name(node) == _ITEM else None
    if not isinstance(state, Node) or _name(state) != _ITEM or state.args[1] != 1:
        return None
    layer = state.args[0]
    module = root.get_submodule(str(layer.target)) if isinstance(layer, Node) and layer.op == "call_module" else None
    if not isinstance(module, nn.GRU | nn.RNN) or not isinstance(layer, Node):
        return None
    kind = f"nn.{type(module).__name__}"
    said = f"`{on_one_line(written(layer))}` returns {_returned(layer, tuple, root)[0]}"
    return Mistaken(f"{said}: an `{kind}` has no states `(h, c)`", _frame(layer), certain=False)


def _called(text: str) -> str:
    return text.partition("(")[0]


def _name(node: Node) -> str:
    """Return the name of the function that a node calls, "" where it calls none."""
    if node.op != "call_function":
        return ""
    return _ITEM if node.target is operator.getitem else str(getattr(node.target, "__name__", ""))


def _frame(node: Node) -> SourceFrame | None:
    """Return where in the user's code a node was made."""
    return node.origin.frames[-1] if node.origin is not None and node.origin.frames else None
