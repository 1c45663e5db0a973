"""What functions do that are written for accelerators, or have to be compiled, where their packages are not installed.

Sums over groups of rows and attention are the same in torch's own operations, slower: a model that is made of them can
be fed, and is told its shapes. They are known by their full names alone; what others may call so is nothing of the
kind. Nothing is left out where a model is trained: whoever wants random numbers is given none.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor

__all__ = ["known_kernel"]

_OF_ONE_HEAD: Final = 3
"""The dimensions of what xformers takes for one head."""

_KINDS: Final[Mapping[str, str]] = {
    "add": "sum",
    "sum": "sum",
    "mul": "prod",
    "mean": "mean",
    "min": "amin",
    "max": "amax",
}


def known_kernel(path: str) -> Callable[..., Any] | None:
    """Return what does the same as a function of an absent package, by its full name; None for any other."""
    package, name = path.partition(".")[0], path.rpartition(".")[2]
    return _KNOWN.get(f"{package}.{name}")


def _expanded(index: Tensor, src: Tensor, dim: int) -> Tensor:
    """Return the groups of rows in the shape of what is in them: those of one dimension are told of all others."""
    if index.dim() == 1:
        index = index.view([-1 if each == dim else 1 for each in range(src.dim())])
    while index.dim() < src.dim():
        index = index.unsqueeze(-1)
    return index.expand_as(src)


def _scatter(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Any:
    """Return what the rows of each group make together, and of the largest and smallest also which these are.

    Args:
        src: The rows.
        index: The group of each, in as many dimensions as there are up to `dim`.
        dim: Along which they are grouped.
        out: What they are added to.
        dim_size: How many groups there are; otherwise as many as the index names.
        reduce: What is made of them.
    """
    dim = dim % src.dim()
    index = _expanded(index, src, dim)
    kind = _KINDS[reduce]
    if out is not None:
        made = out.scatter_reduce_(dim, index, src, kind, include_self=kind != "mean")
    else:
        count = dim_size if dim_size is not None else int(index.max()) + 1 if index.numel() else 0
        shape = (*src.shape[:dim], count, *src.shape[dim + 1 :])
        made = src.new_zeros(shape).scatter_reduce(dim, index, src, kind, include_self=False)
    if kind not in {"amin", "amax"}:
        return made
    # A row beyond the last stands for a group without any.
    places = torch.arange(src.shape[dim], device=src.device).view([-1 if at == dim else 1 for at in range(src.dim())])
    is_it = src == made.gather(dim, index)
    rows = torch.where(is_it, places.expand_as(src), src.shape[dim])
    first = index.new_full(made.shape, src.shape[dim]).scatter_reduce(dim, index, rows, "amin", include_self=True)
    return made, first


def _reducing(reduce: str) -> Callable[..., Any]:
    def scatter(
        src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
    ) -> Any:
        return _scatter(src, index, dim, out, dim_size, reduce)

    return scatter


def _softmax(src: Tensor, index: Tensor, dim: int = -1, dim_size: int | None = None, *, log: bool = False) -> Tensor:
    """Return shares that make one in each group, or their logarithms."""
    dim = dim % src.dim()
    index = _expanded(index, src, dim)
    largest, _ = _scatter(src, index, dim, None, dim_size, "max")
    shifted = src - largest.gather(dim, index)
    total = _scatter(shifted.exp(), index, dim, None, dim_size, "sum").gather(dim, index)
    return shifted - total.log() if log else shifted.exp() / total


def _log_softmax(src: Tensor, index: Tensor, dim: int = -1, dim_size: int | None = None, **_options: Any) -> Tensor:
    return _softmax(src, index, dim, dim_size, log=True)


def _segments(src: Tensor, indptr: Tensor, out: Tensor | None = None, reduce: str = "sum") -> Any:
    """Return what rows make together that follow each other, by where each group begins and the last one ends."""
    dim = indptr.dim() - 1
    if out is not None or dim:
        raise NotImplementedError("`segment_csr` along another dimension than the first, or into a tensor")
    lengths = indptr[1:] - indptr[:-1]
    index = torch.arange(lengths.shape[0], device=src.device).repeat_interleave(lengths, output_size=src.shape[0])
    return _scatter(src, index, dim, None, lengths.shape[0], reduce)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,  # noqa: ARG001 - as in what it stands for.
    softmax_scale: float | None = None,
    causal: bool = False,
    **_options: Any,
) -> Tensor:
    """Return attention over tensors of shape (batch, steps, heads, width); heads of keys may stand for several."""
    query, key, value = (each.transpose(1, 2) for each in (q, k, v))
    if key.shape[1] != query.shape[1]:
        key, value = (each.repeat_interleave(query.shape[1] // key.shape[1], 1) for each in (key, value))
    seen = None
    if causal:
        # The last query sees the last key.
        seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).tril(k.shape[1] - q.shape[1])
    return F.scaled_dot_product_attention(query, key, value, seen, scale=softmax_scale).transpose(1, 2)


def _packed(
    qkv: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, **_options: Any
) -> Tensor:
    query, key, value = qkv.unbind(2)
    return _attention(query, key, value, dropout_p, softmax_scale, causal)


def _packed_pairs(q: Tensor, kv: Tensor, *args: Any, **options: Any) -> Tensor:
    key, value = kv.unbind(2)
    return _attention(q, key, value, *args, **options)


def _varlen(  # noqa: PLR0917 - as what it stands for is called.
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: Any = None,  # noqa: ARG001 - as in what it stands for.
    max_seqlen_k: Any = None,  # noqa: ARG001 - likewise.
    dropout_p: float = 0.0,  # noqa: ARG001 - likewise.
    softmax_scale: float | None = None,
    causal: bool = False,
    **_options: Any,
) -> Tensor:
    """Return attention in each of several sequences that follow each other, of shape (steps of all, heads, width)."""
    if k.shape[1] != q.shape[1]:
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    rows, columns = (torch.arange(each.shape[0], device=each.device) for each in (q, k))
    of_row, of_column = (
        torch.searchsorted(starts.contiguous(), places, right=True, out_int32=False) - 1
        for starts, places in ((cu_seqlens_q, rows), (cu_seqlens_k, columns))
    )
    seen = of_row[:, None] == of_column[None]
    if causal:
        # The last query of each sequence sees its last key.
        left_q = cu_seqlens_q[of_row + 1] - rows
        left_k = cu_seqlens_k[of_column + 1] - columns
        seen = seen & (left_q[:, None] <= left_k[None])
    query, key, value = (each.transpose(0, 1)[None] for each in (q, k, v))
    return F.scaled_dot_product_attention(query, key, value, seen, scale=softmax_scale)[0].transpose(0, 1)


def _varlen_packed(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: Any = None, *args: Any, **options: Any) -> Tensor:
    query, key, value = qkv.unbind(1)
    return _varlen(query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **options)


def _memory_efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Any = None,
    p: float = 0.0,  # noqa: ARG001 - as in what it stands for.
    scale: float | None = None,
    **_options: Any,
) -> Tensor:
    """Return attention as xformers has it: of shape (batch, steps, heads, width), or (batch, steps, width)."""
    if attn_bias is not None and not isinstance(attn_bias, Tensor):
        raise NotImplementedError("a bias that is no tensor")
    if query.dim() == _OF_ONE_HEAD:
        return F.scaled_dot_product_attention(query, key, value, attn_bias, scale=scale)
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, attn_bias, scale=scale).transpose(1, 2)


_KNOWN: Final[Mapping[str, Callable[..., Any]]] = {
    "torch_scatter.scatter": _scatter,
    **{f"torch_scatter.scatter_{kind}": _reducing(kind) for kind in _KINDS},
    "torch_scatter.scatter_softmax": _softmax,
    "torch_scatter.scatter_log_softmax": _log_softmax,
    "torch_scatter.segment_csr": _segments,
    "flash_attn.flash_attn_func": _attention,
    "flash_attn.flash_attn_qkvpacked_func": _packed,
    "flash_attn.flash_attn_kvpacked_func": _packed_pairs,
    "flash_attn.flash_attn_varlen_func": _varlen,
    "flash_attn.flash_attn_varlen_qkvpacked_func": _varlen_packed,
    "xformers.memory_efficient_attention": _memory_efficient,
}
