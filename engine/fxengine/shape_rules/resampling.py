"""Rules of what gives signals and images other sizes."""

import math
from typing import Any, Final

from torch import Tensor

from fxengine.shape_rules.shapes import Rule, new


def inverse_fourier(x: Tensor, n_fft: int, *args: Any, **kwargs: Any) -> Tensor | None:
    """The signal of short pieces of spectrum; torch's own kernel wants to see whether the windows cover it."""
    names = ("hop_length", "win_length", "window", "center", "normalized", "onesided", "length", "return_complex")
    given = dict(zip(names, args, strict=False), **kwargs)
    is_complex, window, length = given.get("return_complex", False), given.get("window"), given.get("length")
    onesided = given.get("onesided")
    is_half = not is_complex if onesided is None else onesided
    if not x.is_complex() or x.dim() not in {2, 3} or x.shape[-2] != (n_fft // 2 + 1 if is_half else n_fft):
        return None
    if isinstance(window, Tensor) and tuple(window.shape) != (given.get("win_length") or n_fft,):
        return None
    if length is None:
        whole = n_fft + (given.get("hop_length") or n_fft // 4) * (x.shape[-1] - 1)
        length = whole - 2 * (n_fft // 2) if given.get("center", True) else whole
    return new(x, (*x.shape[:-2], length), x.dtype if is_complex else x.dtype.to_real())


def adaptive_pool(count: int) -> Rule:
    """Return the rule of a pool over so many dimensions that says how many values there are afterwards."""

    def rule(x: Tensor, output_size: Any) -> Tensor | None:
        sizes: tuple[int | None, ...]
        sizes = (output_size,) * count if type(output_size) is int else tuple(output_size)
        if x.dim() not in {count + 1, count + 2} or len(sizes) != count or not x.is_floating_point():
            return None
        if not math.prod(x.shape) or not all(each is None or (type(each) is int and each > 0) for each in sizes):
            return None
        spatial = [old if each is None else each for old, each in zip(x.shape[-count:], sizes, strict=True)]
        return new(x, (*x.shape[:-count], *spatial)) if x.is_contiguous() else None

    return rule


_MODES: Final = {
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "bicubic": (4,),
} | {
    "trilinear": (5,),
    "area": (3, 4, 5),
}
"""The ways to interpolate, and how many dimensions each takes."""


def interpolated(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: Any = False,
) -> Tensor | None:
    """A batch of signals, images or volumes of another size."""
    count = x.dim() - 2
    if x.dim() not in _MODES.get(mode, ()) or not x.is_floating_point() or not x.is_contiguous() or not x.numel():
        return None
    if (
        antialias
        or recompute_scale_factor
        or (align_corners is not None and "linear" not in mode and mode != "bicubic")
    ):
        return None
    if (size is None) == (scale_factor is None):
        return None
    if size is not None:
        sizes = (size,) * count if type(size) is int else tuple(size)
        if not all(type(each) is int for each in sizes):
            return None
    else:
        factors = (scale_factor,) * count if type(scale_factor) in {int, float} else tuple(scale_factor)
        sizes = tuple(math.floor(old * float(each)) for old, each in zip(x.shape[2:], factors, strict=True))
    return new(x, (*x.shape[:2], *sizes)) if len(sizes) == count and min(sizes) > 0 else None


def sampled(
    x: Tensor, grid: Any, mode: Any = "bilinear", padding_mode: Any = "zeros", align_corners: Any = None
) -> Tensor | None:
    """Images or volumes at the places of a grid."""
    del align_corners
    count = x.dim() - 2
    if count not in {2, 3} or grid.dim() != x.dim() or grid.shape[0] != x.shape[0] or grid.shape[-1] != count:
        return None
    if mode not in {"bilinear", "nearest"} or padding_mode not in {"zeros", "border", "reflection"} or not x.numel():
        return None
    if x.dtype is not grid.dtype or not x.is_floating_point():
        return None
    return new(x, (*x.shape[:2], *grid.shape[1:-1]))
