"""Runs PyTorch code for its shapes alone: what is large has no data, what is small stays real.

A stand-in for fake tensors that is cheap enough for every keystroke. Tensors that depend on the inputs have no
data; constants, buffers and whatever is computed from sizes keep their values, so code that reads *them* goes on
working. To the code that runs, everything seems to lie on the CPU. Reading data that depends on the inputs raises,
and ``needs_data`` recognises that. The module's parameters and buffers are not changed, whatever the code does to
them.
"""

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, maybe_get_bdim, maybe_get_level
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from fxengine.errors import text_of
from fxengine.hierarchy import modules_of
from fxengine.lazy_modules import lazy_among
from fxengine.shape_rules import REFUSALS, RULES, answer, check_types

__all__ = ["ShapesOnly", "needs_data", "to_meta", "wants_gradients"]

_REAL_LIMIT = 1 << 16
"""The most elements that a constant may have and still be made for real."""

_REAL_PARAMETER_LIMIT = 64
"""The same for parameters: a learned scale may be read, a weight is not."""

_PROPERTIES = frozenset(
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "ndim", "layout", "requires_grad", "is_sparse", "is_quantized", "grad")
) | {
    Tensor.size,
    Tensor.dim,
    Tensor.ndimension,
    Tensor.numel,
    Tensor.stride,
    Tensor.is_floating_point,
    Tensor.is_complex,
    Tensor.is_contiguous,
    Tensor.element_size,
    torch.is_tensor,
    torch.is_floating_point,
    torch.is_complex,
    torch.numel,
}
"""Questions that any tensor answers alike, data or no data."""

_SIZED_CONSTRUCTORS = frozenset({torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn})
_FILLED_CONSTRUCTORS = frozenset({torch.full})
_OTHER_CONSTRUCTORS = frozenset({
    torch.arange,
    torch.linspace,
    torch.logspace,
    torch.eye,
    torch.tensor,
    torch.as_tensor,
    torch.from_numpy,
    torch.randint,
    torch.randperm,
    torch.tril_indices,
    torch.triu_indices,
    torch.hann_window,
    torch.hamming_window,
})  # fmt: skip
_CONSTRUCTORS = _SIZED_CONSTRUCTORS | _FILLED_CONSTRUCTORS | _OTHER_CONSTRUCTORS

_FILLED: Mapping[Callable[..., Any], int | None] = {
    Tensor.new_zeros: 0, torch.zeros_like: 0, Tensor.new_ones: 1, torch.ones_like: 1,
    Tensor.new_full: None, torch.full_like: None,
}  # fmt: skip
"""What makes a tensor that has of another only the type, or the shape as well, and the number that it is full of."""

_CONVERSIONS = frozenset({Tensor.to, Tensor.type_as})
_MOVES = _CONVERSIONS | {Tensor.cpu, Tensor.cuda, Tensor.xpu, Tensor.pin_memory}
_CPU = torch.device("cpu")

_OF_LENGTHS = frozenset({
    torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence, torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh,
    torch._VF.rnn_relu,
})  # fmt: skip
"""What has to know how long sequences are, or how many are as long, whether it computes with data or not."""


