"""Rules of what layers compute: products, norms, attention, recurrent networks."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fxengine.shape_rules.shapes import fits, for_each, new


def linear(x: Tensor, weight: Any, bias: Any = None) -> Tensor | None:
    """Rows of numbers, each multiplied by a matrix."""
    if not isinstance(weight, Tensor) or weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[1]:
        return None
    if x.dtype is not weight.dtype or not x.is_floating_point():
        return None
    if bias is not None and (tuple(bias.shape) != (weight.shape[0],) or bias.dtype is not x.dtype):
        return None
    return new(x, (*x.shape[:-1], weight.shape[0]))


def matmul(x: Any, y: Any) -> Tensor | None:
    """Products of batches of matrices; vectors and unequal batches are left to torch."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or x.dtype is not y.dtype or x.dim() < 2:
        return None
    if x.shape[:-2] != y.shape[:-2] or y.dim() < 2 or x.shape[-1] != y.shape[-2]:
        return None
    return new(x, (*x.shape[:-1], y.shape[-1]))


def grouped_matmul(x: Tensor, y: Tensor, *_args: Any, **kwargs: Any) -> Tensor | None:
    """Rows of a matrix, each multiplied by the matrix of its group."""
    if x.dim() != 2 or y.dim() != 3 or x.shape[1] != y.shape[1] or x.dtype is not y.dtype or kwargs.get("out_dtype"):
        return None
    return new(x, (x.shape[0], y.shape[2]))


