"""Tracing below autograd: torch's own, whose `make_fx` gives graph modules of this engine.

torch records there what reaches its dispatcher, by modes of its own that build torch.fx's graphs. There is one
dispatcher in a process, so everything here is torch's; what `make_fx` has recorded is then taken over the bridge.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

from fxengine.graph_module import GraphModule
from fxengine.interop import from_torch_fx

_torch: Final[Any] = sys.modules["torch.fx.experimental.proxy_tensor"]

__all__: list[str] = list(_torch.__all__)  # pyright: ignore[reportUnsupportedDunderAll] - found at run time.


def make_fx(f: Callable[..., Any], *options: Any, **named_options: Any) -> Callable[..., GraphModule]:
    """Return a function that returns the graph module of what `f` does with the arguments that it is given.

    The graph holds the operators that reach torch's dispatcher: composed operations taken apart, shapes fixed or
    symbolic, backward passes too.

    Args:
        f: The function. What it is given, `tracing_mode` decides: real, fake or symbolic tensors.
        *options: Those of torch's `make_fx`: how operators are decomposed, and so on.
        **named_options: More of them.
    """
    trace = _torch.make_fx(f, *options, **named_options)

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        return from_torch_fx(trace(*args))

    return traced


def __getattr__(name: str) -> Any:
    return getattr(_torch, name)


def __dir__() -> list[str]:
    return dir(_torch)