class ShapesOnly(TorchFunctionMode):
    """While active, code runs on tensors without data as it would on the CPU.

    Example:
        >>> with ShapesOnly():
        ...     torch.nn.Linear(4, 8)(torch.empty(2, 4, device="meta")).shape
        torch.Size([2, 8])

    Attributes:
        calls: How many torch functions were called, questions about metadata apart: a measure of how far a run came.
        current: The function that was called last, and its arguments; after an exception the one that raised.
    """

    def __init__(self, module: torch.nn.Module | None = None, real_limit: int = _REAL_LIMIT) -> None:
        """Protect the parameters and buffers of ``module`` against changes; keep up to so many elements real."""
        super().__init__()
        self._real_limit = real_limit
        self.calls = 0
        self.current: tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]] | None = None
        self._twins: dict[int, tuple[Tensor, Tensor]] = {}
        self._overwritten: set[int] = set()
        self._state = _state_of(module) if module is not None else frozenset[int]()
        self._lazy = lazy_among(modules_of(module)) if module is not None else []

    @property
    def has_overwritten(self) -> bool:
        """Whether something of the module was changed in place, and has no data since."""
        return bool(self._overwritten)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for each in self._lazy:
            each.restore()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _PROPERTIES:
            return func(*args, **kwargs)
        if func == _DEVICE_OF:
            return _CPU if args[0].is_meta else func(*args)
        if func == _IS_META:
            return False
        if func == _SET_DATA and is_lazy(args[0]):  # It gets its data where it lies.
            return func(args[0], torch.empty_like(args[1], device=args[0].device))
        self.calls += 1
        self.current = (func, args, kwargs)
        if func in _CONSTRUCTORS:
            return _construct(func, args, kwargs)
        if func in _MOVES:
            return self._move(func, args, kwargs)
        if func is Tensor.type and args[0].is_meta:
            return _typed(*args, **kwargs)
        made = _filled(func, args, kwargs) if func in _FILLED else None
        return self._carried_out(func, args, kwargs) if made is None else made

    def _carried_out(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what a function returns, without data if one of the tensors that it is given has none."""
        alike, named = self._agree(func, args, kwargs)
        check_types(func, alike)
        if func in REFUSALS:
            REFUSALS[func](*alike, **named)
        given = alike or tuple(named.values())
        if func in RULES and given and all(value.is_meta for value in _flat(given) if isinstance(value, Tensor)):
            result = answer(func, alike, named)
            if result is not None:
                return result
        try:
            return func(*alike, **named)
        except RuntimeError as error:
            numbers = [each for each in _flat((*args, *kwargs.values())) if _is_number(each)]
            if not numbers or not needs_data(error):
                raise
            alike, named = self._agree(func, args, kwargs, {id(number) for number in numbers})
            return func(*alike, **named)

    def _move(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Change a tensor's type, but not where it lies."""
        if func not in _CONVERSIONS:
            return args[0]
        wanted = [value for value in (*args[1:], *kwargs.values()) if isinstance(value, torch.dtype | Tensor)]
        dtypes = [value.dtype if isinstance(value, Tensor) else value for value in wanted]
        named = {key: value for key, value in kwargs.items() if key == "memory_format"}
        return args[0].to(*dtypes, **named) if dtypes or named else args[0]

    def _agree(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        kept: Container[int] = (),
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments with all tensors without data if one of them has none, those apart that are kept."""
        tensors = [value for value in _flat((*args, *kwargs.values())) if isinstance(value, Tensor)]
        hollow = [self._is_hollow(tensor) for tensor in tensors]
        if not any(hollow) and _are_together(tensors) > self._real_limit:
            hollow = [True] * len(tensors)
        mutates = bool(tensors) and _mutates(func)
        if mutates and any(hollow) and not hollow[0]:
            self._overwritten.add(id(tensors[0]))  # Kept alive, and so its id, by its twin.
        if not any(hollow) and not (mutates and id(tensors[0]) in self._state):
            return args, kwargs
        if all(tensor.is_meta for tensor in tensors):
            return args, kwargs
        keep = torch.int64 if func in _OF_LENGTHS else None
        if func is Tensor.__getitem__ and hollow[0]:
            keep = torch.bool
        return (
            tuple([self._hollow(value, keep, kept) for value in args]),
            {key: self._hollow(value, keep, kept) for key, value in kwargs.items()},
        )

    def _is_hollow(self, tensor: Tensor) -> bool:
        """Whether a tensor has no data, or is treated so as it is large or was overwritten by one without."""
        if tensor.is_meta:
            return True
        if is_lazy(tensor):
            return False
        limit = _REAL_PARAMETER_LIMIT if isinstance(tensor, torch.nn.Parameter) else self._real_limit
        return tensor.numel() > limit or id(tensor) in self._overwritten

    def _hollow(self, value: Any, keep: torch.dtype | None, kept: Container[int]) -> Any:
        """Return ``value`` with the tensors in it replaced by meta ones, those of type ``keep`` and the kept apart."""
        match value:
            case Tensor():
                return value if value.is_meta or value.dtype is keep or id(value) in kept else self._twin(value)
            case list() | tuple() if any(isinstance(item, Tensor | list | tuple) for item in value):
                items = [self._hollow(item, keep, kept) for item in value]
                return items if isinstance(value, list) else tuple(items)
            case _:
                return value

    def _twin(self, tensor: Tensor) -> Tensor:
        """Return the one meta tensor that stands for ``tensor``."""
        known = self._twins.get(id(tensor))
        if known is None:
            known = self._twins[id(tensor)] = (tensor, to_meta(tensor))
        return known[1]


_DEVICE_OF = Tensor.device.__get__  # pyright: ignore[reportAttributeAccessIssue] - a C descriptor, not typed as one.
_IS_META = Tensor.is_meta.__get__  # pyright: ignore[reportAttributeAccessIssue] - likewise.
_SET_DATA: Any = vars(torch._C.TensorBase)["data"].__set__


def _state_of(module: torch.nn.Module) -> frozenset[int]:
    """The identities of the parameters and buffers of a module and all that are in it."""
    registries = (values for each in modules_of(module) for values in (each._parameters, each._buffers))
    return frozenset(id(tensor) for values in registries for tensor in values.values())


def to_meta(tensor: Tensor) -> Tensor:
    """Return a tensor like ``tensor``, strides included, but without data."""
    return tensor if tensor.is_meta else tensor.detach().to("meta")


def needs_data(error: BaseException) -> bool:
    """Whether ``error`` says that data was wanted that is not there: no fault of the code that ran."""
    message = text_of(error)
    return any(phrase in message for phrase in _DATA_IS_MISSING) and not _IS_NO_SIZE.search(message)


def wants_gradients(error: BaseException) -> bool:
    """Whether ``error`` says that gradients were wanted of which no account was kept."""
    return "does not require grad and does not have a grad_fn" in text_of(error)


_DATA_IS_MISSING = (
    "cannot be called on meta tensors",
    "Cannot copy out of meta tensor",
    "can't convert meta device type tensor to numpy",
    "attempted to run this operator with Meta tensors",
    "raises unimplemented by default, as a correct data-independent implementation does not exist",
    "cannot repeat_interleave a meta tensor",
    "Meta' backend",  # Of 'Meta', 'SparseMeta' and their like.
    "its data is not allocated yet",
    "unsupported format string passed to Tensor.__format__",
    "argument should be a 1D CPU int64 tensor, but got 1D meta",
    "failed to unpack the object at pos",  # A size that is a tensor.
)
_IS_NO_SIZE = re.compile(r"tuple of ints, ?but got (?!Tensor)")
"""What is said of a size that is no whole number, whatever the data are."""


def _typed(tensor: Tensor, dtype: Any = None, **_kwargs: Any) -> Any:
    """Return the name of a tensor's type as it is on the CPU, or the tensor in the type that has such a name."""
    if dtype is None:
        return Tensor.type(tensor).replace(".meta.", ".")
    found = next((known for known, names in _TYPE_NAMES.items() if dtype in names), None)
    return tensor.to(found) if found is not None else Tensor.type(tensor, dtype)


_TYPE_NAMES = {
    known: {known, f"torch.{name}", f"torch.cuda.{name}", getattr(torch, name)}
    for known, name in (
        (torch.float32, "FloatTensor"), (torch.float64, "DoubleTensor"), (torch.float16, "HalfTensor"),
        (torch.int64, "LongTensor"), (torch.int32, "IntTensor"), (torch.uint8, "ByteTensor"),
        (torch.bool, "BoolTensor"),
    )
}  # fmt: skip
"""What the types of tensors are called by old code."""


def _is_number(value: Any) -> bool:
    """Whether a value is a tensor of one whole number, with data: a size may follow from it."""
    return isinstance(value, Tensor) and not value.is_meta and not value.dim() and not value.is_floating_point()


def _are_together(tensors: list[Tensor]) -> int:
    """Return how many elements tensors make together, as rows and columns do, also those of a `vmap`."""
    if len(tensors) < 2:
        return 0
    longest = max(tensor.dim() for tensor in tensors)
    sizes: dict[int, int] = {}
    for tensor in tensors:
        for place, size in enumerate(tensor.shape, longest - tensor.dim()):
            sizes[place] = max(size, sizes.get(place, 1))
        inner = tensor
        while is_batchedtensor(inner):
            level, dimension, inner = maybe_get_level(inner), maybe_get_bdim(inner), get_unwrapped(inner)
            sizes[-level] = inner.shape[dimension]
    return math.prod(sizes.values())


def _mutates(func: Callable[..., Any]) -> bool:
    name = getattr(func, "__name__", "")
    return func is Tensor.__setitem__ or (name.endswith("_") and not name.endswith("__"))


def _flat(values: Iterable[Any]) -> list[Any]:
    """Return ``values`` with lists and tuples among them replaced by what they hold."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            flat.extend(_flat(value))
        else:
            flat.append(value)
    return flat


def _construct(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Make a new tensor: really if it is small, wherever the code wanted to put it.

    Raises:
        RuntimeError: No device has such a number.
    """
    device = kwargs.get("device")
    if type(device) is int and device < 0:  # What a tensor on the CPU answers to `get_device`.
        raise RuntimeError("Device index must not be negative")
    if func is torch.from_numpy or str(device) == "meta":
        return func(*args, **kwargs)
    is_large = func in _SIZED_CONSTRUCTORS | _FILLED_CONSTRUCTORS and _elements(func, args, kwargs) > _REAL_LIMIT
    return func(*args, **{**kwargs, "device": "meta" if is_large else "cpu"})


def _filled(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """Return a small tensor of whole numbers with data, made after one that has none; None if it is another."""
    if (
        not args
        or not args[0].is_meta
        or is_batchedtensor(args[0])
        or (kwargs.get("dtype") or args[0].dtype).is_floating_point
    ):
        return None
    made = func(*args, **{**kwargs, "device": "meta"})
    number = _FILLED[func]
    if number is None:
        number = kwargs.get("fill_value", args[-1])
    is_known = isinstance(number, int) and made.numel() <= _REAL_LIMIT and not made.is_floating_point()
    return torch.full(made.shape, number, dtype=made.dtype) if is_known else None


def _elements(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    size = kwargs.get("size", args[:1] if func in _FILLED_CONSTRUCTORS else args)
    numbers = [number for number in _flat([size]) if isinstance(number, int)]
    return math.prod(numbers)
