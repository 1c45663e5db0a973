"""Why shapes do not fit: the two sizes that meet, and where in the source each of them was decided.

`misfit` looks at a node that could not be run, whose inputs' shapes are known. A size is followed from value to value
through everything that keeps it, to the layer, the input or the operation that made it.
"""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import nn

from fxengine.called import called_module
from fxengine.capturing.definitions import definition_at
from fxengine.node import Node
from fxengine.source import SourceFrame

__all__ = [
    "JOINING",
    "PRODUCTS",
    "RESHAPING",
    "Dimension",
    "LayerSize",
    "across",
    "asked_sizes",
    "frame_of",
    "misfit",
    "of_other_layers",
    "origin_of",
    "shape_of",
]

_MOST_STEPS: Final = 500
_ROWS: Final = 2
"""How many dimensions a batch of rows has."""

_CONVOLUTIONS: Final = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED: Final = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORMS_OF_CHANNELS: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm2d)
_BY_CHANNEL: Final = (*_CONVOLUTIONS, *_TRANSPOSED, *_NORMS_OF_CHANNELS, nn.GroupNorm)
_WANTED: Final = (
    (nn.Linear, "in_features"),
    (nn.GroupNorm, "num_channels"),
    ((nn.RNNBase, nn.RNNCellBase), "input_size"),
    (nn.MultiheadAttention, "embed_dim"),
    (_CONVOLUTIONS + _TRANSPOSED, "in_channels"),
    (_NORMS_OF_CHANNELS, "num_features"),
)
"""Which attribute of a layer is the size that it wants of what it is given."""

_OF_SEVERAL: Final = (nn.RNNBase, nn.LSTMCell, nn.MultiheadAttention)
_FLATTENING: Final = frozenset({"flatten", "view", "reshape", "unflatten"})
RESHAPING: Final = frozenset({"view", "reshape"})
JOINING: Final = frozenset({"cat", "concat", "concatenate"})
PRODUCTS: Final = frozenset({"matmul", "mm", "bmm", "linear", "__matmul__"})


@dataclass(frozen=True, slots=True)
class LayerSize:
    """A size that a layer is built with.

    Attributes:
        layer: The path of the layer.
        argument: How its constructor calls the size; "" if it follows from several arguments.
        index: The dimension in which the layer looks for it in what comes in; None where it is a size that it makes.
        flattened: Whether all dimensions behind the batch of what comes in have as many together.
        share: Into how many equal parts it is taken apart, each of which has the size.
        held: The dimension of the parameter that the path is of, where it is of none of a layer.
    """

    layer: str
    argument: str
    index: int | None = None
    flattened: bool = False
    share: int = 1
    held: int | None = None

    @property
    def is_taken(self) -> bool:
        """Whether it is a size that the layer takes, not one that it makes."""
        return self.index is not None


@dataclass(frozen=True, slots=True)
class Dimension:
    """One size of a shape.

    Attributes:
        size: The size.
        meaning: What it is, to go on after `64 is …`.
        frame: Where that was decided, None where no source is known.
        of_layer: Whether a layer is built with it, or the code asks for it, so that no input could change it.
        built: What it is of that layer; None if it is of none.
        parts: The sizes that it is the sum of.
        given: The input that has it, and in which dimension; None where something has made it.
    """

    size: int
    meaning: str
    frame: SourceFrame | None
    of_layer: bool = False
    built: LayerSize | None = None
    parts: tuple["Dimension", ...] = ()
    given: tuple[str, int] | None = None

    @property
    def is_of_batch(self) -> bool:
        """Whether it is the first one of an input."""
        return self.given is not None and self.given[1] == 0

    def __str__(self) -> str:
        line = f" (line {self.frame.line})" if self.frame is not None else ""
        return f"{self.size} is {self.meaning}{line}"


