"""What is known of the node that is being replayed: torch's own module, under the engine's name too.

Autograd and export write to it, and the tracers of both engines put what it says on the nodes that they make. There is
one such record in a process, and `import torch` has loaded it; this module only finds it.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


sys.modules[__name__] = sys.modules["torch.fx.traceback"]
