"""FX312: a softmax along another dimension than the one that its weights are for.

Attention sums values up, each with a weight, and the weights of a sum are to add up to 1. Along a dimension in which
there is a single value each of them is 1, and along the batch those of one example depend on the others. Nothing fails.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import nn

from fxengine.advice import on_one_line
from fxengine.diagnosis import TracingProblem
from fxengine.errors import MisplacedSoftmax
from fxengine.node import Node
from fxengine.silent.reading import definition_behind, dotted
from fxengine.silent.scene import Scene, shown

_NAMES: Final = frozenset({"log_softmax", "softmax", "softmin"})
_MODULES: Final = (nn.Softmax, nn.LogSoftmax, nn.Softmin)

_KEEPING: Final = frozenset(
    {"add", "clamp", "contiguous", "div", "dropout", "float", "masked_fill", "mul", "sub", "to", "truediv", "type_as"}
)
"""What leaves each value where it is, and the first argument of which has all dimensions of the result."""

_WIDENING: Final = frozenset({"add", "div", "mul", "sub", "truediv"})
"""Those of them whose second value may have more."""

_CHANGING: Final = frozenset({"add", "mul", "sub"})
"""Those of them that make other weights of weights."""

_PRODUCTS: Final = frozenset({"bmm", "matmul", "mm"})
_SHAPED: Final = frozenset({"permute", "repeat", "reshape", "view"})
"""What is told something of each dimension of its result."""

_SWAPPING: Final = frozenset({"swapaxes", "transpose"})
_ALIKE: Final = frozenset(
    {*_PRODUCTS, *_SWAPPING, "cat", "elu", "gelu", "leaky_relu", "relu", "sigmoid", "silu", "tanh"}
)
"""What makes as many dimensions as the first value that it is given has."""

_OF_PICTURES: Final = (((nn.BatchNorm2d,), 4), ((nn.BatchNorm3d,), 5))
"""Layers that take one number of dimensions alone."""

_RANKS: Final = (2, 3, 4)
"""Numbers of dimensions that scores may have, as far as nobody knows."""

_TWO: Final = 2
_NEW: Final = -1
"""A dimension that weights do not have themselves."""

_MOST_STEPS: Final = 20
_FEW_STEPS: Final = 4


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The user's own softmaxes along a dimension that is not the one which is meant."""
    paths, root = scene.observation.user_paths, scene.observation.root
    if not isinstance(root, nn.Module):
        return
    graph = _Read(dict(root.named_modules()))
    for kind in ("call_function", "call_method", "call_module"):
        for node in scene.ran.nodes[kind]:
            dim, origin = graph.dimension(node), node.origin
            if dim is None or origin is None or not origin.frames:
                continue
            if paths is not None and origin.frames[-1].path not in paths:
                continue
            text = shown(origin.frames[-1])
            said = next(filter(None, (each(graph, root, node, dim, text) for each in _WRONG)), None)
            if said is not None:
                yield scene.problem(MisplacedSoftmax, origin, said[0], said[1:])


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known of the nodes of a graph, with or without their shapes.

    Attributes:
        modules: The modules, by path.
    """

    modules: Mapping[str, nn.Module]

    def name(self, node: Node) -> str:
        """What is done at a node, by the name of the function or method; that of a dropout is one for all."""
        if node.op == "call_module":
            module = self.modules.get(str(node.target))
            return "dropout" if isinstance(module, nn.modules.dropout._DropoutNd) else ""
        return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", ""))

    def dimension(self, node: Node) -> int | None:
        """The dimension that a softmax is told; None for anything else."""
        if node.op == "call_module":
            module = self.modules.get(str(node.target))
            dim: Any = module.dim if isinstance(module, _MODULES) else None
        else:
            is_softmax = self.name(node) in _NAMES and (node.op == "call_method" or _is_of_torch(node.target))
            given: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
            dim = given if is_softmax else None
        return dim if type(dim) is int and self.first(node) is not None else None

    def first(self, node: Node) -> Node | None:
        """The value that a node's operation is done with."""
        given: Any = node.args[0] if node.args else node.kwargs.get("input")
        given = given[0] if isinstance(given, tuple | list) and given else given
        return given if isinstance(given, Node) else None

    def rank(self, node: Node) -> int | None:
        """How many dimensions a value has, whatever the model is fed with; None where that is not known."""
        current: Node | None = node
        more = 0
        for _ in range(_MOST_STEPS):
            if current is None:
                break
            name = self.name(current)
            known = self._made(current, name)
            if known is not None:
                return known + more
            is_told = len(_numbers(current)) == 1
            if name in {"squeeze", "unsqueeze"} and is_told:
                more += 1 if name == "unsqueeze" else -1
            elif not self._is_alike(current, name):
                break
            current = self.first(current)
        return None

    def values(self, node: Node) -> list[Node]:
        """What a node is given but for sizes and what is computed of sizes alone."""
        return [each for each in node.all_input_nodes if not self._is_number(each)]

    def _is_number(self, node: Node, steps: int = _FEW_STEPS) -> bool:
        """Whether a node is a size, or computed of sizes in a few steps."""
        if self.name(node) == "size" or (node.target is getattr and node.args[1] == "shape"):
            return True
        is_computed = node.op == "call_function" and bool(node.all_input_nodes) and steps > 0
        return is_computed and all(self._is_number(each, steps - 1) for each in node.all_input_nodes)

    def _is_alike(self, node: Node, name: str) -> bool:
        """Whether the first value that a node is given has as many dimensions as what it makes."""
        if name in _WIDENING:
            return len(self.values(node)) == 1
        return name in _KEEPING | _ALIKE or self.layer(node) is not None or self.dimension(node) is not None

    def _made(self, node: Node, name: str) -> int | None:
        """How many dimensions an operation always makes; None where that depends on what it is given."""
        if node.op == "call_module":
            module = self.modules.get(str(node.target))
            return next((rank for kinds, rank in _OF_PICTURES if isinstance(module, kinds)), None)
        if name == "flatten":
            return _TWO if [*node.args[1:], *node.kwargs.values()] == [1] else None
        if name not in _SHAPED:
            return None
        sizes: Any = node.args[1:]
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
        return len(sizes) or None

    def layer(self, node: Node) -> tuple[str, nn.Linear] | None:
        """The linear layer that makes a value, with its path."""
        module = self.modules.get(str(node.target)) if node.op == "call_module" else None
        return (str(node.target), module) if isinstance(module, nn.Linear) else None


