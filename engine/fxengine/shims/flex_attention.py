"""torch's flexible attention: it hands itself to torch's compiler, which looks at no mode, and is one idea besides."""

from typing import Any, Final

import torch
from torch import Tensor

from fxengine.shims.shim import Shim

__all__ = ["FLEX_ATTENTION"]


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any = None,
    block_mask: Any = None,
    *_: Any,
    return_lse: bool = False,
    **__: Any,
) -> Any:
    """Return what attention returns, without data; with the logarithms of the sums where they are asked for.

    Raises:
        AttributeError: What is given for a mask of blocks is none; torch raises the same, and code may expect it.
    """
    del key, score_mod
    if block_mask is not None:
        getattr(block_mask, "BLOCK_SIZE")  # noqa: B009 - reading it is what torch does first.
    result = query.new_empty((*query.shape[:-1], value.shape[-1]))
    return (result, query.new_empty(query.shape[:-1], dtype=torch.float32)) if return_lse else result


_FUNCTION: Final = "torch.nn.attention.flex_attention:flex_attention"

FLEX_ATTENTION: Final = Shim("torch.nn.attention.flex_attention", functions=(_FUNCTION,), shapes={_FUNCTION: _attended})
