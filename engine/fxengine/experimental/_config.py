"""The settings of torch.fx's experiments and symbolic sizes: torch's own, for torch reads them there."""

from typing import TYPE_CHECKING, Any

from fxengine.interop import share

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


share(__name__)
