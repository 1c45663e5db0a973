"""Types of tensors of which not all sizes are known: how they are joined, broadcast, and changed by operations."""

import functools
import operator
from typing import Any, Final

import sympy

from fxengine.experimental.unification import Var
from fxengine.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

__all__ = [
    "adaptiveavgpool2d_check",
    "broadcast_types",
    "calculate_out_dimension",
    "expand_to_tensor_dim",
    "flatten_check",
    "get_greatest_upper_bound",
    "linear_check",
    "maxpool2d_check",
]

_SIZES: Final = (int, sympy.Symbol)


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """Return ``t`` as the type of a tensor with ``n`` dimensions.

    Raises:
        TypeError: It is that of another number of dimensions, or of no tensor.
    """
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise TypeError(f"Cannot match the type {t}")
    if len(t.dims) != n:
        raise TypeError(f"Cannot extend tensor. Tensor {t} has rank {len(t.dims)}. It should have rank {n}")
    return t


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Return the types to which tensors of two types are broadcast together; unknown ones as they are.

    Raises:
        TypeError: One is not that of a tensor.
    """
    if any(kind == Dyn or isinstance(kind, Var) for kind in (t1, t2)):
        return t1, t2
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    rank = max(len(t1.dims), len(t2.dims))
    first, second = ([1] * (rank - len(kind.dims)) + list(kind.dims) for kind in (t1, t2))
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        if one == 1:
            first[place] = other
        elif other == 1:
            second[place] = one
    return TensorType(tuple(first)), TensorType(tuple(second))


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """Return the type that says what either of two says; None if one is not that of a tensor.

    Raises:
        TypeError: They contradict each other.
    """
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if not (isinstance(type1, TensorType) and isinstance(type2, TensorType)):
        return None
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    pairs = zip(type1.dims, type2.dims, strict=True)
    return TensorType(tuple(one if is_more_precise(one, other) else other for one, other in pairs))


def calculate_out_dimension(d_in: Any, module_instance: Any, index: int) -> Any:
    """Return the size that a convolution or pooling layer makes of ``d_in``, in its dimension ``index``.

    As in torch.fx the stride is that of the first dimension.

    Raises:
        TypeError: ``d_in`` is neither a number, nor a symbol, nor unknown.
    """
    padding, kernel_size, stride, dilation = (
        _pair(getattr(module_instance, name)) for name in ("padding", "kernel_size", "stride", "dilation")
    )
    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, _SIZES):
        raise TypeError(f"{d_in} in {module_instance} must be a number or Dyn. Received {type(d_in)}")
    size: Any = d_in
    return (size + 2 * padding[index] - dilation[index] * (kernel_size[index] - 1) - 1) // stride[0] + 1


def _pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else value


def maxpool2d_check(typ: Any, module_instance: Any) -> TensorType:
    """Return the type of what pooling makes of a value of type ``typ``.

    Raises:
        TypeError: That has not 3 or 4 dimensions.
    """
    dims = list(typ.dims)
    if len(dims) not in {3, 4}:
        raise TypeError(f"Wrong size {typ} for {module_instance}")
    sizes = (calculate_out_dimension(dims[index - 2], module_instance, index) for index in (0, 1))
    return TensorType((*dims[:-2], *sizes))


def linear_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """Return the type of what a linear layer makes of a value of type ``tensor_type``.

    Raises:
        TypeError: That has less than 2 dimensions, or another number of features.
    """
    dims = tensor_type.dims
    if len(dims) < 2:
        raise TypeError(f"Type {tensor_type} must have rank 2 or more.")
    if not is_consistent(module_instance.in_features, dims[-1]):
        raise TypeError(f"Inconsistent {module_instance.in_features} and {dims[-1]} in {module_instance}")
    return TensorType((*dims[:-1], module_instance.out_features))


def adaptiveavgpool2d_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """Return the type of what adaptive pooling makes of a value of type ``tensor_type``.

    Raises:
        TypeError: That has not 3 or 4 dimensions.
    """
    height, width = _pair(module_instance.output_size)
    if len(tensor_type.dims) not in {3, 4}:
        raise TypeError(f"Tensor ranks must be 3 or 4. Got {tensor_type}")
    height = width if height is None else height
    return TensorType((*tensor_type.dims[:-2], height, height if width is None else width))


def flatten_check(tensor_type: Any, start_dim: int, end_dim: int) -> TensorType:
    """Return the type of a value of type ``tensor_type`` with the dimensions from the one to the other in one.

    Raises:
        TypeError: It has not so many.
    """
    rank = len(tensor_type.dims)
    start = rank if start_dim == -1 else abs(start_dim)
    end = rank + end_dim + 1 if end_dim < 0 else end_dim + 1
    if not (0 <= start <= rank - 1 and 0 <= end <= rank and start < end):
        raise TypeError(f"Incompatible dimensions {start}, {end - 1} in type {tensor_type}")
    dims = list(tensor_type.dims)
    joined = dims[start:end]
    size = Dyn if Dyn in joined else functools.reduce(operator.mul, joined)
    return TensorType((*dims[:start], size, *dims[end:]))
