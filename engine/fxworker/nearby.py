"""Files that code asks for by a name that leads nowhere, and that lie elsewhere in its project.

A constructor with `cfg="tiny.yaml"` expects to be called in the folder that has the file; a file that is looked at has
no such folder. Only names are compared, and nothing is read.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

_MOST_SEEN: Final = 4000
"""How many entries of folders are looked at."""

_CONFIGURATIONS: Final = frozenset({".cfg", ".ini", ".json", ".toml", ".yaml", ".yml"})
_OTHERS: Final = re.compile(
    r"pyproject|setup|package(-lock)?|tox|mypy|pytest|ruff|environment|conda|poetry|tsconfig|\..*"
)
"""How files begin that configure tools."""

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def files_called(name: str, beside: str) -> list[str]:
    """Return the paths of the files in the project of a file that are called as a path ends, those nearest first.

    They are relative to the working directory where they lie below it.
    """
    wanted = os.path.basename(name)
    return _nearest(beside, lambda each: each.name == wanted) if os.path.splitext(wanted)[1] else []


def configurations(beside: str, around: Iterable[str] = ()) -> list[str]:
    """Return the paths of the files in the project of a file that configure its models, as those above.

    Args:
        beside: The file.
        around: Folders that may hold the project.
    """
    return _nearest(beside, lambda each: each.suffix in _CONFIGURATIONS and _OTHERS.match(each.name) is None, around)


def _nearest(beside: str, is_wanted: Callable[[Path], bool], around: Iterable[str] = ()) -> list[str]:
    """Return the files of the project of a file that are wanted, in the folder of its package or in one around it."""
    place = Path(beside).parent
    top = place
    while (top / "__init__.py").exists() and top.parent != top:
        top = top.parent
    top = min(
        (top, *(each for each in map(Path, around) if top.is_relative_to(each))), key=lambda each: len(each.parts)
    )
    found = [each for each in _below(top) if is_wanted(each)]
    found.sort(key=lambda each: (len(os.path.relpath(each, place).split(os.sep)), str(each)))
    here = Path.cwd()
    return [str(each.relative_to(here)) if each.is_relative_to(here) else str(each) for each in found]


def _below(top: Path) -> Iterator[Path]:
    """Yield the files below a folder, the uppermost first."""
    waiting, seen = [top], 0
    for folder in waiting:
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                    waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)
        if seen > _MOST_SEEN:
            return
