"""How exceptions and values are put into words: in one line, and of bounded length."""

import re
from typing import Any, Final

from fxengine.errors import text_of
from fxengine.names import dtype_abbreviation
from fxengine.node import Node, TensorFacts
from fxengine.passes.shape_prop import TensorMetadata
from fxengine.proxy import Proxy
from fxworker.patience import OutOfPatience
from fxworker.wire import TensorInfo

_LONGEST_VALUE: Final = 200
_LONGEST_MESSAGE: Final = 300


def described(error: BaseException) -> str:
    """Return an exception as Python prints it in its last line."""
    name = type(error).__name__
    if isinstance(error, SystemExit):
        return f"the program ended itself: SystemExit({error.code!r})"
    if isinstance(error, OutOfPatience):
        return "it took too long"
    if isinstance(error, SyntaxError):
        return f"{name}: {error.msg}"
    text = text_of(error)
    return f"{name}: {text}" if text else name


def detail(error: BaseException) -> str:
    """Return what an exception says, in its first line, or its name where it says nothing."""
    text = described(error).removeprefix(f"{type(error).__name__}: ")
    return text.split("\n", 1)[0]


def in_eager_words(text: str) -> str:
    """Return what torch or Python says of what is in a graph in the words it has for the person's own values."""
    text = re.sub(r"\bimmutable_(list|dict)\b", r"\1", text)
    return re.sub(r"object has no attribute '__call__'", "object is not callable", text)


def one_line(message: str) -> str:
    """Return a message in one line of bounded length."""
    text = " ".join(message.split())
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def tensor_info(facts: TensorFacts | None) -> TensorInfo | None:
    """Return the facts about a tensor in the protocol's form."""
    if facts is None:
        return None
    return TensorInfo(tuple(map(int, facts.shape)), dtype_abbreviation(facts.dtype), str(facts.device))


def value_of(node: Node) -> str:
    """Return what a node without a single tensor yields, as far as shape propagation knows."""
    if node.tensor is not None:
        return ""
    if "tensor_meta" in node.meta:
        return shortened(_described_value(node.meta["tensor_meta"]))
    kind: Any = node.meta.get("type")
    return kind.__name__ if isinstance(kind, type) else ""


def _described_value(value: Any) -> str:
    """Return a container of tensors in print: `(f32[2, 3], None)`."""
    match value:
        case TensorMetadata():
            return f"{dtype_abbreviation(value.dtype)}[{', '.join(map(str, value.shape))}]"
        case tuple() | list():
            return f"({', '.join(map(_described_value, value))})"
        case dict():
            return f"{{{', '.join(f'{key}: {_described_value(each)}' for key, each in value.items())}}}"
        case bool() | int() | float() | str() | None:
            return repr(value)
        case _:
            return type(value).__name__


def contents(value: Any) -> str | None:
    """Return a container that a module returned in print, `(f32[2, 3], None)`; None where a shape in it is unknown."""
    parts: list[str | None]
    match value:
        case Proxy():
            return _printed(value.node) or None
        case tuple() | list():
            parts = [contents(each) for each in value]
            text = f"({', '.join(filter(None, parts))})"
        case dict():
            parts = [contents(each) for each in value.values()]
            text = f"{{{', '.join(f'{key}: {each}' for key, each in zip(value, parts, strict=True))}}}"
        case bool() | int() | float() | str() | None:
            return repr(value)
        case _:
            return None
    return shortened(text) if all(parts) else None


def _printed(node: Node) -> str:
    facts = node.tensor
    if facts is None:
        return value_of(node)
    return f"{dtype_abbreviation(facts.dtype)}[{', '.join(map(str, facts.shape))}]"


def shortened(text: str, longest: int = _LONGEST_VALUE) -> str:
    """Return a value in print in bounded length."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
