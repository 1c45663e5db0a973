"""Building models without their weights: what makes a tensor makes it on the meta device, and initialisation is idle.

The shapes, types and names of a model are all that tracing needs. Code that asks for values while it builds
(`[x.item() for x in torch.linspace(0, rate, depth)]`) gets them in a second mode, where constructors that carry values
stay on the CPU. Trained weights are never
downloaded (`fxworker.offline`).
"""

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fxengine.errors import text_of
from fxengine.places import MOVING, is_accelerator, staying

_F = TypeVar("_F", bound=Callable[..., Any])

_FILLED: Final = frozenset(
    {
        torch.empty,
        torch.empty_permuted,
        torch.empty_strided,
        torch.empty_quantized,
        torch.ones,
        torch.zeros,
        torch.full,
        torch.rand,
        torch.randn,
        torch.randint,
        torch.sparse_coo_tensor,
    }
)
"""Constructors of tensors whose values matter to nobody who builds a model."""

_COUNTING: Final = frozenset({torch.ones, torch.zeros, torch.full})
_FEW: Final = 16
"""Of these, integers and truth values of which there are no more are counts, positions and flags, not weights."""

_VALUED: Final = frozenset(
    {
        torch.tensor,
        torch.as_tensor,
        torch.asarray,
        torch.arange,
        torch.range,
        torch.linspace,
        torch.logspace,
        torch.eye,
        torch.randperm,
        torch.scalar_tensor,
        torch.tril_indices,
        torch.triu_indices,
        torch.from_file,
        torch.bartlett_window,
        torch.blackman_window,
        torch.hamming_window,
        torch.hann_window,
        torch.kaiser_window,
        torch.normal,
    }
)
"""Constructors whose values code may read while it builds."""


_UNCHANGING_NAMES: Final = """
abs_ add_ bernoulli_ cauchy_ ceil_ clamp_ clamp_max_ clamp_min_ copy_ cos_ cuda div_ erfinv_ exp_ exponential_ fill_
fill_diagonal_ floor_ geometric_ log_ log_normal_ masked_fill_ mul_ neg_ normal_ pow_ random_ round_ sigmoid_ sin_ sqrt_
sub_ tanh_ tril_ triu_ uniform_ zero_
"""

_UNCHANGING: Final = frozenset(getattr(torch.Tensor, name) for name in _UNCHANGING_NAMES.split())
"""Methods that change nothing but the values of a tensor, or its device, and so nothing of one on meta."""


_SETTING_DATA: Final[Any] = inspect.getattr_static(torch.Tensor, "data").__set__
"""What `parameter.data = values` calls, which takes no values from another device."""


_OF_ROWS: Final = re.compile("xavier_|kaiming_|orthogonal_|eye_|sparse_")
_ROWS: Final = 2
"""What fills matrices, and how many dimensions these have at least."""


class OnMeta(TorchFunctionMode):
    """Makes tensors on the meta device, whatever device is asked for, and lets them stay there.

    With `values_on_cpu` only tensors that are filled uniformly or at random go there; those that carry values, such as
    `torch.linspace` or a counter, are real ones on the CPU.

    Attributes:
        has_refused: Whether torch has refused to do something without values, which code may have caught.
    """

    def __init__(self, *, values_on_cpu: bool = False) -> None:
        super().__init__()
        self.has_refused = False
        self._to_meta = _FILLED if values_on_cpu else _FILLED | _VALUED
        self._to_cpu = _VALUED if values_on_cpu else frozenset[Any]()
        self._may_count = _COUNTING if values_on_cpu else frozenset[Any]()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func` with the device replaced."""
        kwargs = dict(kwargs or {})
        if func in self._to_meta:
            kwargs["device"] = "meta"
            # What is filled has floats, unless it is said otherwise.
            said = "dtype" in kwargs or func is torch.full
            if said and func in self._may_count and _counts(func(*args, **kwargs)):
                kwargs["device"] = "cpu"
        elif func in self._to_cpu:
            kwargs["device"] = "cpu"
        elif func in MOVING or (func in _UNCHANGING and args and args[0].is_meta and _expands(args, kwargs)):
            return args[0]
        elif func == _SETTING_DATA and args[0].is_meta:
            args = (args[0], args[1].to("meta"))
        elif func is torch.Tensor.to:
            args = staying(args, kwargs)
            if len(args) == 1 and not kwargs:
                return args[0]
        elif is_accelerator(kwargs.get("device")):
            del kwargs["device"]
        try:
            return _called(func, args, kwargs)
        except RuntimeError as error:
            self.has_refused |= speaks_of_meta(error)
            raise


def _drawn_around(mean: Any = 0.0, std: Any = 1.0, *_size: Any, device: Any = None, **options: Any) -> Any:
    """Return the numbers that are drawn around those of tensors, where these are; None for others.

    What torch does for tensors without values imports a thousand modules first.
    """
    del device  # It takes none then.
    around = [each for each in (mean, std) if isinstance(each, torch.Tensor)]
    if not any(each.is_meta for each in around):
        return torch.normal(mean, std, **options) if around else None
    shape = torch.broadcast_shapes(*(each.shape for each in around))
    return torch.empty(shape, dtype=around[0].dtype, device="meta")


def speaks_of_meta(error: BaseException) -> bool:
    """Whether an exception says that it is for want of values."""
    return "meta" in text_of(error).lower()


def forget_made(error: BaseException) -> None:
    """Let the functions of the modules that an exception came through forget what they remember: it has no values."""
    passed = {id(frame.f_globals): frame.f_globals for frame, _ in traceback.walk_tb(error.__traceback__)}
    for names in passed.values():
        for each in [*names.values()]:
            if isinstance(each, functools._lru_cache_wrapper):
                each.cache_clear()


def _called(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function gives; without values where only some of what it is given has any."""
    if func is torch.normal and (drawn := _drawn_around(*args, **kwargs)) is not None:
        return drawn
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        if {each.is_meta for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)} != {
            True,
            False,
        }:
            raise
    # What is computed of a tensor without values has none either, whatever the others have.
    moved = functools.partial(tree_map_only, torch.Tensor, _without_values)
    return func(*moved(args), **moved(kwargs))


def _expands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether all other tensors of a call can be expanded to the first one: torch refuses to write others into it."""
    shape = tuple(reversed(args[0].shape))
    others = (each.shape for each in tree_leaves((args[1:], kwargs)) if isinstance(each, torch.Tensor))
    return all(
        len(other) <= len(shape) and all(size in {1, own} for size, own in zip(reversed(other), shape, strict=False))
        for other in others
    )


def _counts(tensor: torch.Tensor) -> bool:
    return tensor.numel() <= _FEW and not tensor.is_floating_point() and not tensor.is_complex()


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("meta")


@functools.cache
def idle_initialisation() -> None:
    """Let the functions of `torch.nn.init` return meta tensors as they are, in this process, for good.

    What they refuse for how many dimensions it has is refused without values, too.
    """
    for name, function in vars(nn.init).copy().items():
        if name.endswith("_") and not name.startswith("_") and callable(function):
            setattr(nn.init, name, _idle_on_meta(function))


def _idle_on_meta(function: _F) -> _F:
    least = _ROWS if _OF_ROWS.match(function.__name__) else 0

    @functools.wraps(function)
    def initialise(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensor, torch.Tensor) and tensor.is_meta and (tensor.dim() >= least or not tensor.numel()):
            return tensor
        return function(tensor, *args, **kwargs)

    return initialise  # pyright: ignore[reportReturnType] — Same signature; `wraps` says so to people.
