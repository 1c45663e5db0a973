"""What is taken for one value and is none: all that a layer returns, a part of the model, a method that is not called.

That is wrong with any inputs, and with any arguments of the model, as far as it follows from what is called alone.
"""

import ast
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import BuiltinMethodType, MethodType
from typing import Any, Final, TypeAlias

from torch import nn

from fxengine.advice import on_one_line
from fxengine.called import called_module
from fxengine.capturing.dimensions import frame_of
from fxengine.classification import Moment
from fxengine.errors import text_of
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.provenance import written
from fxengine.proxy import Proxy
from fxengine.source import SourceFrame
from fxengine.syntax import definition_of, nodes_around, span_of
from fxworker.wire import SlipKind

_OF_KINDS: Final = (AttributeError, IndexError, NotImplementedError, TypeError)
"""What is raised of a value that is of another kind."""

_WRONG_CALL: Final = re.compile(r"\.forward\(\) (?:missing \d+ required|takes .*positional arguments? but)")
_CONTAINERS: Final = (nn.ModuleList, nn.ModuleDict)
_ITEM: Final = "getitem"
_ATTRIBUTE: Final = "getattr"

_OUTPUTS: Final = "the output and the states `(h, c)`"
_STATES: Final = "the states `(h, c)`"

_Layers: TypeAlias = tuple[type[nn.Module], ...]
_RETURNED: Final[tuple[tuple[_Layers, str], ...]] = (
    ((nn.LSTM,), _OUTPUTS),
    ((nn.RNNBase,), "the output and the last state"),
    ((nn.LSTMCell,), _STATES),
    ((nn.MultiheadAttention,), "the output and the weights"),
)
"""What layers return that never return one value."""

_GIVEN_A_PART: Final = "`{}` is given the part `{}` itself, and not what it makes of a value: call it"
_NOT_TENSOR: Final = re.compile(r"must be Tensor, not (?:immutable_)?(?:tuple|list)\b")
_NOT_CALLABLE: Final = "'list' object is not callable"
_KIND_OF_SEVERAL: Final = re.compile(r"\b(?:tuple|list|sequence)\b")
_OF_FUNCTIONS: Final = "values and indices"
_SEVERAL: Final = "several values"


@dataclass(frozen=True, slots=True)
class Mistaken:
    """What is taken for one value.

    Attributes:
        message: What is told of it.
        frame: Where it comes from, None where that is the place of the failure itself.
        certain: Whether it is none with any arguments of the model.
        kind: What is probably meant, None where nobody knows.
        name: The part or the container that it is, "" where it is neither.
    """

    message: str
    frame: SourceFrame | None = None
    certain: bool = True
    kind: SlipKind | None = None
    name: str = ""


def mistaken(failure: ShapeFailure, root: Any) -> Mistaken | None:
    """Return what a node takes for a value that is none, as the reason for which it fails; None where it is another."""
    node, error = failure.node, failure.error
    if not isinstance(root, nn.Module) or failure.needs_data or frame_of(node) is None:
        return None
    if isinstance(error, ValueError):
        return _of_states(node, root)
    if not isinstance(error, _OF_KINDS):
        return None
    shown = on_one_line(written(node))
    module = called_module(node, root)
    if module is not None:
        if isinstance(module, _CONTAINERS) and isinstance(error, NotImplementedError):
            kind = type(module).__name__
            name = shown.partition("(")[0]
            message = f"`{name}` is an `nn.{kind}`, which computes nothing itself: call its parts"
            return Mistaken(message, kind="container", name=name)
        if _WRONG_CALL.search(str(error)):
            said = str(error).partition("() ")[2]
            # What stands in for a part that is handed in may be called with anything.
            is_layer = type(module).__module__.startswith(nn.__name__) and not isinstance(module, nn.Identity)
            certain = is_layer and not node.args and not node.kwargs
            return Mistaken(f"`{shown}` is called otherwise than it can be: {said}", certain=certain)
    inputs = (_of_input(each, node, shown, root) for each in node.all_input_nodes)
    return next(filter(None, inputs), None) or _of_tuple(node, shown, str(error))


