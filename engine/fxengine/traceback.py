"""The names of torch.fx's module of this name: what is known of the node that is being replayed.

There is one such record in a process, and it is torch's: autograd and export write to it, and the tracers of both
engines put what it says on the nodes that they make. A second one would not be asked. So the functions are torch's own,
and the values are looked up there each time. `import torch` has loaded them; this module only finds them.
"""

import sys
from typing import Any, Final

_torch: Final[Any] = sys.modules["torch.fx.traceback"]

__all__: list[str] = list(_torch.__all__)  # pyright: ignore[reportUnsupportedDunderAll] - found at run time.


def __getattr__(name: str) -> Any:
    return getattr(_torch, name)


def __dir__() -> list[str]:
    return dir(_torch)
