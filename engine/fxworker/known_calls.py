"""What calls of Python's own functions and of torch's say about the values that they are given."""

import ast
from collections.abc import Iterator
from typing import Final

from fxworker.bindings import Bindings
from fxworker.evidence import Kind

_BUILTINS: Final[dict[str, Kind]] = {
    **dict.fromkeys(
        ("len", "enumerate", "zip", "sum", "list", "tuple", "set", "sorted", "reversed", "any", "all"), "sequence"
    ),
    **dict.fromkeys(("range", "int", "float", "round", "abs"), "number"),
}
_TAKING_TENSORS: Final = ("nn.Parameter", "torch.cumprod", "torch.cumsum", "torch.as_tensor", "torch.stack")
"""How functions end whose first argument is a tensor."""

_OF_ITEMS: Final = ("FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "torch.Tensor")
"""How constructors end that take items, or a size, but no number which is computed."""

_TAKING: Final[dict[str, tuple[Kind, Kind | None]]] = {
    "ModuleList": ("sequence", "callable"),
    "ModuleDict": ("mapping", "callable"),
    ".join": ("sequence", "string"),
    "import_module": ("string", None),
}
"""How functions and classes end, what they take, and what that has in it."""


def is_known_call(name: str, mine: list[tuple[str | int, str]], names: Bindings) -> bool:
    """Note what a call of Python's or torch's own says about the values that it is given; False for another."""
    kind = _BUILTINS.get(name)
    if kind is not None:
        for _, path in mine:
            names.use(path).note(kind)
    elif taking := next((each for each in _TAKING if name.endswith(each)), ""):
        whole, item = _TAKING[taking]
        for _, path in mine:
            names.use(path).note(whole)
            if whole == "mapping":
                names.use(path).least = max(names.use(path).least, 1)
            if item is not None:
                names.use(f"{path}[]").note(item)
    elif name == "self.register_buffer" or name.endswith(_TAKING_TENSORS):
        for at, path in mine:
            if at in {"tensor", "data"} or at == int(name == "self.register_buffer"):
                names.use(path).note("tensor")
    else:
        return False
    return True


def note_computed(call: ast.Call, name: str, names: Bindings) -> None:
    """Note that what is computed with has items, where the result is what a tensor is made of."""
    if name.endswith(_OF_ITEMS) and len(call.args) == 1 and isinstance(call.args[0], ast.BinOp):
        for path in filter(None, map(names.path, _operands(call.args[0]))):
            names.use(path).note("tensor")


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is computed with in `(a - b) / 2`."""
    if isinstance(node, ast.BinOp):
        yield from _operands(node.left)
        yield from _operands(node.right)
    else:
        yield node
