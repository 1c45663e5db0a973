"""The command line: `fxls check`, `fxls code`, `fxls graph`, `fxls profile`.

It asks the same workers as the server and judges with the same functions; only the way of showing differs.
"""

from fxls.cli.commands import main

__all__ = ["main"]