def _of_weights(graph: _Read, root: nn.Module, node: Node, dim: int, text: str) -> tuple[str, ...] | None:
    """Weights of attention or of a pooling, which something is summed up with along another dimension."""
    del root
    scores, rank = graph.first(node), graph.rank(node)
    if scores is None or not _are_scores(graph, scores):
        return None
    ranks = [each for each in ((rank,) if rank is not None else _RANKS) if -each <= dim < each]
    found = [(each, _summed(graph, node, each)) for each in ranks]
    if not found or any(len(wanted) != 1 or None in wanted or dim % each in wanted for each, wanted in found):
        return None
    ends = {place - each for each, wanted in found for place in wanted if place is not None}
    starts = {place for _, wanted in found for place in wanted if place is not None}
    better = ends if len(starts) > 1 or (dim < 0 and len(ends) == 1) else starts
    if len(better) > 1:
        return None
    (one,) = better
    return (
        f"`{text}` makes weights along dimension {dim}, and what they weigh is summed along dimension {one}",
        f"say `dim={one}`: then the weights of each sum add up to 1",
    )


def _summed(graph: _Read, node: Node, rank: int) -> set[int | None]:
    """Along which dimensions of some weights it is summed what they weigh; with None if that is not known."""
    found = set[int | None]()
    pending = [(user, node, [*range(rank)]) for user in node.users]
    while pending:
        user, given, dims = pending.pop()
        name, is_first = graph.name(user), graph.first(user) is given
        if user.op == "output" or _is_only_asked(user):
            continue
        numbers = _numbers(user)
        if name in _PRODUCTS and len(user.all_input_nodes) == _TWO and len(dims) >= _TWO:
            found.add(dims[-1 if user.args[0] is given else -2])
        elif name == "mul" and len(user.all_input_nodes) == _TWO:
            pending += [(each, user, dims) for each in user.users if graph.name(each) == "sum"]
            found |= {None for each in user.users if graph.name(each) != "sum"}
        elif name == "sum" and is_first and len(numbers) == 1:
            found.add(_at(dims, numbers[0]))
        elif name in _SWAPPING and is_first and len(numbers) == _TWO:
            one, other = (each % len(dims) for each in numbers)
            swapped = [*dims]
            swapped[one], swapped[other] = dims[other], dims[one]
            pending += [(each, user, swapped) for each in user.users]
        elif name == "unsqueeze" and is_first and len(numbers) == 1:
            place = numbers[0] % (len(dims) + 1)
            pending += [(each, user, [*dims[:place], _NEW, *dims[place:]]) for each in user.users]
        elif name in _KEEPING - _CHANGING and is_first and len(graph.values(user)) == 1:
            pending += [(each, user, dims) for each in user.users]
        elif any(each.op != "output" for each in user.users):
            found.add(None)
    return {None if each == _NEW else each for each in found}


