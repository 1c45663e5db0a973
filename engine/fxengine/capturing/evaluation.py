"""Carrying out an operation on tensors without data.

The rules of `shape_rules` answer for most calls; torch's own meta kernels for the others. Where devices matter, as
under autocast, torch's fake tensors do it, which are slow.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from fxengine.shape_rules import answer, check_types
from fxengine.shape_rules.arranging import with_places

__all__ = ["PACKING", "READS_DATA", "changed_by", "evaluate", "mutates"]

_PACK: Final[Any] = vars(torch)["_pack_padded_sequence"]
_UNPACK: Final[Any] = vars(torch)["_pad_packed_sequence"]

PACKING: Final = frozenset({_PACK, _UNPACK})
"""Functions of which some results follow from lengths alone, and have data where these have some."""

READS_DATA: Final[Mapping[Callable[..., Any], torch.dtype]] = {
    Tensor.__getitem__: torch.bool,
    Tensor.__setitem__: torch.bool,
    **dict.fromkeys(PACKING, torch.int64),
}
"""Functions that look at the data of constants of a type, as these say how large the results are."""

_MOVES: Final = frozenset({Tensor.cpu, Tensor.cuda, Tensor.xpu, Tensor.pin_memory})
_DATA_TYPES: Final = {
    f"torch.{name}Tensor": dtype
    for name, dtype in {
        "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
        "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
        "Bool": torch.bool,
    }.items()
}  # fmt: skip


def evaluate(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device
) -> Any:
    """What a function returns for arguments without data; `device` is where they would lie if they had any.

    Raises:
        Exception: Whatever the function raises, also because it wants to see data.
    """
    if function in _MOVES:
        return args[0]
    if function is Tensor.to:
        return _to(args, kwargs)
    if torch._C._is_any_autocast_enabled():
        return _on_fake_tensors(function, args, kwargs, device)
    special = _SPECIAL.get(function)
    if special is not None:
        return special(*args, **kwargs)
    check_types(function, args)
    result = answer(function, args, kwargs)
    if result is not None:
        return result
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": "meta"}
    return function(*args, **kwargs)


def mutates(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function changes its first argument, or one that it is given for that."""
    name = getattr(function, "__name__", "")
    if name.endswith("_"):
        return not name.endswith("__") or name == "__setitem__" or name in _IN_PLACE_OPERATORS
    schema = getattr(function, "_schema", None)
    return "out" in kwargs or bool(kwargs.get("inplace")) or (schema is not None and schema.is_mutable)


def changed_by(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors among a call's arguments that it changes."""
    option = _CHANGES_STATISTICS.get(function)
    if option is not None:
        return [each for each in args[1:3] if isinstance(each, Tensor)] if kwargs.get(option, False) else []
    found = (*args[:1], kwargs.get("out")) if mutates(function, kwargs) else ()
    return [each for each in found if isinstance(each, Tensor)]


_CHANGES_STATISTICS: Final[Mapping[Callable[..., Any], str]] = {
    nn.functional.batch_norm: "training",
    nn.functional.instance_norm: "use_input_stats",
}
"""Functions that change their second and third arguments, with the option that says that they do."""

_IN_PLACE_OPERATORS: Final = frozenset({
    "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__", "__ipow__", "__iand__", "__ior__",
    "__ixor__", "__ilshift__", "__irshift__", "__idiv__",
})  # fmt: skip


def _to(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """A tensor of another type, which lies where it lies."""
    wanted = [*args[1:], *(value for name, value in kwargs.items() if name in {"dtype", "other"})]
    dtypes = [
        each.dtype if isinstance(each, Tensor) else each for each in wanted if isinstance(each, torch.dtype | Tensor)
    ]
    named = {name: value for name, value in kwargs.items() if name in {"memory_format", "copy"}}
    return Tensor.to(args[0], dtypes[0] if dtypes else args[0].dtype, **named)


def _type(x: Tensor, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if dtype is None:
        return _DATA_TYPES_BY_DTYPE.get(x.dtype, "torch.FloatTensor")
    if isinstance(dtype, torch.dtype):
        return x.to(dtype)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    # The class of all tensors stands for those of the default type.
    return x.to(
        torch.get_default_dtype() if name == "torch.Tensor" else _DATA_TYPES[name.replace("torch.cuda.", "torch.")]
    )


_DATA_TYPES_BY_DTYPE: Final = {dtype: name for name, dtype in _DATA_TYPES.items()}


def _set_item(x: Tensor, key: Any, value: Any) -> None:
    """Assigning changes no shape; only where no mask selects can it be seen whether the value fits."""
    keys = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(each, Tensor) and each.dtype is torch.bool for each in keys):
        Tensor.__setitem__(x, with_places(key), value)


def _repeat_interleave(x: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    if isinstance(repeats, Tensor) and not repeats.is_meta and output_size is None:
        if dim is None:
            x, dim = x.flatten(), 0
        total = int(repeats.sum()) * (x.shape[dim] if repeats.numel() == 1 else 1)
        shape = list(x.shape)
        shape[dim] = total
        return torch.empty(shape, dtype=x.dtype, device="meta")
    return torch.repeat_interleave(x, repeats, dim, output_size=output_size)


def _packed(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """The steps of sequences, one after the other, and how many sequences have each: the latter has data."""
    if lengths.is_meta:
        raise DataDependentOutputException(_PACK)
    rows, sizes = _PACK(torch.empty((*x.shape[:2], 1)), lengths, batch_first)
    return torch.empty((len(rows), *x.shape[2:]), dtype=x.dtype, device="meta"), sizes


def _unpacked(
    x: Tensor,
    sizes: Tensor,
    batch_first: bool,
    padding: Any,
    length: int,
) -> tuple[Tensor, Tensor]:
    """The sequences, and how long each is: the latter has data."""
    if sizes.is_meta:
        raise DataDependentOutputException(_UNPACK)
    padded, lengths = _UNPACK(torch.empty(x.shape[0], 1), sizes, batch_first, padding, length)
    return torch.empty((*padded.shape[:2], *x.shape[1:]), dtype=x.dtype, device="meta"), lengths


def _recurrent(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a recurrent layer makes of packed sequences, whose kernel looks at how many there are of each step."""

    def run(x: Tensor, second: Any, third: Any, *rest: Any) -> Any:
        if not isinstance(rest[0], list | tuple):
            return function(x, second, third, *rest)
        states = tuple(
            torch.empty_like(each, device="meta") for each in ([third] if isinstance(third, Tensor) else third)
        )
        directions = 2 if rest[-1] else 1
        return x.new_empty((x.shape[0], states[0].shape[-1] * directions)), *states

    return run


_SPECIAL: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    Tensor.type: _type,
    Tensor.__setitem__: _set_item,
    torch.repeat_interleave: _repeat_interleave,
    Tensor.repeat_interleave: _repeat_interleave,
    _PACK: _packed,
    _UNPACK: _unpacked,
    **{each: _recurrent(each) for each in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)},
}


def _on_fake_tensors(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device
) -> Any:
    """What a function returns where the device of its arguments matters."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    known: dict[int, Tensor] = {}

    def faked(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        fake = FakeTensor(mode, tensor.detach(), device)
        known[id(fake)] = tensor
        return fake

    def plain(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, FakeTensor):
            return tensor
        original = known.get(id(tensor))
        if original is not None:
            return original
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    given, named = pytree.tree_map_only(Tensor, faked, (tuple(args), dict(kwargs)))
    with mode:
        result = function(*given, **named)
    return pytree.tree_map_only(Tensor, plain, result)
