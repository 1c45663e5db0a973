"""Installed packages that cannot be imported: what they want themselves is missing, or is of another version.

Such a package is as good as one that is not installed: it gets a stand-in, and the person is told what it raised. So
does what code imports of a package, or reads of it while it is imported itself, that the installed version has not.
"""

import builtins
import contextlib
import dis
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final

from fxworker.absences import ABSENCES
from fxworker.absent import AbsentModule
from fxworker.retrying import again

_MOST: Final = 16
"""How many packages, or things in them, may be found wanting by one import."""

_NEEDED: Final = frozenset({"numpy", "torch"}) | sys.stdlib_module_names
"""Without these there is nothing to be seen of any model."""

_RENAMED: Final = re.compile(
    r"(?s)(?:module '\w+' has no attribute '\w+'\.\s*)?`\w+\.(\w+)` was "
    r"(?:a deprecated alias for the builtin `(\w+)`|removed in [^`]*Use `\w+\.(\w+)` instead)"
)
"""What numpy says of a name that it has no longer, and of what to use instead: a builtin, or something of its own."""

_GONE: Final = {
    "bool8": "bool_",
    "int0": "intp",
    "uint0": "uintp",
    "object0": "object_",
    "str0": "str_",
    "bytes0": "bytes_",
    "void0": "void",
    "product": "prod",
    "cumproduct": "cumprod",
    "sometrue": "any",
    "alltrue": "all",
    "in1d": "isin",
    "trapz": "trapezoid",
    "row_stack": "vstack",
    "round_": "round",
}
"""What numpy has no longer and says nothing of, with what to use instead."""


def without_broken(work: Callable[[], None]) -> None:
    """Import something, without the packages that turn out on the way not to be importable.

    Raises:
        BaseException: What it raises for another reason.
    """
    again(work, _done_without, _MOST)


def _done_without(error: Exception) -> bool:
    """Whether what an exception is about is supplied, or given up, from now on."""
    if renamed := _renamed(error):
        _supply(*renamed, error)
    elif lacked := _lacked(error):
        module, name = lacked
        _supply(module, name, getattr(AbsentModule(module.__name__), name), error)
    elif name := _failing(error):
        _give_up(name, error)
    else:
        return False
    return True


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


def _lacked(error: Exception) -> tuple[ModuleType, str] | None:
    """Return the module of another package, and the name of what it has not, that something wanted of it; else None."""
    way = _asking(error)
    module = _read_by(way, error) or _imported_from_by(way, error)
    if way is None or module is None or isinstance(module[0], AbsentModule):
        return None
    package = module[0].__name__.partition(".")[0]
    asking = package_of(way.tb_frame)
    return module if asking != package and package not in _NEEDED and is_installed(package) else None


def _asking(error: Exception) -> TracebackType | None:
    """Return where something was asked for that is not there, not where a module looked it up that makes names late."""
    way, module = error.__traceback__, error.obj if isinstance(error, AttributeError) else None
    while way is not None and way.tb_next is not None:
        inner = way.tb_next.tb_frame
        is_looking = inner.f_code.co_name == "__getattr__" and isinstance(module, ModuleType)
        if is_looking and (inner.f_locals.get("self") is module or inner.f_globals is vars(module)):
            break
        way = way.tb_next
    return way


def _renamed(error: Exception) -> tuple[ModuleType, str, Any] | None:
    """Return the module, the name that another module reads of it while it is imported, and what that is called now.

    It is None where nobody says so, be it the module: "`np.float_` was removed. Use `np.float64` instead."
    """
    frames = _frames(error.__traceback__) if type(error) is AttributeError else []
    is_asked = [each.f_code.co_name for each in frames[-2:]] == ["<module>", "__getattr__"] and _is_imported(frames)
    module = sys.modules.get(str(frames[-1].f_globals.get("__name__"))) if is_asked else None
    if module is None:
        return None
    if told := _RENAMED.match(str(error)):
        name, builtin, other = told.groups()
        return module, name, getattr(builtins, builtin) if builtin else getattr(module, other, None)
    gone = str(getattr(error, "name", None))
    now = _GONE.get(gone) if module.__name__ == "numpy" else None
    return (module, gone, getattr(module, now)) if now is not None and hasattr(module, now) else None


def _frames(way: TracebackType | None) -> list[FrameType]:
    """Return the frames of a traceback, outermost first."""
    found: list[FrameType] = []
    while way is not None:
        found.append(way.tb_frame)
        way = way.tb_next
    return found


def _is_imported(frames: Sequence[FrameType]) -> bool:
    """Whether something is imported on the way, and not only the file itself executed.

    Where a statement imports it, Python leaves out the frames of what it is imported by.
    """
    executed = [each for each in frames if each.f_code.co_name == "<module>"]
    return len(executed) > 1 or any(each.f_code.co_filename.startswith("<frozen importlib") for each in frames)


def _read_by(way: TracebackType | None, error: Exception) -> tuple[ModuleType, str] | None:
    """Return the module, and the name, that another module read in vain while it was imported; None for others.

    What the file itself reads in vain that is open is its own mistake.
    """
    module, name = (error.obj, error.name) if isinstance(error, AttributeError) else (None, None)
    is_read = way is not None and way.tb_frame.f_code.co_name == "<module>" and name is not None
    if not is_read or not isinstance(module, ModuleType):
        return None
    return (module, str(name)) if _is_imported(_frames(error.__traceback__)) else None


def _imported_from_by(way: TracebackType | None, error: Exception) -> tuple[ModuleType, str] | None:
    """Return the module, and the name, that an import wanted out of it in vain; None for what was raised otherwise."""
    module = sys.modules.get(str(error.name)) if type(error) is ImportError else None
    is_whole = module is not None and not getattr(module.__spec__, "_initializing", False)
    if way is None or module is None or not is_whole:
        return None
    names = (
        str(each.argval)
        for each in dis.get_instructions(way.tb_frame.f_code)
        if each.offset == way.tb_lasti and each.opname == "IMPORT_FROM"
    )
    name = next(names, "")
    return (module, name) if name else None


def package_of(frame: FrameType) -> str:
    """Return the package that a frame's code belongs to, "" where it says none."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def may_lack(name: str, asking: str) -> bool:
    """Whether an installed package may be of a version that has not, or no longer, a module that another asks for.

    Of torch and numpy this is so for what is not meant for others.
    """
    package, _, rest = name.partition(".")
    is_private = any(each.startswith("_") for each in rest.split("."))
    is_known = package in sys.stdlib_module_names or (package in _NEEDED and not is_private)
    return asking != package and not is_known


def _supply(module: ModuleType, name: str, value: Any, error: Exception) -> None:
    """Let something in a module be stood in for by a value from now on."""
    path = f"{module.__name__}.{name}"
    setattr(module, name, value)
    ABSENCES.broken[path] = _stamp(path)
    ABSENCES.names.add(path)
    ABSENCES.found.append(ImportError(str(error), name=path).with_traceback(error.__traceback__))


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
    """Return when something was installed last where the package of a name lies, 0 where there is nothing."""
    try:
        return os.stat(_folder_of(name.partition(".")[0])).st_mtime_ns
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