def misfit(node: Node, root: nn.Module) -> tuple[Dimension, ...]:
    """Return the sizes that do not fit at a node, two of them or none if it is not known which."""
    shapes = [(each, shape) for each in node.all_input_nodes if (shape := shape_of(each)) is not None]
    if node.op == "call_module":
        return _at_module(node, root, shapes)
    name = getattr(node.target, "__name__", str(node.target))
    if name in JOINING or name == "stack":
        return _joined(node, root, shapes)
    if name in RESHAPING and len(shapes) == 1:
        return _reshaped(node, root, *shapes[0])
    if len(shapes) < 2:
        return ()
    (first, one), (second, other) = shapes[:2]
    if name in PRODUCTS and len(one) > 0 and len(other) > 1:
        theirs = -1 if name == "linear" else -2
        if one[-1] != other[theirs]:
            return origin_of(first, len(one) - 1, root), origin_of(second, len(other) + theirs, root)
        return ()
    for back in range(1, min(len(one), len(other)) + 1):
        if one[-back] != other[-back] and 1 not in {one[-back], other[-back]}:
            return origin_of(first, len(one) - back, root), origin_of(second, len(other) - back, root)
    return ()


def across(node: Node, root: nn.Module) -> tuple[Dimension, ...]:
    """Return two sizes of layers that would meet if a value were transposed: the one that it has elsewhere comes first.

    There are none where another layer has made the size that does not fit, too.
    """
    sizes = misfit(node, root) if node.op == "call_module" else ()
    if len(sizes) != 2 or sizes[0].of_layer or not node.all_input_nodes:
        return ()
    value, wanted = node.all_input_nodes[0], sizes[1]
    while getattr(value.target, "__name__", "") == "pad" and value.all_input_nodes:
        value = value.all_input_nodes[0]
    for dim, size in enumerate((shape_of(value) or ())[1:], 1):
        origin = origin_of(value, dim, root) if size == wanted.size else None
        if origin is not None and origin.built is not None and not origin.built.is_taken:
            return origin, wanted
    return ()


