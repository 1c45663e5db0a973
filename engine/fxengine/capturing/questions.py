"""What code asks a tensor without computing another one: its metadata, which are known, and its data, which are not.

The keys are the functions that torch hands to a `TorchFunctionMode`; for a property that is its getter.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

__all__ = [
    "DATA",
    "DETACHED",
    "EQUAL",
    "GRADIENTS",
    "METADATA",
    "PIECES",
    "PLACES",
    "SHAPE",
    "Kind",
    "asked_of_shape",
    "functions",
]

Kind: TypeAlias = Literal["shape", "dtype", "device", "layout", "requires_grad", ""]
"""What a graph is specialised on where the answer decides something; empty for what the same code always answers."""


def functions(names: str, *owners: Any) -> list[Callable[..., Any]]:
    """The functions, methods and getters of these names, as far as this version of torch has them."""
    found = [getattr(owner, name, None) for owner in owners for name in names.split()]
    return [each if callable(each) else each.__get__ for each in found if each is not None]


METADATA: Final[dict[Callable[..., Any], Kind]] = {
    **dict.fromkeys(
        functions("shape ndim size dim ndimension numel nelement __len__ nbytes is_same_size", Tensor), "shape"
    ),
    **dict.fromkeys(functions("stride is_contiguous storage_offset is_non_overlapping_and_dense", Tensor), "shape"),
    **dict.fromkeys(functions("numel", torch), "shape"),
    **dict.fromkeys(
        functions("dtype is_floating_point is_complex is_signed element_size itemsize is_quantized", Tensor), "dtype"
    ),
    **dict.fromkeys(functions("is_floating_point is_complex is_signed", torch), "dtype"),
    **dict.fromkeys(functions("layout is_sparse is_nested is_sparse_csr is_mkldnn", Tensor), "layout"),
    **dict.fromkeys(functions("requires_grad is_leaf grad_fn", Tensor), "requires_grad"),
    **dict.fromkeys(
        functions(
            "grad names _version _base is_inference is_conj is_neg is_shared is_pinned has_names __hash__ data_ptr "
            "__repr__ __str__ output_nr is_set_to __dir__ retains_grad _is_view untyped_storage",
            Tensor,
        ),
        "",
    ),
    **dict.fromkeys(functions("is_conj is_neg is_inference", torch), ""),
    **dict.fromkeys(functions("result_type", torch), "dtype"),
}
"""Questions that a tensor without data answers as any other does."""

GRADIENTS: Final[dict[Callable[..., Any], str]] = dict(
    zip(functions("requires_grad is_leaf grad_fn", Tensor), ("requires_grad", "is_leaf", "grad_fn"), strict=True)
)
"""The questions whether gradients flow through a tensor."""

SHAPE: Final = functions("shape", Tensor)[0]
"""The question for all sizes, of which the code may then read one."""

EQUAL: Final = frozenset(functions("equal", torch, Tensor))
"""The question whether all numbers of two tensors are the same."""

PIECES: Final[Mapping[Callable[..., Any], int]] = {
    **dict.fromkeys(functions("unbind", Tensor, torch), 1),
    **dict.fromkeys(functions("split chunk unsafe_split unsafe_chunk", Tensor, torch), 2),
}
"""Functions that return as many tensors as a size says, with the place of the argument that names the dimension."""

_LENGTH: Final = frozenset(functions("__len__", Tensor))
_RANK: Final = frozenset(functions("ndim dim ndimension", Tensor))


def asked_of_shape(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return which part of a tensor's shape a question is about: `shape[1]`, `ndim`, or `shape`."""
    place = PIECES.get(function)
    if place is not None:
        return f"shape[{kwargs.get('dim', args[place] if len(args) > place else 0)}]"
    if function in _RANK:
        return "ndim"
    if function in _LENGTH:
        return "shape[0]"
    if function is Tensor.size and len(args) == 2 and type(args[1]) is int:
        return f"shape[{args[1]}]"
    return "shape"


PLACES: Final[dict[Callable[..., Any], Callable[[torch.device], Any]]] = {
    getter: answer
    for name, answer in {
        "device": lambda device: device,
        "is_meta": lambda _: False,
        "is_cpu": lambda device: device.type == "cpu",
        "is_cuda": lambda device: device.type == "cuda",
        "is_xpu": lambda device: device.type == "xpu",
        "is_mps": lambda device: device.type == "mps",
        "is_xla": lambda _: False,
        "is_hpu": lambda _: False,
        "is_mtia": lambda _: False,
        "is_vulkan": lambda _: False,
        "is_ipu": lambda _: False,
        "is_maia": lambda _: False,
        "get_device": lambda device: -1 if device.type == "cpu" else device.index or 0,
    }.items()
    for getter in functions(name, Tensor)
}
"""Questions about where a tensor lies, and the answers for a device: a tensor without data lies nowhere."""

DATA: Final[frozenset[Callable[..., Any]]] = frozenset(
    functions(
        "item tolist __bool__ __int__ __float__ __complex__ __index__ __contains__ __array__ numpy __format__ equal "
        "allclose is_nonzero nonzero argwhere masked_select unique unique_consecutive __reduce_ex__ __dlpack__",
        Tensor,
    )
    + functions("equal allclose is_nonzero nonzero argwhere masked_select unique unique_consecutive", torch)
)
"""Questions that only data can answer."""

DETACHED: Final[frozenset[Callable[..., Any]]] = frozenset(functions("data detach", Tensor))
"""Functions that return the same data without their history."""
