"""einops: its functions take a tensor and a pattern, and the pattern says more than the reshapes that it leads to."""

from typing import Final

from fxengine.shims.shim import Shim

__all__ = ["EINOPS"]

EINOPS: Final = Shim(
    "einops",
    functions=(
        "einops.einops:rearrange",
        "einops.einops:reduce",
        "einops.einops:repeat",
        "einops.einops:einsum",
        "einops.packing:pack",
        "einops.packing:unpack",
    ),
    modules=("einops.layers",),
)
