"""What modules that were imported have, without asking them: one that a project makes lazy imports when it is asked."""

import sys
from typing import Any


def attributes_of(name: str) -> dict[str, Any]:
    """Return what an imported module has by now; nothing where it was not imported, or is no object with attributes."""
    try:
        found = object.__getattribute__(sys.modules.get(name), "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def file_of(name: str) -> str | None:
    """Return the file of an imported module; None where it has none."""
    path = attributes_of(name).get("__file__")
    return path if isinstance(path, str) else None
