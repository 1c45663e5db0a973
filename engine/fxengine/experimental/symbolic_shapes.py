"""Symbolic sizes, their guards and what is known of them: torch's own."""

from typing import TYPE_CHECKING, Any

from fxengine.interop import share

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


share(__name__)
