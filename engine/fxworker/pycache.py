"""The compiled code of our own modules, kept in the person's cache folder where Python keeps none beside their files.

Containers tell Python to write no bytecode (`PYTHONDONTWRITEBYTECODE`), and what somebody else has installed cannot be
written to. Each start would compile all of ours again, which takes half as long as the import of torch. Only what is
imported in here is kept, and nothing that the person's code imports.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Generator
from typing import Final

FOLDER: Final = "FXLS_PYCACHE"
"""The variable that names the folder to a worker; where it is missing, all is as Python has it."""


@contextlib.contextmanager
def kept(folder: str, module: str) -> Generator[None]:
    """Keep the compiled code of what is imported in here below a folder, unless Python keeps it anyway.

    Args:
        folder: An absolute path; empty for none. It is made when it is needed.
        module: The file of one of the modules that are imported, which tells of the others.
    """
    if not folder or _keeps(module):
        yield
        return
    before, sys.pycache_prefix, sys.dont_write_bytecode = sys.dont_write_bytecode, folder, False
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = None, before


def _keeps(module: str) -> bool:
    """Whether Python keeps the compiled code of a module, or somebody has put it there."""
    if sys.pycache_prefix or os.path.exists(importlib.util.cache_from_source(module)):
        return True
    return not sys.dont_write_bytecode and os.access(os.path.dirname(module), os.W_OK)
