"""A gradual type checker for graphs: from the annotations of inputs, the sizes of all values as far as they follow.

``GraphTypeChecker`` infers types and raises where they contradict each other. ``Refine`` then puts a variable in place
of each unknown size and collects which of them are equal (``unify_refinements`` solves that). Rules are registered for
functions and for types of modules; users add theirs.
"""

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any, Final, TypeVar

import sympy
import torch
from torch import nn

from fxengine.experimental.gradual_shapes import (
    adaptiveavgpool2d_check,
    broadcast_types,
    calculate_out_dimension,
    expand_to_tensor_dim,
    flatten_check,
    get_greatest_upper_bound,
    linear_check,
    maxpool2d_check,
)
from fxengine.experimental.refinement_types import Equality
from fxengine.experimental.unification import Var
from fxengine.graph_module import GraphModule
from fxengine.names import found_in
from fxengine.node import Node, Target, map_arg
from fxengine.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

__all__ = [
    "GraphTypeChecker",
    "Refine",
    "adaptiveavgpool2d_check",
    "adaptiveavgpool2d_inference_rule",
    "add_inference_rule",
    "all_eq",
    "bn2d_inference_rule",
    "broadcast_types",
    "calculate_out_dimension",
    "conv2d_inference_rule",
    "conv_refinement_rule",
    "conv_rule",
    "element_wise_eq",
    "expand_to_tensor_dim",
    "first_two_eq",
    "flatten_check",
    "flatten_inference_rule",
    "flatten_refinement_rule",
    "get_attr_inference_rule",
    "get_greatest_upper_bound",
    "get_parameter",
    "linear_check",
    "linear_inference_rule",
    "linear_refinement_rule",
    "maxpool2d_check",
    "maxpool2d_inference_rule",
    "register_algebraic_expressions_inference_rule",
    "register_inference_rule",
    "register_refinement_rule",
    "relu_inference_rule",
    "reshape_inference_rule",
    "transpose_inference_rule",
]

found_in(
    __name__,
    adaptiveavgpool2d_check,
    broadcast_types,
    calculate_out_dimension,
    expand_to_tensor_dim,
    flatten_check,
    get_greatest_upper_bound,
    linear_check,
    maxpool2d_check,
)

_Rule = TypeVar("_Rule", bound=Callable[..., Any])

_INFERENCE_RULES: Final[dict[Any, Callable[..., Any]]] = {}
"""What gives a node its type, by what it calls."""
_REFINEMENT_RULES: Final[dict[Any, Callable[..., Any]]] = {}
"""What says which sizes of a node and its inputs are equal."""
_RULES: Final[dict[Any, Callable[..., Any]]] = {}
"""What gives sizes as expressions of others."""


def register_inference_rule(call_target: Target) -> Callable[[_Rule], _Rule]:
    """Return a decorator for a function that gives a node its type.

    Raises:
        RuntimeError: There is one.
    """
    return _registering(_INFERENCE_RULES, "Inference rule", call_target)


def register_refinement_rule(call_target: Target) -> Callable[[_Rule], _Rule]:
    """Return a decorator for a function that returns which sizes are equal.

    Raises:
        RuntimeError: There is one.
    """
    return _registering(_REFINEMENT_RULES, "Refinement rule", call_target)


def register_algebraic_expressions_inference_rule(call_target: Target) -> Callable[[_Rule], _Rule]:
    """Return a decorator for a function that gives a node's sizes as expressions.

    Raises:
        RuntimeError: There is one.
    """
    return _registering(_RULES, "Rule", call_target)


def _registering(rules: dict[Any, Callable[..., Any]], kind: str, target: Any) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        if target in rules:
            raise RuntimeError(f"{kind} already registered for {target}!")
        rules[target] = rule
        return rule

    return register


def _input(n: Node, place: int = 0) -> Node:
    source = n.args[place]
    assert isinstance(source, Node), f"Expected Node, got {type(source)}"
    return source


@register_inference_rule(torch.add)
@register_inference_rule(operator.add)
def add_inference_rule(n: Node) -> Any:
    """Give a sum the less precise of the types of what is added, broadcast; that of the tensor where one is a number.

    Raises:
        TypeError: The two do not fit.
    """
    first, second = _input(n), _input(n, 1)
    t1, t2 = first.type, second.type
    for number, kind in ((t1, t2), (t2, t1)):
        if number is int and isinstance(kind, TensorType):
            n.type = kind
            return n.type
    new_t1, new_t2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = new_t1 != t1 or new_t2 != t2
    if n.meta["broadcast"]:
        n.meta[str(first)] = new_t1
        n.meta[str(second)] = new_t2
    else:
        new_t1, new_t2 = t1, t2
    if not is_consistent(new_t1, new_t2):
        raise TypeError(f"Cannot add arguments {first} ({t1}) and {second} ({t2}) in node {n}. Types should match ")
    n.type = new_t2 if is_more_precise(new_t1, new_t2) else new_t1
    return n.type


