"""einx: likewise. Each of its functions compiles its pattern to code of its own at the first call."""

from typing import Final

from fxengine.shims.shim import Shim

__all__ = ["EINX"]

_FUNCTIONS: Final = """
    id rearrange reduce sum mean var std prod count_nonzero any all max min argmax argmin logsumexp add subtract
    multiply divide true_divide floor_divide logical_and logical_or where less less_equal greater greater_equal equal
    not_equal maximum minimum logaddexp dot get_at set_at add_at subtract_at softmax log_softmax flip roll sort
    argsort elementwise vmap vmap_with_axis index
"""

EINX: Final = Shim("einx", functions=tuple(f"einx:{name}" for name in _FUNCTIONS.split()))