def _at(dims: list[int], place: int) -> int | None:
    return dims[place] if -len(dims) <= place < len(dims) else None


def _numbers(node: Node) -> list[int]:
    """The numbers that an operation is told beside the value that it is done with."""
    given: Any = [*node.args[1:], *(node.kwargs[name] for name in ("dim", "dim0", "dim1") if name in node.kwargs)]
    return [each for each in given if type(each) is int]


def _of_one(graph: _Read, root: nn.Module, node: Node, dim: int, text: str) -> tuple[str, ...] | None:
    """A softmax along a dimension of which a layer makes but one, as its constructor says."""
    scores = graph.first(node)
    found = graph.layer(scores) if scores is not None else None
    rank = graph.rank(scores) if scores is not None else None
    is_last = dim == -1 or (rank is not None and dim == rank - 1)
    if found is None or found[1].out_features != 1 or not is_last:
        return None
    built = _constructor(root, found[0])
    if built is None:
        return None
    made = on_one_line(ast.unparse(built))
    always = "0" if graph.name(node) == "log_softmax" else "1"
    return (
        f"`{text}` gives {always} everywhere: along dimension {dim} there is a single value, what `{made}` makes",
        "go along the dimension of what is to be weighed, as `dim=1` behind the batch; for a yes or no take a sigmoid",
    )


def _of_batch(graph: _Read, root: nn.Module, node: Node, dim: int, text: str) -> tuple[str, ...] | None:
    """A softmax of the classes that a model returns, along the batch."""
    del root
    scores = graph.first(node)
    found = graph.layer(scores) if scores is not None else None
    rank = graph.rank(node)
    if found is None or rank is None or rank < _TWO or dim % rank != 0 or found[1].out_features == 1:
        return None
    if not node.users or any(user.op != "output" for user in node.users):
        return None
    return (
        f"`{text}` goes along the batch: what comes out for one example depends on those beside it",
        "say `dim=-1`, along which the layer before it makes the classes",
    )


_WRONG: Final[tuple[Callable[[_Read, nn.Module, Node, int, str], tuple[str, ...] | None], ...]] = (
    _of_weights,
    _of_one,
    _of_batch,
)


def _constructor(root: nn.Module, path: str) -> ast.Call | None:
    """The call that makes a linear layer of a single output, which it says by a number; None where it does not."""
    owner, _, name = path.rpartition(".")
    holder, place = root.get_submodule(owner), -1
    if isinstance(holder, nn.Sequential) and name.isdigit():
        place, (owner, _, name) = int(name), owner.rpartition(".")
        holder = root.get_submodule(owner)
    for cls in type(holder).__mro__:
        code = getattr(vars(cls).get("__init__"), "__code__", None)
        definition = definition_behind(code) if code is not None else None
        for each in ast.walk(definition) if definition is not None else ():
            match each:
                case ast.Assign(targets=[ast.Attribute(attr=assigned)], value=ast.Call() as call) if assigned == name:
                    made = next(iter(call.args[place : place + 1]), None) if place >= 0 else call
                    return made if isinstance(made, ast.Call) and _makes_one(made) else None
                case _:
                    pass
    return None


def _makes_one(call: ast.Call) -> bool:
    said = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "out_features")]
    is_linear = dotted(call.func).rpartition(".")[2] == "Linear"
    return is_linear and any(isinstance(each, ast.Constant) and each.value == 1 for each in said)


def _are_scores(graph: _Read, scores: Node) -> bool:
    """Whether scores are the products of two computed values, or what a layer of one output makes, masked at most."""
    current: Node | None = scores
    for _ in range(_MOST_STEPS):
        if current is None:
            return False
        found = graph.layer(current)
        if found is not None:
            return found[1].out_features == 1
        if graph.name(current) in _PRODUCTS:
            given = current.all_input_nodes
            return len(given) == _TWO and all(each.op not in {"get_attr", "placeholder"} for each in given)
        if graph.name(current) not in _KEEPING | {"squeeze"}:
            return False
        current = graph.first(current)
    return False


def _is_of_torch(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return any(getattr(owner, name, None) is function for owner in (torch, F))


def _is_only_asked(node: Node) -> bool:
    """Whether a node asks a value for what it is, and not for what it holds."""
    return node.target is getattr or (node.op == "call_method" and node.target in {"dim", "size"})
