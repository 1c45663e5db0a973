"""What calls of Python's own functions and of torch's say about the values that they are given."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from torch import Tensor

from fxworker.bindings import Bindings
from fxworker.choices import is_number
from fxworker.conventions import usual_values
from fxworker.evidence import Kind

_BUILTINS: Final[dict[str, Kind]] = {
    **dict.fromkeys(
        ("len", "enumerate", "zip", "sum", "list", "tuple", "set", "sorted", "reversed", "any", "all"), "sequence"
    ),
    **dict.fromkeys(("range", "int", "float", "round", "abs"), "number"),
    **dict.fromkeys(("signature", "inspect.signature"), "callable"),
}
_TAKING_TENSORS: Final = ("nn.Parameter", "torch.cumprod", "torch.cumsum", "torch.as_tensor", "torch.stack")
"""How functions end whose first argument is a tensor."""

_CONVERTING: Final = ("tensor", "Tensor", "from_numpy")
"""How functions end that make a tensor of an array, or of lists."""

_OF_ITEMS: Final = ("FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "torch.Tensor")
"""How constructors end that take items, or a size, but no number which is computed."""

_MAKING: Final = frozenset({*_CONVERTING, *(each.rpartition(".")[2] for each in _OF_ITEMS), "as_tensor"})
"""The functions and constructors that make a tensor of numbers."""

_SIZED: Final = re.compile(r"torch\.(ones|zeros|empty|rand|randn|linspace|logspace|arange)|\w+\.new_(ones|zeros|empty)")
"""Functions whose arguments are sizes, where they are several."""

_SHAPE: Final = re.compile(r"shape|size|dims")
"""What functions have in their names that may give several sizes."""

_OPENING: Final = re.compile(r"(io\.)?open|(np|numpy)\.(load|loadtxt|genfromtxt)|torch\.load|(h5py|zipfile)\.\w*File")
"""Functions whose first argument is a file."""

_OF_PATHS: Final = re.compile(r"(os\.)?path\.\w+|osp\.\w+|(pathlib\.)?Path")
"""Functions whose arguments are paths."""

_PRETRAINED: Final = "pretrained_model_name_or_path"
"""What libraries call the name of a model with trained weights."""

_INITIALISING: Final = re.compile(r"\binit\.\w+_$")
"""Functions that fill a tensor."""

_TAKING: Final[dict[str, tuple[Kind, Kind | None]]] = {
    "ModuleList": ("sequence", "callable"),
    "ModuleDict": ("mapping", "callable"),
    "__dict__.update": ("mapping", None),
    "vars(self).update": ("mapping", None),
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
    elif _OF_PATHS.fullmatch(name):
        for _, path in mine:
            names.use(path).note("string")
    elif taking := next((each for each in _TAKING if name.endswith(each)), ""):
        whole, item = _TAKING[taking]
        for _, path in mine:
            names.use(path).note(whole)
            if whole == "mapping":
                names.use(path).least = max(names.use(path).least, 1)
            if item is not None:
                names.use(f"{path}[]").note(item)
    else:
        known = (_is_of_tensors, _is_of_text, _is_of_files, _is_of_weights)
        return any(each(name, mine, names) for each in known)
    return True


def _is_of_weights(name: str, mine: list[tuple[str | int, str]], names: Bindings) -> bool:
    """Note what a method says that gives a model with its trained weights: it takes the name of one; else False."""
    if not name.endswith(".from_pretrained"):
        return False
    if name.endswith("Embedding.from_pretrained"):
        for at, path in mine:
            if at in {0, "embeddings"}:
                names.use(path).note("tensor")
        return True
    for at, path in mine:
        if at in {0, _PRETRAINED}:
            names.use(path).note("string")
            names.use(path).names.append(_PRETRAINED)
    return True


def _is_of_files(name: str, mine: list[tuple[str | int, str]], names: Bindings) -> bool:
    """Note what a function that opens a file says; False for another."""
    if not _OPENING.fullmatch(name):
        return False
    for at, path in mine:
        if at == 0:
            names.use(path).note("string")
            names.use(path).names.append("file")
    return True


def _is_of_tensors(name: str, mine: list[tuple[str | int, str]], names: Bindings) -> bool:
    """Note what a function that takes a tensor, or an array, says; False for another."""
    is_buffer = name == "self.register_buffer"
    is_array = name.endswith("from_numpy")
    if not (is_buffer or is_array or name.endswith(_TAKING_TENSORS) or _INITIALISING.search(name)):
        return False
    for at, path in mine:
        if at in {"tensor", "data"} or at == int(is_buffer):
            names.use(path).note("tensor")
            names.use(path).array |= is_array
    return True


def _is_of_text(name: str, mine: list[tuple[str | int, str]], names: Bindings) -> bool:
    """Note what a function that reads an expression says, which is a list of numbers mostly; False for another."""
    if name not in {"eval", "literal_eval", "ast.literal_eval"}:
        return False
    for _, path in mine:
        names.use(path).note("string")
        usual = next(filter(is_number, usual_values(path.rpartition(".")[2])), "64")
        names.use(path).literals.append(repr(f"[{usual}, {usual}]"))
    return True


def note_numbers(generator: ast.comprehension, parts: list[ast.expr], names: Bindings) -> None:
    """Note that a text has numbers in it: `[int(each) for each in sizes.split(",")]`."""
    match generator.iter:
        case ast.Call(func=ast.Attribute(value=value, attr="split"), args=[ast.Constant(str(separator))]):
            converted = {ast.unparse(each) for part in parts for each in ast.walk(part) if isinstance(each, ast.Call)}
            target = ast.unparse(generator.target)
            if names.path(value) and not converted.isdisjoint({f"int({target})", f"float({target})"}):
                names.use(names.path(value)).literals.append(repr(separator.join(("3", "3"))))
        case _:
            pass


def note_computed(call: ast.Call, name: str, names: Bindings) -> None:
    """Note that what is computed with has items, where the result is what a tensor is made of; and what are sizes."""
    if _SIZED.fullmatch(name) and (len(call.args) > 1 or any(map(_is_given_number, call.args))):
        for path in filter(None, map(names.path, call.args)):
            names.use(path).note("number")
    if name.endswith("Embedding") and call.args and isinstance(call.args[0], ast.BinOp):
        for path in filter(None, map(names.path, _operands(call.args[0]))):
            # One more for what fills up, or twice as many for right and wrong.
            names.use(path).names.append("num_embeddings")
    match call.args[:1]:
        case [ast.Call(func=function, args=[each, *_])] if name.endswith("Embedding.from_pretrained"):
            if names.path(each) and ast.unparse(function).endswith(_CONVERTING):
                names.use(names.path(each)).note("tensor")
        case _:
            pass
    if name.endswith(_OF_ITEMS) and len(call.args) == 1 and isinstance(call.args[0], ast.BinOp):
        for path in filter(None, map(names.path, _operands(call.args[0]))):
            names.use(path).note("tensor")


def _is_given_number(node: ast.expr) -> bool:
    """Whether something is what a method of an object's own gives that is not said to be a shape."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return not hasattr(Tensor, name) and _SHAPE.search(name) is None
        case _:
            return False


def note_kept(call: ast.Call, names: Bindings) -> None:
    """Note what a base keeps for its classes: a buffer, a configuration that it is given, or all arguments by name."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="save_hyperparameters"), args=[]):
            for name, path in [*names.paths.items()]:
                if name == path:
                    names.bind(f"self.hparams.{name}", path)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"),
            args=[ast.Constant(str(name)), made, *_],
        ):
            names.bind(f"self.{name}", names.path(_converted(made)))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="save_hyperparameters"), args=[given]) if (
            names.path(given)
        ):
            names.bind("self.hparams", names.path(given))
        case _:
            pass


def _converted(node: ast.expr) -> ast.expr:
    """Return what a tensor is made of: `order` in `torch.as_tensor(order).long()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[inner, *_]) if name in _MAKING:
            return _converted(inner)
        case ast.Call(func=ast.Attribute(value=inner)):
            return _converted(inner)
        case _:
            return node


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is computed with in `(a - b) / 2`."""
    if isinstance(node, ast.BinOp):
        yield from _operands(node.left)
        yield from _operands(node.right)
    else:
        yield node
