"""What the engine has to know about libraries: one module for each, with data and next to no code.

A library needs a shim where a capture of a model that uses it would be right but not readable: a helper that is one
idea to the reader is to be one node. Whatever works without does so: captures run models on tensors, so that libraries'
own checks, registries, records and caches need nothing.
"""

import sys
from collections.abc import Iterator

from fxengine.shims.einops import EINOPS
from fxengine.shims.einx import EINX
from fxengine.shims.flex_attention import FLEX_ATTENTION
from fxengine.shims.shim import Shim

__all__ = ["SHIMS", "Shim", "loaded_shims"]

SHIMS: tuple[Shim, ...] = (EINOPS, EINX, FLEX_ATTENTION)
"""All there are."""


def loaded_shims() -> Iterator[Shim]:
    """Yield the shims of the packages that this process has imported."""
    return (shim for shim in SHIMS if shim.package in sys.modules)