def mistaken_operand(error: BaseException, moment: Moment) -> Mistaken | None:
    """Return what an expression takes for a value that is none, as the reason for what it has raised in a moment."""
    around = nodes_around(moment.path, moment.source.span)[::-1] if isinstance(error, TypeError) else ()
    if not around:
        return None
    text = text_of(error)
    shown = on_one_line(moment.source.text)
    held = _called_list(around[0], moment) if text == _NOT_CALLABLE else ""
    if held:
        said = "whose parameters the model does not have either"
        message = (
            f"`{held}` is a list of modules, which computes nothing itself, and {said}: make it an `nn.Sequential`"
        )
        return Mistaken(message, kind="container", name=held)
    for each in _operands(around[0]):
        value, name = _value(each, moment), ast.unparse(each)
        if isinstance(value, nn.Module) and re.search(rf"\b{re.escape(type(value).__name__)}\b", text):
            return Mistaken(_GIVEN_A_PART.format(shown, name), kind="part", name=name)
        several: Any = value if type(value) in {tuple, list} else ()
        if any(isinstance(item, Proxy) for item in several) and _KIND_OF_SEVERAL.search(text):
            said = f"`{name}` is a {type(value).__name__} of {len(several)}, and `{shown}` takes it for one value"
            return Mistaken(f"{said}: say which of its values", _assigned(name, moment), kind="several")
    return None


def _called_list(node: ast.AST, moment: Moment) -> str:
    """Return the attribute of a module that is called and is a list of modules; "" where it is none such."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
            module = moment.value_of(owner)
            held: Any = vars(module).get(name) if isinstance(module, nn.Module) else None
            is_list = type(held) is list and bool(held) and all(isinstance(each, nn.Module) for each in held)
            return f"{owner}.{name}" if is_list else ""
        case _:
            return ""


def _operands(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names and attributes that a call or an operation is given, and those in a list that it is given."""
    match node:
        case ast.Call(args=args, keywords=keywords):
            given = [*args, *(each.value for each in keywords)]
        case ast.BinOp(left=left, right=right):
            given = [left, right]
        case _:
            given = []
    for each in given:
        parts = each.elts if isinstance(each, ast.List | ast.Tuple) else [each]
        yield from (part for part in parts if isinstance(part, ast.Name | ast.Attribute))


def _value(node: ast.expr, moment: Moment) -> Any:
    """Return what a name, or a part of a module, was in a moment; None where that is not known."""
    match node:
        case ast.Name(id=name):
            return moment.value_of(name)
        case ast.Attribute(value=value, attr=name):
            owner = _value(value, moment)
            return vars(owner).get("_modules", {}).get(name) if isinstance(owner, nn.Module) else None
        case _:
            return None


def _assigned(name: str, moment: Moment) -> SourceFrame | None:
    """Return the call whose result a name got last in the function of a moment, None where there is none."""
    code = moment.frame.f_code
    function = definition_of(moment.path, code.co_firstlineno, code.co_name)
    calls = [
        each.value
        for each in (ast.walk(function) if function is not None else ())
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and each.lineno < moment.source.line
        if any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
    ]
    last = span_of(calls[-1]) if calls else None
    if last is None:
        return None
    return SourceFrame(moment.path, code.co_name, last.line, last.column, last.end_line, last.end_column)


def _of_tuple(node: Node, shown: str, text: str) -> Mistaken | None:
    """Return that a node is given several values of the graph in one, which is no literal."""
    if not _NOT_TENSOR.search(text) or not _is_given_a_name(shown):
        return None
    several = [each for each in node.args if isinstance(each, tuple | list) and any(isinstance(n, Node) for n in each)]
    if not several:
        return None
    return Mistaken(f"`{shown}` is given {len(several[0])} values and takes one: say which of them", certain=False)