@register_inference_rule(getattr)
def get_attr_inference_rule(n: Node, traced: Any) -> Any:  # noqa: ARG001 - a rule's parameter.
    """Give the shape of a tensor the unknown type.

    Raises:
        TypeError: It is another attribute.
    """
    if n.args[1] != "shape":
        raise TypeError("Not yet implemented")
    n.type = Dyn
    return n.type


@register_inference_rule(torch.transpose)
def transpose_inference_rule(n: Node) -> Any:
    """Give the result the sizes of the input, two of them exchanged.

    Raises:
        TypeError: The input has no such dimensions.
    """
    kind = _input(n).type
    _, dim1, dim2 = n.args
    assert isinstance(dim1, int), f"Expected int, got {type(dim1)}"
    assert isinstance(dim2, int), f"Expected int, got {type(dim2)}"
    if kind == Dyn:
        n.type = Dyn
        return n.type
    if not isinstance(kind, TensorType) or not all(0 <= dim < len(kind.dims) for dim in (dim1, dim2)):
        raise TypeError(f"Cannot transpose {dim1} and {dim2} in type {kind} for node {n}")
    dims = list(kind.dims)
    dims[dim1], dims[dim2] = dims[dim2], dims[dim1]
    n.type = get_greatest_upper_bound(n.type, TensorType(dims))
    return n.type


@register_inference_rule(torch.reshape)
def reshape_inference_rule(n: Node) -> TensorType:
    """Give the result the sizes that are asked for.

    Raises:
        TypeError: The input has not so many elements; where sizes are unknown, a number that cannot be.
    """
    kind = _input(n).type
    wanted = n.args[1]
    assert isinstance(wanted, list), f"Expected list, got {type(wanted)}"
    result = TensorType([Dyn if size == -1 else size for size in wanted])
    if kind != Dyn:
        if not isinstance(kind, TensorType):
            raise TypeError(f"Cannot reshape in node {n} from {kind} to {result}")
        known = functools.reduce(operator.mul, [1 if size == Dyn else size for size in kind.dims])
        asked: Any = functools.reduce(operator.mul, wanted)  # type: ignore[arg-type] - sizes.
        if known % asked and asked % known:
            raise TypeError(f"Cannot reshape in node {n} from {kind} to {result}")
    n.type = result
    return result


def _misapplied(n: Node, module: Any, kind: Any) -> TypeError:
    return TypeError(f"Cannot apply {module} with input type {kind} and existing type {n.type} on {n}")


@register_inference_rule(nn.BatchNorm2d)
def bn2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Give a batch norm's result the type of its input, with four dimensions.

    Raises:
        TypeError: The input has other dimensions or another number of features.
    """
    source = _input(n)
    source.type = kind = expand_to_tensor_dim(source.type, 4)
    n.type = own = expand_to_tensor_dim(n.type, 4)
    features = module_instance.num_features
    if not (
        is_consistent(kind.dims[1], features) and is_consistent(own.dims[1], features) and is_consistent(kind, own)
    ):
        raise _misapplied(n, module_instance, kind)
    n.type = get_greatest_upper_bound(kind, own)
    return n.type


@register_inference_rule(nn.Conv2d)
def conv2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Give a convolution's result the sizes that follow from its input's.

    Raises:
        TypeError: The input has other dimensions or another number of channels.
    """
    source = _input(n)
    source.type = kind = expand_to_tensor_dim(source.type, 4)
    own = expand_to_tensor_dim(n.type, 4)
    batch, channels, *sizes = kind.dims
    if not is_consistent(channels, module_instance.in_channels):
        raise _misapplied(n, module_instance, kind)
    made = (calculate_out_dimension(size, module_instance, index) for index, size in enumerate(sizes))
    n.type = get_greatest_upper_bound(TensorType((batch, module_instance.out_channels, *made)), own)
    return n.type


def _join_with_input(n: Node, result_of: Callable[[TensorType], TensorType]) -> Any:
    """Give a node what follows from its input's type, which has as many dimensions as the node's own if it has one."""
    source = _input(n)
    if source.type == Dyn and isinstance(n.type, TensorType):
        source.type = expand_to_tensor_dim(source.type, len(n.type.dims))
    if isinstance(source.type, TensorType):
        n.type = get_greatest_upper_bound(result_of(source.type), n.type)
    return n.type


