"""What is known of the node that is being replayed: torch's own.

Autograd and export write to it, and the tracers of both engines put what it says on the nodes that they make.
"""

from typing import TYPE_CHECKING, Any

from fxengine.shared import share

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


share(__name__)
