"""Saves graphs with what pickle alone does not know: fake tensors, symbolic sizes, operators that must exist.

torch does that for its compiler's caches. This is torch's pickler, which takes graph modules of this engine too: they
go over the bridge when they are saved and come back over it when they are loaded.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from fxengine.graph_module import GraphModule
from fxengine.interop import from_torch_fx, to_torch_fx

_torch: Final[Any] = importlib.import_module("torch.fx._graph_pickler")

if TYPE_CHECKING:
    _Base = Any
else:
    _Base = _torch.GraphPickler


class GraphPickler(_Base):
    """Saves and loads what contains graphs: ``GraphPickler.dumps(obj)``, ``GraphPickler.loads(data, fake_mode)``."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to restore ``obj``, or NotImplemented where pickle knows that itself; pickle calls this."""
        if isinstance(obj, GraphModule):
            return from_torch_fx, (to_torch_fx(obj),)
        return super().reducer_override(obj)


def __getattr__(name: str) -> Any:
    return getattr(_torch, name)


def __dir__() -> list[str]:
    return dir(_torch)