def _is_given_a_name(shown: str) -> bool:
    """Whether an expression is a call that is given no list or tuple by its own text."""
    try:
        call = ast.parse(shown, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(call, ast.Call) and not any(isinstance(each, ast.List | ast.Tuple) for each in call.args)


def _of_input(source: Node, node: Node, shown: str, root: nn.Module) -> Mistaken | None:
    """Return what a node is given as one of its inputs, if that is no single value."""
    kind, text = source.meta.get("type"), on_one_line(written(source))
    if not isinstance(kind, type):
        return None
    if source.op == "get_attr" and issubclass(kind, nn.Module):
        part = next((each for each in str(source.target).split(".")[::-1] if not each.isdigit()), "")
        name = f"self.{part}"
        return Mistaken(_GIVEN_A_PART.format(shown, name), kind="part", name=name)
    if _name(source) == _ATTRIBUTE and issubclass(kind, BuiltinMethodType | MethodType):
        message = f"`{shown}` is given the method `{text}` itself: call it, `{text}(…)`"
        return Mistaken(message, frame_of(source), kind="method")
    if not issubclass(kind, tuple | list) or not source.op.startswith("call") or _name(source) == _ATTRIBUTE:
        return None
    if _is_given(source):
        # It is an input, or a part of one, which others may be of another kind.
        return None
    returned, certain = _returned(source, kind, root)
    if _name(node) == _ITEM and type(node.args[1]) is int:
        message = f"`{text}` returns {returned}, and is taken apart into more values"
        return Mistaken(message, frame_of(source), certain, "outputs" if returned == _OUTPUTS else None)
    taker = f"`{shown}`" if shown != text else "the next call"
    taken = f"`{text}` returns {returned}, and {taker} takes them for one value"
    return Mistaken(
        f"{taken}: say which, as `{text}[0]`", frame_of(source), certain, "states" if returned == _STATES else "several"
    )


def _is_given(node: Node) -> bool:
    """Whether a node takes a part out of an input."""
    owner: Any = node
    while isinstance(owner, Node) and _name(owner) == _ITEM:
        owner = owner.args[0]
    return isinstance(owner, Node) and owner.op == "placeholder"


def _returned(source: Node, kind: type, root: nn.Module) -> tuple[str, bool]:
    """Return what a call returns that is several values, and whether it does so with any arguments of the model."""
    if source.op != "call_module":
        is_pair = kind.__module__ == "torch.return_types" and {"values", "indices"} <= {*dir(kind)}
        return (_OF_FUNCTIONS if is_pair else _SEVERAL), True
    module = called_module(source, root)
    return next(((said, True) for layers, said in _RETURNED if isinstance(module, layers)), (_SEVERAL, False))


def _of_states(node: Node, root: nn.Module) -> Mistaken | None:
    """Return that the state of a layer is taken apart that has but one, as only that of an LSTM can be."""
    state = node.args[0] if _name(node) == _ITEM else None
    if not isinstance(state, Node) or _name(state) != _ITEM or state.args[1] != 1:
        return None
    layer = state.args[0]
    module = called_module(layer, root) if isinstance(layer, Node) else None
    if not isinstance(module, nn.GRU | nn.RNN) or not isinstance(layer, Node):
        return None
    kind = f"nn.{type(module).__name__}"
    said = f"`{on_one_line(written(layer))}` returns {_returned(layer, tuple, root)[0]}"
    message = f"{said}: an `{kind}` has no states `(h, c)`"
    return Mistaken(message, frame_of(layer), certain=False, kind="state")


def _name(node: Node) -> str:
    """Return the name of the function that a node calls, "" where it calls none."""
    if node.op != "call_function":
        return ""
    return _ITEM if node.target is operator.getitem else str(getattr(node.target, "__name__", ""))
