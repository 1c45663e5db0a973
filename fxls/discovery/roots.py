"""Where a file's imports are looked for: the folders that belong on `sys.path`, and the project around it.

Only looks at names of files and folders. The order is that of the search: a package's own root first, so that
`import mypackage` finds the one that is edited.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

_MARKS: Final = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
_SOURCES: Final = ("src", "lib", "python")


def package_root(path: str) -> str:
    """Return the folder that holds the outermost package around a file, the file's own folder outside packages.

    A folder between two packages belongs to the outer one, though nothing in it says so.
    """
    innermost = folder = Path(path).parent
    while _is_package(folder) or (folder != innermost and _is_package(folder.parent)):
        folder = folder.parent
    return str(folder)


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file() and folder.parent != folder


def project_root(path: str, workspace: Iterable[str] = ()) -> str | None:
    """Return the nearest folder above a file that a project's mark lies in, at most the workspace folder around it."""
    file = Path(path)
    limits = {Path(folder) for folder in workspace}
    for folder in file.parents:
        if any((folder / mark).exists() for mark in _MARKS):
            return str(folder)
        if folder in limits:
            return str(folder)
    return None


def roots_of(path: str, workspace: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the folders that a file's imports are looked for in, nearest first.

    They are the root of its package, a `src` layout's folder, the project's root, and workspace folders around it.
    A folder inside a package is none of them: it would let the package's modules shadow top-level ones.
    """
    folders = tuple(workspace)
    file = Path(path)
    roots = [package_root(path)]
    project = project_root(path, folders)
    if project is not None:
        roots.extend(str(Path(project) / name) for name in _SOURCES if (Path(project) / name).is_dir())
        roots.append(project)
    roots.extend(folder for folder in folders if Path(folder) in file.parents)
    return tuple(dict.fromkeys(root for root in roots if not (Path(root) / "__init__.py").is_file()))


def configuration_file(path: str, workspace: Iterable[str] = ()) -> str | None:
    """Return the pyproject.toml that governs a file: the nearest one above it, inside the workspace if there is one."""
    limits = {Path(folder) for folder in workspace}
    for folder in Path(path).parents:
        candidate = folder / "pyproject.toml"
        if candidate.is_file():
            return str(candidate)
        if folder in limits:
            return None
    return None
