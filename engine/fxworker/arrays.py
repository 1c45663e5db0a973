"""Arrays of a model that nobody has: what absent packages compute, and what files hold that are not there.

A window, a bank of filters, an adjacency matrix: a model is built with ones in their place. Their shape is read from
what the call was given; where that does not say it they are square.
"""

import contextlib
import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from fxworker.absences import ABSENCES
from fxworker.callers import is_constructing

SQUARE: Final = (64, 64)
"""The shape of an array of which nothing is known."""

_FREQUENCIES: Final = ("n_freqs", "n_stft", "num_freqs")
_BANDS: Final = ("n_mels", "num_mels", "n_mel", "n_filters", "num_filters", "n_bands", "n_mel_channels")
_TRANSFORMED: Final = ("n_fft", "fft_size", "fft_length", "filter_length", "nfft")
_LENGTHS: Final = ("size", "length", "win_length", "window_length", "n", "N", "M")
_MAKING: Final = ("from_numpy", "tensor", "as_tensor")
"""The functions of torch that make a tensor of an array."""

_JOINED: Final = ("cat", "concat", "hstack", "stack", "vstack")
"""Those that make one of several tensors."""

_TAKING_INDICES: Final = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)

_LONGEST: Final = 1 << 16
"""How long an array is at most that a number tells of."""


def shape_told(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape that an array has which is made of some arguments.

    Filters have one for each band and a place for each frequency, or turned where frequencies come first; what is told
    one length has it; what is made of an array has its shape.
    """
    numbers = {name: each for name, each in kwargs.items() if _is_length(each)}
    bands = next((numbers[each] for each in _BANDS if each in numbers), 0)
    frequencies = next((numbers[each] for each in _FREQUENCIES if each in numbers), 0)
    transformed = next((numbers[each] for each in _TRANSFORMED if each in numbers), 0)
    if bands and frequencies:
        return frequencies, bands
    if bands and transformed:
        return bands, transformed // 2 + 1
    given = [tuple(each) for each in (*args, *kwargs.values()) if _is_shape(each)]
    if given:
        return given[-1]
    told = [numbers[each] for each in _LENGTHS if each in numbers] or [each for each in args if _is_length(each)]
    if len(told) == 1:
        return (told[0],)
    shapes = (getattr(each, "shape", None) for each in (*args, *kwargs.values()))
    return next((tuple(each) for each in shapes if isinstance(each, tuple) and each), SQUARE)


def ones(shape: tuple[int, ...]) -> Any:
    """Return an array of a shape."""
    return np.ones(shape, "float32")


class _Stored(np.ndarray[Any, Any]):
    """An array of a file that is not there, which is any of several arrays too, and one of which most is zero."""

    def __getitem__(self, key: Any) -> Any:
        return self if isinstance(key, str) else super().__getitem__(key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def toarray(self) -> Self:
        """Return it with its zeros."""
        return self

    todense = toarray


def stored() -> Any:
    """Return what an array is, or several, of a file that is not there."""
    return ones(SQUARE).view(_Stored)


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 < value < _LONGEST


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(each, int) and each > 0 for each in value)


@contextlib.contextmanager
def arrays_are_made(is_array: Callable[[Any], bool]) -> Generator[None]:
    """Let the body make tensors of what stands for an array, and read files of arrays that are not there.

    Args:
        is_array: Whether a value stands for an array, which numpy can make of it.
    """
    places: list[tuple[Any, str, Callable[[Any], Any]]] = [
        *((torch, name, lambda made: _taking(made, is_array)) for name in _MAKING),
        *((torch, name, lambda joined: _joining(joined, is_array)) for name in _JOINED),
        *((place, name, lambda made: _taking(made, is_array)) for place, name in _imported()),
        (nn.Module, "register_buffer", lambda kept: _keeping(kept, is_array)),
        *((np, name, _reading) for name in ("load", "loadtxt", "genfromtxt")),
    ]
    before = [(place, name, inspect.getattr_static(place, name)) for place, name, _ in places]
    try:
        for place, name, wrapper in places:
            setattr(place, name, wrapper(getattr(place, name)))
        with _Indexing(is_array) if ABSENCES.names else contextlib.nullcontext():
            yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


class _Indexing(TorchFunctionMode):
    """Lets tensors be indexed by what stands for an array, which to torch is a sequence of sequences without end."""

    def __init__(self, is_array: Callable[[Any], bool]) -> None:
        super().__init__()
        self._is_array = is_array

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func` with indices that are any tensor's."""
        if func in _TAKING_INDICES:
            args = (args[0], tree_map_only(self._is_array, _first_indices, args[1]), *args[2:])
        return func(*args, **(kwargs or {}))


def _first_indices(value: Any) -> torch.Tensor:
    """Return indices of the shape of an array that something stands for: of what comes first, which there mostly is."""
    return torch.zeros(np.asarray(value).shape, dtype=torch.long, device="cpu")


def _imported() -> Iterator[tuple[Any, str]]:
    """Yield the modules that have imported what makes tensors by its name: `from torch import tensor`."""
    made = {name: getattr(torch, name) for name in _MAKING}
    for path, module in [*sys.modules.items()] if ABSENCES.names else ():
        if path.partition(".")[0] != torch.__name__:
            held = getattr(module, "__dict__", {})
            yield from ((module, name) for name, each in made.items() if held.get(name) is each)


def _taking(make: Callable[..., Any], is_array: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return a function that makes a tensor, also of what stands for an array."""

    @wraps(make)
    def made(data: Any, *args: Any, **kwargs: Any) -> Any:
        return make(np.asarray(data) if is_array(data) else data, *args, **kwargs)

    return made


def _joining(join: Callable[..., Any], is_array: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return a function that joins tensors, also with what stands for an array."""

    @wraps(join)
    def joined(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensors, list | tuple) and any(map(is_array, tensors)):
            tensors = [_tensor_of(each, is_array) for each in tensors]
        return join(tensors, *args, **kwargs)

    return joined


def _tensor_of(value: Any, is_array: Callable[[Any], bool]) -> Any:
    """Return a tensor of what stands for an array, anything else as it is."""
    return torch.from_numpy(np.asarray(value)) if is_array(value) else value


def _keeping(keep: Callable[..., Any], is_array: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return the method of modules that keeps a buffer, also one that an absent package makes."""

    @wraps(keep)
    def register_buffer(self: nn.Module, name: str, tensor: Any = None, *args: Any, **kwargs: Any) -> Any:
        return keep(self, name, _tensor_of(tensor, is_array), *args, **kwargs)

    return register_buffer


def _reading(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads an array from a file; in a constructor a file that is not there has ones."""

    @wraps(read)
    def loaded(*args: Any, **kwargs: Any) -> Any:
        try:
            return read(*args, **kwargs)
        except FileNotFoundError:
            if not is_constructing(inspect.currentframe()):
                raise
            return stored()

    return loaded
