"""Installed packages that cannot be imported: what they want themselves is missing, or is of another version.

Such a package is as good as one that is not installed: it gets a stand-in, and the person is told what it raised.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import TracebackType
from typing import Final

from fxworker.absences import ABSENCES

_MOST: Final = 6
"""How many packages may be found broken by one import."""

_NEEDED: Final = frozenset({"numpy", "torch"}) | sys.stdlib_module_names
"""Without these there is nothing to be seen of any model."""


def without_broken(work: Callable[[], None]) -> None:
    """Import something, without the packages that turn out on the way not to be importable.

    Raises:
        BaseException: What it raises for another reason.
    """
    for _ in range(_MOST):
        try:
            work()
        except Exception as error:
            name = _failing(error)
            if not name:
                raise
            _give_up(name, error)
        else:
            return
    work()


def are_still_broken() -> bool:
    """Whether nothing was installed in the meantime where the packages lie that could not be imported."""
    return all(_stamp(name) == stamp for name, stamp in ABSENCES.broken.items())


def is_broken(name: str) -> bool:
    """Whether a module belongs to a package that could not be imported."""
    return name.partition(".")[0] in ABSENCES.broken


def _failing(error: Exception) -> str:
    """Return the innermost package that was being imported when something was raised, "" for one of the project's."""
    names = _importing(error.__traceback__)
    foreign = [each for each in names[1:] if each != names[0] and each not in _NEEDED and is_installed(each)]
    return "" if not foreign or is_broken(foreign[-1]) else foreign[-1]


def _importing(way: TracebackType | None) -> list[str]:
    """Return the package that something began in, then those whose modules it came through while they were imported."""
    found: list[str] = []
    while way is not None:
        code, package = way.tb_frame.f_code, str(way.tb_frame.f_globals.get("__name__")).partition(".")[0]
        is_python = code.co_filename.startswith("<frozen") or package in {"fxworker", "importlib"}
        if not is_python and (not found or code.co_name == "<module>"):
            found.append(package)
        way = way.tb_next
    return found


def _give_up(name: str, error: Exception) -> None:
    """Let a package be stood in for from now on."""
    ABSENCES.broken[name] = _stamp(name)
    ABSENCES.names.add(name)
    text = f"'{name}' is installed and cannot be imported: {type(error).__name__}: {error}"
    ABSENCES.found.append(ModuleNotFoundError(text, name=name).with_traceback(error.__traceback__))
    for each in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[each]


def is_installed(name: str) -> bool:
    """Whether a package was installed, or belongs to Python."""
    folder = _folder_of(name)
    return name in sys.stdlib_module_names or (bool(folder) and _is_recorded(name, folder))


def _folder_of(name: str) -> str:
    """Return the folder that a package lies in, "" where it is not known."""
    spec = PathFinder.find_spec(name)
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin or ""][:1]
    return os.path.dirname(places[0]) if places else ""


def _stamp(name: str) -> int:
    """Return when something was installed last where a package lies, 0 where there is nothing."""
    try:
        return os.stat(_folder_of(name)).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=64)
def _is_recorded(name: str, folder: str) -> bool:
    """Whether an installation in a folder has recorded that it brought a package there."""
    for record in Path(folder).glob("*.dist-info/RECORD"):
        with contextlib.suppress(OSError):
            lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
            if any(each.startswith((f"{name}/", f"{name}.py")) for each in lines):
                return True
    return False