def of_other_layers(sizes: tuple[Dimension, ...], root: nn.Module) -> tuple[int, ...]:
    """Return what sizes that layers are built with are in another model of the same class; () if it lacks them."""
    found: list[int] = []
    modules = dict(root.named_modules())
    for each in sizes:
        if each.built is None:
            parts = of_other_layers(each.parts, root)
            if len(parts) < len(each.parts):
                return ()
            found.append(sum(parts) if parts else each.size)
            continue
        there = _size_of_other(each.built, modules)
        if there is None:
            return ()
        found.append(there // each.built.share)
    return tuple(found)


def _size_of_other(built: LayerSize, modules: Mapping[str, nn.Module]) -> int | None:
    """Return what a size is in another model with these parts, None if it lacks the part."""
    if built.held is not None:
        path, _, name = built.layer.rpartition(".")
        parameter = _parameters(modules.get(path)).get(name)
        return None if parameter is None or parameter.dim() <= built.held else parameter.shape[built.held]
    module = modules.get(built.layer)
    there = None if module is None else _wanted(module) if built.is_taken else _made(module)
    return None if there is None else there[1]


def _parameters(module: nn.Module | None) -> dict[str, nn.Parameter]:
    """Return the parameters that a module holds itself, whose shapes no input changes."""
    return {} if module is None else dict(module.named_parameters(recurse=False, remove_duplicate=False))


def _at_module(node: Node, root: nn.Module, shapes: list[tuple[Node, tuple[int, ...]]]) -> tuple[Dimension, ...]:
    path = str(node.target)
    module = called_module(node, root)
    wanted = _wanted(module) if module is not None else None
    if module is None or wanted is None or not shapes:
        return ()
    value, shape = shapes[0]
    name, size, _ = wanted
    dim = _place(module, wanted[2], len(shape))
    is_single = isinstance(module, nn.GroupNorm) and shape[0] == size  # What has no batch has its channels first.
    if not 0 <= dim < len(shape) or shape[dim] == size or is_single:
        return ()
    meaning = f"{name} of `{_named(root, path)}`"
    flattened = isinstance(module, nn.Linear) and len(shape) > _ROWS and math.prod(shape[1:]) == size
    if flattened:
        meaning += f", which {' × '.join(map(str, shape[1:]))} would be when flattened"
    made = Dimension(size, meaning, definition_at(root, path), True, LayerSize(path, name, dim, flattened))
    return origin_of(value, dim, root), made


def _wanted(module: nn.Module) -> tuple[str, int, int] | None:
    """The name of the size that a module wants, that size, and the dimension in which it wants it."""
    if isinstance(module, nn.TransformerEncoder | nn.TransformerDecoder) and len(module.layers):
        return _wanted(module.layers[0])
    name = next((name for kinds, name in _WANTED if isinstance(module, kinds)), "")
    if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        return "d_model", module.self_attn.embed_dim, -1
    if isinstance(module, nn.LayerNorm):
        return "normalized_shape", module.normalized_shape[-1], -1
    size = getattr(module, name) if name else None
    return (name, size, 1 if isinstance(module, _BY_CHANNEL) else -1) if isinstance(size, int) else None


def _place(module: nn.Module, dim: int, rank: int) -> int:
    """The dimension of a value of so many in which a module looks for its size, given how `_wanted` counts it."""
    if isinstance(module, _CONVOLUTIONS + _TRANSPOSED) and rank == len(module.kernel_size) + 1:
        return 0
    return dim if dim >= 0 else rank + dim


def _made(module: nn.Module) -> tuple[str, int, int] | None:
    """The name of the size that a module makes, "" if it has none, that size, and in which dimension."""
    match module:
        case nn.Linear():
            return "out_features", module.out_features, -1
        case nn.Embedding():
            return "embedding_dim", module.embedding_dim, -1
        case nn.RNNBase() if module.bidirectional:
            return "", 2 * module.hidden_size, -1
        case nn.RNNBase() | nn.RNNCellBase():
            return "hidden_size", module.hidden_size, -1
        case nn.MultiheadAttention():
            return "embed_dim", module.embed_dim, -1
        case _ if isinstance(module, _CONVOLUTIONS + _TRANSPOSED):
            return "out_channels", module.out_channels, 1
        case _:
            return None


def _joined(node: Node, root: nn.Module, shapes: list[tuple[Node, tuple[int, ...]]]) -> tuple[Dimension, ...]:
    """The sizes beside the one along which values are joined; of those that are put beside each other any."""
    is_new = getattr(node.target, "__name__", "") == "stack"
    dim: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
    if not shapes:  # What is to be joined are no tensors.
        return ()
    first, one = shapes[0]
    for other, shape in shapes[1:]:
        for index, (a, b) in enumerate(zip(one, shape, strict=False)):
            if a != b and (is_new or index != dim % len(one)):
                return origin_of(first, index, root), origin_of(other, index, root)
    return ()


def _reshaped(node: Node, root: nn.Module, value: Node, shape: tuple[int, ...]) -> tuple[Dimension, ...]:
    """What each example of a batch has in a row, and what it is asked to be."""
    sizes = asked_sizes(node)
    if not all(type(each) is int for each in sizes[1:]):
        return ()
    wanted, found = math.prod(sizes[1:]), math.prod(shape[1:])
    if len(sizes) < 2 or wanted < 1 or found == wanted or min(len(shape), len(sizes)) != _ROWS:
        return ()
    if len(shape) == _ROWS:
        text = " × ".join(map(str, sizes[1:]))
        asked = Dimension(wanted, f"{text}, as it is asked for", frame_of(node), of_layer=True)
        return origin_of(value, 1, root), asked
    has = Dimension(found, f"what each of the batch has, {' × '.join(map(str, shape[1:]))}", frame_of(value))
    return has, Dimension(wanted, "what is asked for", frame_of(node), of_layer=True)


def asked_sizes(node: Node) -> Sequence[Any]:
    """Return the sizes that a `view` or `reshape` asks for, one by one or in a list."""
    sizes: Sequence[Any] = node.args[1:]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def origin_of(node: Node, dim: int, root: nn.Module) -> Dimension:
    """Return what decided a size of a value."""
    shape = shape_of(node) or ()
    size = int(shape[dim])
    found: Dimension | None = None
    taken: tuple[str, str] | None = None
    for _ in range(_MOST_STEPS):
        found = _decided(node, dim, size, root)
        taken = taken or _taken(node, dim, size, root)
        before = None if found is not None else _fed_behind(node, dim, size, root) or _before(node, dim, size)
        if before is None:
            break
        node, dim = before
    found = found or Dimension(size, f"what `{_expression(node)}` makes", frame_of(node))
    if taken is None or found.of_layer:
        return found
    path, name = taken
    meaning = f"{found.meaning}, {name} of `{_named(root, path)}`"
    return Dimension(size, meaning, definition_at(root, path), True, LayerSize(path, name, dim))


def _decided(node: Node, dim: int, size: int, root: nn.Module) -> Dimension | None:
    """What a size is, if it is decided at this node."""
    path = str(node.target)
    if node.op == "placeholder":
        name = path.lstrip("*")
        return Dimension(size, f"dimension {dim} of the input `{name}`", frame_of(node), given=(name, dim))
    if node.op == "get_attr":
        owner, _, name = path.rpartition(".")
        is_fixed = name in _parameters(dict(root.named_modules()).get(owner))
        held = LayerSize(path, "", held=dim) if is_fixed else None
        return Dimension(size, f"dimension {dim} of `self.{path}`", definition_at(root, path), is_fixed, held)
    layer = _layer(node, root)
    if layer is not None:
        path, module = layer
        made = _made(module)
        here = len(shape_of(node) or ()) - 1 if made is not None and made[2] < 0 else 1
        if made is not None and dim == here:
            meaning = f"the output of `{_named(root, path)}`"
            return Dimension(size, meaning, definition_at(root, path), True, LayerSize(path, made[0]))
        source = shape_of(node.all_input_nodes[0]) if node.all_input_nodes else None
        if source is not None and len(source) == len(shape_of(node) or ()) and source[dim] != size:
            return Dimension(size, f"what `{_named(root, path)}` leaves of {source[dim]}", definition_at(root, path))
        return None
    name = getattr(node.target, "__name__", path)
    if name in JOINING or node.target is operator.getitem:
        return _summed(node, dim, size, root) if name in JOINING else _part(node.args[0], dim, size, root)
    source = shape_of(node.all_input_nodes[0]) if node.all_input_nodes else None
    if name in _FLATTENING and source is not None and size not in source:
        written = name in RESHAPING and _is_written(node, dim, size)
        return Dimension(size, f"what `{_expression(node)}` makes of {_product(source, size)}", frame_of(node), written)
    return None


def _taken(node: Node, dim: int, size: int, root: nn.Module) -> tuple[str, str] | None:
    """The path of a layer that takes a value since it has this size, and how the layer's constructor calls that."""
    for user in node.users:
        module = called_module(user, root) if user.args[:1] == (node,) else None
        if module is not None:
            wanted = _wanted(module)
            if wanted is not None and wanted[1] == size and _place(module, wanted[2], len(shape_of(node) or ())) == dim:
                return str(user.target), wanted[0]
    return None


def _summed(node: Node, dim: int, size: int, root: nn.Module) -> Dimension | None:
    """What a size is that values have together which are joined along it, if all of theirs are those of layers."""
    shapes = [shape_of(each) or () for each in node.all_input_nodes]
    rank = len(shape_of(node) or ())
    if any(len(shape) != rank for shape in shapes) or sum(shape[dim] for shape in shapes) != size or len(shapes) < 2:
        return None
    parts = tuple(origin_of(each, dim, root) for each in node.all_input_nodes)
    meaning = f"{' + '.join(str(each.size) for each in parts)}, what `{_expression(node)}` makes"
    return Dimension(size, meaning, frame_of(node), all(each.of_layer for each in parts), parts=parts)


def _part(parts: Any, dim: int, size: int, root: nn.Module) -> Dimension | None:
    """What a size is of an input that holds several values, or of equal parts of one that has it of a layer."""
    whole = parts.args[0] if isinstance(parts, Node) and parts.args else None
    if not isinstance(whole, Node) or getattr(parts.target, "__name__", parts.target) != "chunk":
        return _item(parts, dim, size)
    count: Any = parts.args[1] if len(parts.args) > 1 else parts.kwargs.get("chunks")
    shape = shape_of(whole) or ()
    if type(count) is not int or dim >= len(shape) or shape[dim] != count * size:
        return None
    origin = origin_of(whole, dim, root)
    if origin.built is None or origin.built.is_taken:
        return None
    built = replace(origin.built, share=count * origin.built.share)
    meaning = f"one of {count} parts of {origin.size}, {origin.meaning}"
    return replace(origin, size=size, meaning=meaning, built=built)


def _item(owner: Any, dim: int, size: int) -> Dimension | None:
    """What a size is of an item of an input that is no tensor, or of what such an item holds."""
    while isinstance(owner, Node) and owner.target is operator.getitem and shape_of(owner) is None:
        owner = owner.args[0]
    if not isinstance(owner, Node) or owner.op != "placeholder" or shape_of(owner) is not None:
        return None
    name = str(owner.target).lstrip("*")
    return Dimension(size, f"dimension {dim} of an item of the input `{name}`", frame_of(owner), given=(name, dim))


def _is_written(node: Node, dim: int, size: int) -> bool:
    """Whether the code asks for a size with a number: `x.view(-1, 784)`."""
    sizes, frame = asked_sizes(node), frame_of(node)
    asked = len(sizes) > dim and type(sizes[dim]) is int and sizes[dim] == size
    return asked and frame is not None and re.search(rf"\b{size}\b", frame.text) is not None


def _layer(node: Node, root: nn.Module) -> tuple[str, nn.Module] | None:
    """The layer whose result a node's value is, with its path; of those that give several it is the first one."""
    is_first = node.target is operator.getitem and node.args[1] == 0
    made = node.args[0] if is_first else node
    module = called_module(made, root) if isinstance(made, Node) else None
    if not isinstance(made, Node) or module is None:
        return None
    return (str(made.target), module) if not is_first or isinstance(module, _OF_SEVERAL) else None


def _fed_behind(node: Node, dim: int, size: int, root: nn.Module) -> tuple[Node, int] | None:
    """Return what a recurrent layer is given, and where a batch or a length lies in that which its results keep."""
    made, rank = node.args[0] if node.target is operator.getitem else None, len(shape_of(node) or ())
    if not isinstance(made, Node) or made.op != "call_module" or not made.all_input_nodes or rank <= _ROWS:
        return None
    layer = called_module(made, root)
    given = made.all_input_nodes[0]
    if not isinstance(layer, nn.RNNBase) or dim == rank - 1 or len(shape_of(given) or ()) != rank:
        return None
    of_states = node.args[1] != 0  # They have the layers where the output has its other dimension.
    if of_states and dim != 1:
        return None
    place = (0 if layer.batch_first else 1) if of_states else dim
    return (given, place) if (shape_of(given) or ())[place] == size else None


def _product(shape: tuple[int, ...], size: int) -> str:
    """The sizes in a row of which another one is the product, or the whole shape."""
    for start in range(len(shape)):
        for end in range(start + 2, len(shape) + 1):
            if math.prod(shape[start:end]) == size:
                return " × ".join(map(str, shape[start:end]))
    return str(list(shape))


def _before(node: Node, dim: int, size: int) -> tuple[Node, int] | None:
    """The input that a size comes from, and its dimension there, where the operation keeps it."""
    rank = len(shape_of(node) or ())
    name = getattr(node.target, "__name__", str(node.target))
    if name in {"transpose", "swapaxes", "permute", "t", "T", "mT"}:
        dim = _moved(node, name, dim, rank)
    for each in node.all_input_nodes:
        shape = shape_of(each)
        if shape is None:
            continue
        if len(shape) == rank and shape[dim] == size:
            return each, dim
        back = rank - dim
        if len(shape) >= back and shape[-back] == size:
            return each, len(shape) - back
    for each in node.all_input_nodes:
        shape = shape_of(each)
        if shape is not None and shape.count(size) == 1:
            return each, shape.index(size)
    return None


def _moved(node: Node, name: str, dim: int, rank: int) -> int:
    """The dimension that an operation has put into another place."""
    numbers = [each for each in node.args[1:] if isinstance(each, int)]
    if name == "permute":
        order: Any = numbers or node.args[1]
        return int(order[dim]) % rank
    one, other = (int(each) % rank for each in (numbers if len(numbers) == 2 else (-2, -1)))
    return other if dim == one else one if dim == other else dim


def shape_of(node: Node) -> tuple[int, ...] | None:
    """Return the shape of a value, None where it is not known."""
    return None if node.tensor is None else tuple(int(size) for size in node.tensor.shape)


def frame_of(node: Node) -> SourceFrame | None:
    """Return where in the user's code a node was made, None where that is not known."""
    origin = node.origin
    return origin.frames[-1] if origin is not None and origin.frames else None


def _expression(node: Node) -> str:
    frame = frame_of(node)
    text = " ".join(frame.text.split()) if frame is not None else ""
    return text if text and len(text) < 60 else node.name


def _named(root: nn.Module, path: str) -> str:
    """How a module is defined, as far as that is to be had: `self.fc1 = nn.Linear(32, 64)`."""
    frame = definition_at(root, path)
    text = " ".join(frame.text.split()) if frame is not None else ""
    return text if text and len(text) < 80 else f"self.{path}"