def convolution(
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
    steps, pads, gaps = (for_each(each, count, least) for each, least in ((stride, 1), (padding, 0), (dilation, 1)))
    if steps is None or pads is None or gaps is None:
        return None
    sizes = zip(x.shape[2:], kernel, steps, pads, gaps, strict=True)
    made = [(size + 2 * pad - gap * (wide - 1) - 1) // step + 1 for size, wide, step, pad, gap in sizes]
    return new(x, (x.shape[0], channels, *made)) if min(made) > 0 else None


def layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, *_args: Any, **_kwargs: Any
) -> Tensor | None:
    """Normalise over the last dimensions."""
    tail = tuple(normalized_shape)
    if not tail or tuple(x.shape[-len(tail) :]) != tail or not x.is_floating_point():
        return None
    for parameter in (weight, bias):
        if isinstance(parameter, Tensor) and (tuple(parameter.shape) != tail or parameter.dtype is not x.dtype):
            return None
    return new(x, x.shape)


def group_norm(
    x: Tensor, num_groups: int, weight: Any = None, bias: Any = None, *_args: Any, **_kwargs: Any
) -> Tensor | None:
    """Normalise groups of channels."""
    if x.dim() < 3 or x.shape[1] % num_groups or not _per_channel(x, weight, bias):
        return None
    return new(x, x.shape)


def batch_norm(
    x: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *_args: Any,
    **_kwargs: Any,
) -> Tensor | None:
    """Normalise each channel."""
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


def attention(
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
        if not fits(attn_mask.shape, wanted) or attn_mask.dtype not in {torch.bool, query.dtype}:
            return None
    return query.clone() if value.shape[-1] == query.shape[-1] else new(query, (*query.shape[:-1], value.shape[-1]))


def _are_groups(lead: Sequence[int], few: Sequence[int]) -> bool:
    """Whether so many batches of heads divide into groups for fewer of them."""
    return lead[0] == few[0] and few[1] > 0 and lead[1] % few[1] == 0


def recurrent(x: Tensor, state: Any, weights: Any, *flags: Any) -> tuple[Tensor, ...] | None:
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
    return new(x, (*x.shape[:2], directions * states[0].shape[-1])), *(each.clone() for each in states)


def instance_norm(
    x: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *_args: Any,
    **_kwargs: Any,
) -> Tensor | None:
    """Normalise each channel of each example; of examples in a batch alone."""
    if x.dim() < 3 or not _per_channel(x, running_mean, running_var, weight, bias) or not x.is_contiguous():
        return None
    return new(x, x.shape) if x.shape[2:].numel() > 1 and x.numel() else None  # One value a channel is an error.


def leaky_by_weight(x: Tensor, weight: Any) -> Tensor | None:
    """One slope for all numbers, or one for each channel."""
    if not isinstance(weight, Tensor) or weight.dtype is not x.dtype or not x.is_floating_point():
        return None
    return x.clone() if weight.numel() == 1 or (x.dim() > 1 and tuple(weight.shape) == (x.shape[1],)) else None


def cell(
    x: Tensor, state: Any, inward: Tensor, onward: Tensor, bias: Any = None, other_bias: Any = None
) -> Tensor | tuple[Tensor, ...] | None:
    """One step of a recurrent network, for a batch."""
    states = tuple(state) if isinstance(state, list | tuple) else (state,)
    first = states[0]
    fits_in = (
        x.dim() == first.dim() == 2
        and x.shape == (first.shape[0], inward.shape[1])
        and first.shape[1] == onward.shape[1]
        and inward.shape[0] == onward.shape[0]
        and all(each.shape == first.shape for each in states)
        and all(each is None or tuple(each.shape) == (inward.shape[0],) for each in (bias, other_bias))
    )
    if not fits_in or any(each.dtype is not x.dtype for each in (*states, inward, onward)):
        return None
    made = tuple(new(x, first.shape) for _ in states)
    return made if isinstance(state, list | tuple) else made[0]


def product_and_sum(x: Tensor, one: Any, other: Any, **kwargs: Any) -> Tensor | None:
    """The product of two matrices, and what is added to it."""
    if kwargs or one.dim() != 2 or other.dim() != 2 or one.shape[1] != other.shape[0]:
        return None
    shape = (one.shape[0], other.shape[1])
    same = x.dtype is one.dtype is other.dtype and x.is_floating_point()
    return new(x, shape) if same and fits(x.shape, shape) else None


def multi_head_attention(  # noqa: PLR0917 - torch has as many.
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None = None,
    in_proj_bias: Tensor | None = None,
    bias_k: Any = None,
    bias_v: Any = None,
    add_zero_attn: Any = False,
    dropout_p: Any = 0.0,
    out_proj_weight: Tensor | None = None,
    out_proj_bias: Tensor | None = None,
    *,
    training: Any = True,
    key_padding_mask: Tensor | None = None,
    need_weights: Any = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: Any = True,
    **others: Any,
) -> tuple[Tensor, Tensor | None] | None:
    """Attention among the items of sequences in batches, whose parts are projected by one matrix."""
    del in_proj_bias, dropout_p, out_proj_bias, training
    if not query.dim() == key.dim() == value.dim() == 3 or any(others.values()) or add_zero_attn:
        return None
    (length, batch, width), source = query.shape, key.shape[0]
    if bias_k is not None or bias_v is not None or in_proj_weight is None or out_proj_weight is None:
        return None
    if not width == embed_dim_to_check == key.shape[2] or key.shape != value.shape or key.shape[1] != batch:
        return None
    if tuple(in_proj_weight.shape) != (3 * width, width) or tuple(out_proj_weight.shape) != (width, width):
        return None
    tensors = (query, key, value, in_proj_weight, out_proj_weight)
    if width % num_heads or not query.is_floating_point() or any(each.dtype is not query.dtype for each in tensors):
        return None
    for mask, shapes in (
        (key_padding_mask, [(batch, source)]),
        (attn_mask, [(length, source), (batch * num_heads, length, source)]),
    ):
        if mask is not None and (tuple(mask.shape) not in shapes or mask.dtype not in {torch.bool, query.dtype}):
            return None
    heads = () if average_attn_weights else (num_heads,)
    return new(query, query.shape), new(query, (batch, *heads, length, source)) if need_weights else None