@register_inference_rule(nn.ReLU)
def relu_inference_rule(n: Node, module_instance: Any) -> Any:  # noqa: ARG001 - a rule's parameter.
    """Give the result the type of the input."""
    return _join_with_input(n, lambda kind: kind)


@register_inference_rule(nn.MaxPool2d)
def maxpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Give the result the sizes that pooling leaves of the input's."""
    return _join_with_input(n, lambda kind: maxpool2d_check(kind, module_instance))


@register_inference_rule(nn.Linear)
def linear_inference_rule(n: Node, module_instance: Any) -> Any:
    """Give the result the sizes of the input, with other features."""
    return _join_with_input(n, lambda kind: linear_check(kind, module_instance))


@register_inference_rule(nn.AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Give the result the sizes of the input, with the height and width of the layer."""
    return _join_with_input(n, lambda kind: adaptiveavgpool2d_check(kind, module_instance))


@register_inference_rule(torch.flatten)
def flatten_inference_rule(n: Node) -> Any:
    """Give the result the sizes of the input, some dimensions in one."""
    return _join_with_input(n, lambda kind: flatten_check(kind, *_flattened(n)))


def _flattened(n: Node) -> tuple[int, int]:
    """The first and the last dimension of those that ``flatten`` makes one; as in torch.fx from 1 on if unsaid."""
    ends = [1, -1]
    for place, dim in enumerate(n.args[1:3]):
        assert isinstance(dim, int), f"Expected int, got {type(dim)}"
        ends[place] = dim
    return ends[0], ends[1]


class GraphTypeChecker:
    """Gives all nodes of a graph a type."""

    def __init__(self, env: dict[str, Any], traced: GraphModule) -> None:
        self.env = env
        self.traced = traced

    def type_check(self) -> bool:
        """Give every node its type; return True.

        Raises:
            TypeError: Types contradict each other.
            RuntimeError: There is no rule for what a node calls.
            NotImplementedError: A node calls a method.
        """
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Give a node its type, whose inputs have theirs, and return it."""
        if n.type is None:
            n.type = Dyn
        match n.op:
            case "placeholder":
                pass
            case "get_attr":
                value: Any = get_parameter(self.traced, str(n.target))
                if isinstance(value.data, torch.Tensor):
                    n.type = TensorType(value.data.shape)
            case "call_function":
                if n.target not in _INFERENCE_RULES:
                    raise RuntimeError(f"No inference rule registered for target {n.target}!")
                rule = _INFERENCE_RULES[n.target]
                return rule(n, self.traced) if n.target is getattr else rule(n)
            case "call_module":
                module = self.traced.get_submodule(str(n.target))
                if type(module) not in _INFERENCE_RULES:
                    raise RuntimeError(f"No inference rule registered for class {type(module)}!")
                return _INFERENCE_RULES[type(module)](n, module)
            case "output":
                n.type = _types_of(n)
            case method:
                raise NotImplementedError(f"Method {method} not yet implemented")
        return n.type


def _types_of(output: Node) -> Any:
    return map_arg(output.args[0], lambda node: node.type)


def _tensor_types(n: Node) -> tuple[TensorType, TensorType] | None:
    """The types of the input and of the node, if both are those of tensors."""
    kind = _input(n).type
    return (kind, n.type) if isinstance(kind, TensorType) and isinstance(n.type, TensorType) else None


def _first_equal(n: Node, count: int | None) -> list[Any]:
    types = _tensor_types(n)
    if types is None:
        return []
    count = len(types[0].dims) if count is None else count
    return [Equality(types[0].dims[place], types[1].dims[place]) for place in range(count)]


@register_refinement_rule(nn.Conv2d)
def conv_refinement_rule(n: Node) -> list[Any] | None:
    """Return that the first sizes of input and result are equal; None if they are not known to be tensors."""
    return _first_equal(n, 1) or None


@register_refinement_rule(nn.Linear)
def linear_refinement_rule(n: Node) -> list[Any]:
    """Return that the first sizes of input and result are equal."""
    return _first_equal(n, 1)


@register_refinement_rule(nn.BatchNorm2d)
@register_refinement_rule(nn.ReLU)
def all_eq(n: Node) -> list[Any]:
    """Return that all sizes of input and result are equal."""
    return _first_equal(n, None)


@register_refinement_rule(nn.AdaptiveAvgPool2d)
@register_refinement_rule(nn.MaxPool2d)
def first_two_eq(n: Node) -> list[Any]:
    """Return that the first two sizes of input and result are equal."""
    return _first_equal(n, 2)


@register_refinement_rule(torch.add)
@register_refinement_rule(operator.add)
def element_wise_eq(n: Node) -> list[Any]:
    """Return that sizes of the result are equal to those of the inputs where these, broadcast, are equal.

    That is learned of variables only after they were unified, so it takes a second round.
    """
    first, second = n.args[:2]
    if not (isinstance(first, Node) and isinstance(second, Node)):
        return []
    types = (first.type, second.type, n.type)
    if not all(isinstance(kind, TensorType) for kind in types):
        return []
    one, other = broadcast_types(first.type, second.type)
    assert isinstance(n.type, TensorType)
    return [Equality(x, z) for x, y, z in zip(one.dims, other.dims, n.type.dims, strict=False) if x == y]


@register_refinement_rule(torch.flatten)
def flatten_refinement_rule(n: Node) -> list[Any]:
    """Return that sizes before and after the dimensions that become one are equal."""
    start, end = _flattened(n)
    types = _tensor_types(n)
    if types is None:
        return []
    before, after = types
    rank = len(after.dims)
    start = rank if start == -1 else start
    end = rank + end + 1 if end < 0 else end + 1
    pairs = [
        *zip(after.dims[:start], before.dims[:start], strict=False),
        *zip(after.dims[end:], before.dims[end:], strict=False),
    ]
    return [Equality(made, given) for made, given in pairs]


@register_algebraic_expressions_inference_rule(nn.Conv2d)
def conv_rule(n: Node, module_instance: Any) -> TensorType | None:
    """Give a convolution's result its height and width as expressions of the input's, and return its type."""
    types = _tensor_types(n)
    if types is None:
        return None
    sizes = (calculate_out_dimension(types[0].dims[2 + index], module_instance, index) for index in (0, 1))
    n.type = TensorType((types[1].dims[0], types[1].dims[1], *sizes))
    return n.type


class Refine:
    """Puts variables in place of what is unknown, and collects which of them are equal.

    Attributes:
        constraints: What is equal.
        traced: The graph module, which has been type checked.
        symbol_iter: The numbers of new variables.
    """

    def __init__(self, traced: Any) -> None:
        self.constraints: list[Any] = []
        self.traced = traced
        self.symbol_iter = itertools.count(start=0, step=1)

    def refine(self) -> bool:
        """Put variables in all types and collect what is equal; return True."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def symbolic_relations(self) -> bool:
        """Put symbols in place of variables, and expressions where sizes follow from others; return True."""
        for node in self.traced.graph.nodes:
            self.infer_symbolic_relations(node)
        return True

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """Return a type with new variables in place of what is unknown."""
        return _replaced(typ, lambda part: Var(next(self.symbol_iter)) if part == Dyn else part)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """Return a type with symbols in place of variables."""
        return _replaced(typ, lambda part: sympy.symbols(str(part)) if isinstance(part, Var) else part)

    def refine_node(self, n: Node) -> Any:
        """Put variables in a node's type and collect what its rule says; return the types of an output."""
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        rule, _ = self._rule(_REFINEMENT_RULES, n)
        if rule is not None:
            self.constraints += rule(n) or ()
        if n.op != "output":
            return None
        n.type = _types_of(n)
        return n.type

    def infer_symbolic_relations(self, n: Node) -> Any:
        """Put symbols in a node's type and apply its rule; return what that does, or the types of an output."""
        n.type = self.convert_to_sympy_symbols(n.type)
        rule, rest = self._rule(_RULES, n)
        if rule is not None:
            return rule(n, *rest)
        if n.op != "output":
            return None
        n.type = _types_of(n)
        return n.type

    def _rule(
        self, rules: dict[Any, Callable[..., Any]], n: Node
    ) -> tuple[Callable[..., Any] | None, tuple[nn.Module, ...]]:
        """The rule for what a node calls, if there is one, and the module if it calls one."""
        if n.op == "call_function":
            return rules.get(n.target), ()
        if n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            return rules.get(type(module)), (module,)
        return None, ()


def _replaced(typ: Any, replacement: Callable[[Any], Any]) -> Any:
    """A type with other things in place of its parts."""
    match typ:
        case TensorType():
            return TensorType(tuple(_replaced(part, replacement) for part in typ.dims))
        case list():
            return [_replaced(part, replacement) for part in typ]
        case tuple():
            return tuple(_replaced(part, replacement) for part in typ)
        case _:
            return replacement(typ)


def get_parameter(traced: Any, target: str) -> nn.Parameter:
    """Return the parameter with the qualified name ``target``.

    Raises:
        AttributeError: There is none.
    """
    path, _, name = target.rpartition(".")
    module: nn.Module = traced.get_submodule(path)
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
