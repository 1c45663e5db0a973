"""What user code compiles is run as it is: compiling takes longer than anything else that is done here."""

import contextlib
import sys
from contextlib import AbstractContextManager

import torch


def eagerly() -> AbstractContextManager[object]:
    """Return a context in which compiled functions run as they are written.

    Nothing was compiled where nobody has loaded torch's compiler, and loading it takes as long as loading torch.
    """
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")
