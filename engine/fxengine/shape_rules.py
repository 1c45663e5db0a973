"""The results of frequent operations on meta tensors, found without asking torch.

Torch's own meta kernels of these operations are decompositions written in Python that take 50 to 800 µs a call; a
rule takes two, and their first call makes torch load a package for algebra. A rule answers only where the answer is
beyond doubt, and None otherwise: then torch is asked, and torch finds the words for what is wrong. Rules look at
shapes and types, never at devices.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor
from torch.utils import _pytree as pytree

__all__ = ["RULES", "answer", "check_types"]

Rule: TypeAlias = Callable[..., Tensor | tuple[Tensor, ...] | None]


def answer(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a function of torch returns for these arguments, None where no rule is sure of it."""
    rule = RULES.get(function)
    if rule is None:
        return None
    try:
        return rule(*args, **kwargs)
    except (TypeError, AttributeError, IndexError, ValueError):
        # The arguments have other names or types than a rule expects; whether torch takes them it says itself.
        return None


def _new(like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(shape, dtype=dtype or like.dtype, device="meta")


def _fits(small: Sequence[int], large: Sequence[int]) -> bool:
    """Whether a tensor of shape ``small`` broadcasts to ``large`` without changing it."""
    if len(small) > len(large):
        return False
    return all(a in {1, b} for a, b in zip(reversed(small), reversed(large), strict=False))


def _broadcast(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to.

    Raises:
        RuntimeError: They do not; in the words of the kernels for data.
    """
    last = max(len(one), len(other)) - 1
    shape: list[int] = []
    for place, (a, b) in enumerate(itertools.zip_longest(reversed(one), reversed(other), fillvalue=1)):
        if a != b and 1 not in {a, b}:
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) "
                f"at non-singleton dimension {last - place}"
            )
        shape.append(b if a == 1 else a)
    return tuple(reversed(shape))


def _elementwise(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """One floating point tensor in, one like it out, or the same where it is changed in place."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or "out" in kwargs or "dtype" in kwargs:
        return None
    if args and args[-1] is True:  # May mean `inplace`.
        return None
    return x if kwargs.get("inplace") else x.clone()


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False, **kwargs: Any) -> Tensor | None:
    """One floating point tensor in, one like it out, and the same where nothing is dropped."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or kwargs or not 0 <= p <= 1:
        return None
    return x.clone() if training and not inplace else x


def _arithmetic(x: Any, y: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """Two operands of one floating point type that broadcast to one another."""
    if args or kwargs:
        return None
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        if x.dtype is not y.dtype or not x.is_floating_point():
            return None
        if _fits(y.shape, x.shape):
            return x.clone()
        if _fits(x.shape, y.shape):
            return y.clone()
        shape = _broadcast(x.shape, y.shape)
        return _new(x, shape) if x.is_contiguous() and y.is_contiguous() else None
    tensor, number = (x, y) if isinstance(x, Tensor) else (y, x)
    return tensor.clone() if type(number) in {int, float} and tensor.is_floating_point() else None


def _comparison(x: Any, y: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    if args or kwargs or not isinstance(x, Tensor) or x.dtype is torch.bool:
        return None
    if type(y) in {int, float} or (isinstance(y, Tensor) and _fits(y.shape, x.shape)):
        return x.to(torch.bool)
    return None


def _masked_fill(x: Any, mask: Any, value: Any) -> Tensor | None:
    if isinstance(mask, Tensor) and mask.dtype is torch.bool and _fits(mask.shape, x.shape):
        return x.clone() if type(value) is float and x.is_floating_point() else None
    return None


def _linear(x: Tensor, weight: Any, bias: Any = None) -> Tensor | None:
    if not isinstance(weight, Tensor) or weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[1]:
        return None
    if x.dtype is not weight.dtype or not x.is_floating_point():
        return None
    if bias is not None and (tuple(bias.shape) != (weight.shape[0],) or bias.dtype is not x.dtype):
        return None
    return _new(x, (*x.shape[:-1], weight.shape[0]))


def _matmul(x: Any, y: Any) -> Tensor | None:
    """Products of batches of matrices; vectors and unequal batches are left to torch."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or x.dtype is not y.dtype or x.dim() < 2:
        return None
    if x.shape[:-2] != y.shape[:-2] or y.dim() < 2 or x.shape[-1] != y.shape[-2]:
        return None
    return _new(x, (*x.shape[:-1], y.shape[-1]))


def _convolution(
    x: Tensor, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
) -> Tensor | None:
    """A batch of floating point numbers with one of kernels, both in the usual order in memory."""
    count = x.dim() - 2
    if not isinstance(weight, Tensor) or weight.dim() != x.dim() or count < 1 or type(groups) is not int or groups < 1:
        return None
    if not x.is_floating_point() or weight.dtype is not x.dtype:
        return None
    if not (x.is_contiguous() and weight.is_contiguous()) or 0 in {*x.shape, *weight.shape}:
        return None
    channels, *kernel = weight.shape[0], *weight.shape[2:]
    if x.shape[1] != weight.shape[1] * groups or channels % groups:
        return None
    if bias is not None and (bias.shape != (channels,) or bias.dtype is not x.dtype):
        return None
    steps, pads, gaps = (_for_each(each, count, least) for each, least in ((stride, 1), (padding, 0), (dilation, 1)))
    if steps is None or pads is None or gaps is None:
        return None
    sizes = zip(x.shape[2:], kernel, steps, pads, gaps, strict=True)
    made = [(size + 2 * pad - gap * (wide - 1) - 1) // step + 1 for size, wide, step, pad, gap in sizes]
    return _new(x, (x.shape[0], channels, *made)) if min(made) > 0 else None


def _for_each(value: Any, count: int, least: int) -> tuple[int, ...] | None:
    """A parameter for each dimension; None where it is none that needs no second thought."""
    values = (value,) * count if type(value) is int else value
    if not isinstance(values, tuple | list) or len(values) != count:
        return None
    return tuple(values) if all(type(each) is int and each >= least for each in values) else None


def _layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, *_args: Any, **_kwargs: Any
) -> Tensor | None:
    tail = tuple(normalized_shape)
    if not tail or tuple(x.shape[-len(tail) :]) != tail or not x.is_floating_point():
        return None
    for parameter in (weight, bias):
        if isinstance(parameter, Tensor) and (tuple(parameter.shape) != tail or parameter.dtype is not x.dtype):
            return None
    return _new(x, x.shape)


def _softmax(x: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor | None:
    """One floating point tensor in, one of its shape out, in the usual order in memory."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or dtype not in {None, x.dtype}:
        return None
    return _new(x, x.shape) if type(dim) is int and -x.dim() <= dim < x.dim() else None


def _group_norm(
    x: Tensor, num_groups: int, weight: Any = None, bias: Any = None, *_args: Any, **_kwargs: Any
) -> Tensor | None:
    if x.dim() < 3 or x.shape[1] % num_groups or not _per_channel(x, weight, bias):
        return None
    return _new(x, x.shape)


def _batch_norm(
    x: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *_args: Any,
    **_kwargs: Any,
) -> Tensor | None:
    if x.dim() < 2 or not _per_channel(x, running_mean, running_var, weight, bias):
        return None
    if x.numel() <= x.shape[1]:  # One value a channel: an error while training.
        return None
    return x.clone()


def _per_channel(x: Tensor, *parameters: Any) -> bool:
    """Whether each of ``parameters`` that is given has one number for each channel of ``x``."""
    return x.is_floating_point() and all(
        tuple(parameter.shape) == (x.shape[1],) and parameter.dtype is x.dtype
        for parameter in parameters
        if isinstance(parameter, Tensor)
    )


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, *_args: Any, **kwargs: Any
) -> Tensor | None:
    """Attend over equal leading dimensions, or with several heads of queries for each of keys."""
    lead = query.shape[:-2]
    same = (
        query.dim() == key.dim() == 4
        and key.shape[:-2] == value.shape[:-2]
        and query.shape[-1] == key.shape[-1]
        and key.shape[-2] == value.shape[-2]
        and query.dtype is key.dtype is value.dtype
    )
    if not same or not (lead == key.shape[:-2] or (kwargs.get("enable_gqa") and _are_groups(lead, key.shape[:-2]))):
        return None
    if isinstance(attn_mask, Tensor):
        wanted = (*lead, query.shape[-2], key.shape[-2])
        if not _fits(attn_mask.shape, wanted) or attn_mask.dtype not in {torch.bool, query.dtype}:
            return None
    return query.clone() if value.shape[-1] == query.shape[-1] else _new(query, (*query.shape[:-1], value.shape[-1]))


def _are_groups(lead: Sequence[int], few: Sequence[int]) -> bool:
    """Whether so many batches of heads divide into groups for fewer of them."""
    return lead[0] == few[0] and few[1] > 0 and lead[1] % few[1] == 0


def _cat(tensors: Any, dim: Any = 0, *args: Any, **kwargs: Any) -> Tensor | None:
    if (
        args
        or kwargs
        or not isinstance(dim, int)
        or not _alike(tensors)
        or not -tensors[0].dim() <= dim < tensors[0].dim()
    ):
        return None
    first = tensors[0]
    dim %= first.dim()
    for other in tensors[1:]:
        if (*other.shape[:dim], *other.shape[dim + 1 :]) != (*first.shape[:dim], *first.shape[dim + 1 :]):
            return None
    total = sum(tensor.shape[dim] for tensor in tensors)
    return _new(first, (*first.shape[:dim], total, *first.shape[dim + 1 :]))


def _stack(tensors: Any, dim: Any = 0, *args: Any, **kwargs: Any) -> Tensor | None:
    if args or kwargs or not isinstance(dim, int) or not _alike(tensors):
        return None
    first = tensors[0]
    if any(other.shape != first.shape for other in tensors[1:]) or not -first.dim() - 1 <= dim <= first.dim():
        return None
    dim %= first.dim() + 1
    return _new(first, (*first.shape[:dim], len(tensors), *first.shape[dim:]))


def _alike(tensors: Any) -> bool:
    """Whether these are tensors of one type and rank, and there is at least one."""
    if not isinstance(tensors, list | tuple) or not tensors or not isinstance(tensors[0], Tensor):
        return False
    first = tensors[0]
    return first.dim() > 0 and all(
        isinstance(other, Tensor) and other.dtype is first.dtype and other.dim() == first.dim() for other in tensors
    )


def _adaptive_pool_2d(x: Tensor, output_size: Any) -> Tensor | None:
    sizes = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    if x.dim() not in {3, 4} or len(sizes) != 2 or not x.is_floating_point() or not math.prod(x.shape):
        return None
    spatial = [new or old for old, new in zip(x.shape[-2:], sizes, strict=True)]
    return _new(x, (*x.shape[:-2], *spatial))


def _reduction(x: Tensor, dim: Any = None, keepdim: Any = False, **kwargs: Any) -> Tensor | None:
    """One floating point number for all along one dimension, along several, or of all."""
    count = x.dim()
    dims = range(count) if dim is None else (dim,) if type(dim) is int else dim
    if kwargs or not x.is_floating_point() or type(keepdim) is not bool or not isinstance(dims, range | tuple | list):
        return None
    if not all(type(each) is int and -count <= each < count for each in dims):
        return None
    gone = {each % count for each in dims}
    if not gone or len(gone) != len(dims):
        return None
    kept = [1 if place in gone else size for place, size in enumerate(x.shape) if keepdim or place not in gone]
    return _new(x, kept)


def _with_numbers(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
    """One floating point tensor in and numbers, one like it out."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or not {*kwargs} <= {"min", "max", "exponent"}:
        return None
    numbers = [each for each in (*args, *kwargs.values()) if each is not None]
    return x.clone() if numbers and all(type(each) in {int, float} for each in numbers) else None


def check_types(function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise where kernels for data refuse operands and those for meta tensors do not.

    Raises:
        RuntimeError: Two operands should have one type, or as many channels.
        NotImplementedError: There is no kernel for integers.
    """
    name = _NEEDS_FLOATS.get(function)
    if name is not None and args and isinstance(args[0], Tensor) and not _is_inexact(args[0]):
        raise NotImplementedError(f"{name!r} not implemented for {str(args[0].dtype).removeprefix('torch.')!r}")
    if function not in _NEEDS_ONE_TYPE or len(args) < 2 or torch._C._is_any_autocast_enabled():
        return
    first, second = args[:2]
    if isinstance(first, Tensor) and isinstance(second, Tensor) and first.dtype is not second.dtype:
        raise RuntimeError(f"expected both operands to have the same dtype, but got {first.dtype} and {second.dtype}")
    if function in _TRANSPOSED and first.dim() == second.dim() and first.shape[1] != second.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(second.shape)}, expected input{list(first.shape)} to have "
            f"{second.shape[0]} channels, but got {first.shape[1]} channels instead"
        )


def _is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


_TRANSPOSED = frozenset({F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d})
_NEEDS_ONE_TYPE = frozenset({
    F.linear, F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d, torch.conv1d,
    torch.conv2d, torch.conv3d, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.mm,
    F.scaled_dot_product_attention,
})  # fmt: skip
_NEEDS_FLOATS = {
    function: function.__name__
    for function in (
        F.layer_norm, F.rms_norm, F.group_norm, F.batch_norm, F.instance_norm, F.gelu, F.silu, F.softmax, F.mse_loss,
        F.adaptive_avg_pool2d, F.avg_pool2d,
    )
}  # fmt: skip

_ELEMENTWISE_NAMES = """
    relu relu6 gelu silu mish elu selu celu leaky_relu hardswish hardsigmoid hardtanh softplus softsign sigmoid tanh
    logsigmoid tanhshrink exp expm1 log log1p log2 sqrt rsqrt abs neg sin cos tan erf square reciprocal floor ceil round
    nan_to_num normalize local_response_norm
"""
_DROPOUT_NAMES = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout"
_ARITHMETIC_NAMES = """
    add sub mul div true_divide subtract multiply divide __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__
    __truediv__ __rtruediv__
"""
_COMPARISON_NAMES = "eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__"


def _grouped_matmul(x: Tensor, y: Tensor, *_args: Any, **kwargs: Any) -> Tensor | None:
    """Rows of a matrix, each multiplied by the matrix of its group."""
    if x.dim() != 2 or y.dim() != 3 or x.shape[1] != y.shape[1] or x.dtype is not y.dtype or kwargs.get("out_dtype"):
        return None
    return _new(x, (x.shape[0], y.shape[2]))


def _recurrent(x: Tensor, state: Any, weights: Any, *flags: Any) -> tuple[Tensor, ...] | None:
    """The layers of ``torch.nn``'s recurrent networks, which torch unrolls step by step; packed sequences apart."""
    states = tuple(state) if isinstance(state, list | tuple) else (state,)
    if len(flags) != 6 or not isinstance(weights, list | tuple) or x.dim() != 3 or states[0].dim() != 3:
        return None
    _, layers, _, _, bidirectional, batch_first = flags
    directions = 2 if bidirectional else 1
    batch = x.shape[0 if batch_first else 1]
    fits = states[0].shape[:2] == (layers * directions, batch) and x.shape[-1] == weights[0].shape[1]
    if not fits or x.dtype is not weights[0].dtype:
        return None
    return _new(x, (*x.shape[:2], directions * states[0].shape[-1])), *(each.clone() for each in states)


def _inverse_fourier(x: Tensor, n_fft: int, *args: Any, **kwargs: Any) -> Tensor | None:
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
    return _new(x, (*x.shape[:-2], length), x.dtype if is_complex else x.dtype.to_real())


def _ctc_loss(
    x: Tensor,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor | None:
    """A number for each sequence of a batch, or one for all."""
    del targets, input_lengths, target_lengths, blank, zero_infinity
    if reduction not in {"none", "mean", "sum"} or x.dim() not in {2, 3} or not x.is_floating_point():
        return None
    return _new(x, (x.shape[1],) if reduction == "none" and x.dim() == 3 else ())


def _by_example(function: Callable[..., Any]) -> Rule:
    """The rule of a function that has no kernel for tensors without data: it is run on ones, drawing no numbers."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        given, named = pytree.tree_map_only(Tensor, lambda each: torch.ones_like(each, device="cpu"), (args, kwargs))
        with torch.random.fork_rng(devices=()), torch.no_grad():
            result = function(*given, **named)
        return pytree.tree_map_only(Tensor, lambda each: torch.empty_like(each, device="meta"), result)

    return rule


_WITHOUT_KERNEL = """
    lstsq geqrf histogram corrcoef cov combinations binomial _sample_dirichlet fake_quantize_per_tensor_affine
    gaussian_nll_loss
"""
"""Functions that want data although the shapes of their results do not depend on them."""


def _functions(names: str) -> list[Callable[..., Any]]:
    """Return the functions and methods of torch that have one of the names."""
    owners = (torch, F, torch.linalg, Tensor)
    found = [getattr(owner, name, None) for owner in owners for name in names.split()]
    return [each for each in found if callable(each)]


def _named(names: str, rule: Rule) -> dict[Callable[..., Any], Rule]:
    """Return ``rule`` for each function and method of torch that has one of the names."""
    return dict.fromkeys(_functions(names), rule)


RULES: dict[Callable[..., Any], Rule] = {
    **_named(_ELEMENTWISE_NAMES, _elementwise),
    **_named(_DROPOUT_NAMES, _dropout),
    **_named(_ARITHMETIC_NAMES, _arithmetic),
    **_named(_COMPARISON_NAMES, _comparison),
    Tensor.masked_fill: _masked_fill,
    torch.masked_fill: _masked_fill,
    torch._VF.lstm: _recurrent,
    torch._VF.gru: _recurrent,
    torch._VF.rnn_tanh: _recurrent,
    torch._VF.rnn_relu: _recurrent,
    **_named("grouped_mm _grouped_mm", _grouped_matmul),
    F.linear: _linear,
    F.conv1d: _convolution,
    F.conv2d: _convolution,
    F.conv3d: _convolution,
    torch.matmul: _matmul,
    Tensor.matmul: _matmul,
    Tensor.__matmul__: _matmul,
    F.layer_norm: _layer_norm,
    F.rms_norm: _layer_norm,
    **_named("softmax log_softmax", _softmax),
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
    F.scaled_dot_product_attention: _attention,
    torch.cat: _cat,
    torch.concat: _cat,
    torch.stack: _stack,
    F.adaptive_avg_pool2d: _adaptive_pool_2d,
    **{function: _by_example(function) for function in _functions(_WITHOUT_KERNEL)},
    torch.istft: _inverse_fourier,
    Tensor.istft: _inverse_fourier,
    F.ctc_loss: _ctc_loss,
    **_named("mean sum", _reduction),
    **_named("pow __pow__ clamp clamp_min clamp_max clip", _with_numbers),
}
"""The rule of each function, to be called with the function's own arguments, all of whose tensors are on meta."""
