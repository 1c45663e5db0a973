"""torch's flexible attention: it hands itself to torch's compiler, which looks at no mode, and is one idea besides."""

from typing import Any, Final

import torch
from torch import Tensor

from fxengine.shims.shim import Shim

__all__ = ["FLEX_ATTENTION"]


def _attended(query: Tensor, key: Tensor, value: Tensor, *_: Any, return_lse: bool = False, **__: Any) -> Any:
    """Return what attention returns, without data; with the logarithms of the sums where they are asked for."""
    del key
    result = query.new_empty((*query.shape[:-1], value.shape[-1]))
    return (result, query.new_empty(query.shape[:-1], dtype=torch.float32)) if return_lse else result


_FUNCTION: Final = "torch.nn.attention.flex_attention:flex_attention"

FLEX_ATTENTION: Final = Shim("torch.nn.attention.flex_attention", functions=(_FUNCTION,), shapes={_FUNCTION: _attended})
