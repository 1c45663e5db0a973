"""Imports that go in a circle, which Python lets pass or not by where it is entered.

A program enters its package where its author did. Whoever opens a file of it enters there, which may be the one place
where the circle does not close: then the modules on the way are imported first, the innermost before the others.
"""

import contextlib
import importlib
import sys
from typing import Final

from fxengine.classification import moments_of
from fxengine.errors import text_of

_UNFINISHED: Final = "partially initialized module"
"""What Python says of a module that is asked for something before it has got that far."""

_MOST_ENTRIES: Final = 4
"""At how many modules a circle is tried to be entered."""


def entered_elsewhere(error: Exception) -> bool:
    """Import a module first on the way to where an import found another unfinished, and return whether there is one."""
    if not isinstance(error, ImportError | AttributeError) or _UNFINISHED not in text_of(error):
        return False
    frames = [each.frame for each in reversed(moments_of(error.__traceback__))]
    names = dict.fromkeys(str(each.f_globals.get("__name__")) for each in frames if each.f_code.co_name == "<module>")
    # What is there by now is not entered anew; a module whose import failed is not.
    for name in [each for each in names if each not in sys.modules][:_MOST_ENTRIES]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
            return True
    return False
