"""Where a file's imports are looked for: the folders that belong on `sys.path`, and the project around it.

Looks at names of files and folders, and into a file of a package only where a script may mean it. The order is that of
the search: a package's own root first, so that `import mypackage` finds the one that is edited.
"""

import contextlib
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Final

_MARKS: Final = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
_SOURCES: Final = ("src", "lib", "python")
_FURTHEST: Final = 3
"""How many folders above that of a file are looked into where no project says where it ends."""


def package_root(path: str) -> str:
    """Return the folder that holds the outermost package around a file, the file's own folder outside packages.

    A folder between two packages belongs to the outer one, though nothing in it says so.
    """
    innermost = folder = os.path.dirname(path)
    while _is_package(folder) or (folder != innermost and _is_package(os.path.dirname(folder))):
        folder = os.path.dirname(folder)
    return folder


def absolute_name(name: str, path: str) -> str:
    """Return the full name of what a file imports by a relative one, as `.layers.Mlp`; "" where it leads nowhere."""
    rest = name.lstrip(".")
    level = len(name) - len(rest)
    if not level:
        return name
    root, folder = package_root(path), os.path.dirname(path)
    parts = os.path.relpath(folder, root).split(os.sep) if folder != root else []
    above = parts[: len(parts) - level + 1]
    return ".".join([*above, rest]) if rest and above and len(parts) >= level else ""


def _is_package(folder: str) -> bool:
    return os.path.dirname(folder) != folder and os.path.isfile(os.path.join(folder, "__init__.py"))


def project_root(path: str, workspace: Iterable[str] = ()) -> str | None:
    """Return the nearest folder above a file that a project's mark lies in, at most the workspace folder around it."""
    limits = {os.path.normpath(folder) for folder in workspace}
    for folder in _parents(path):
        if folder in limits or any(os.path.exists(os.path.join(folder, mark)) for mark in _MARKS):
            return folder
    return None


def roots_of(path: str, workspace: Iterable[str] = (), imported: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the folders that a file's imports are looked for in, nearest first.

    They are what a folder lies in that the file is in and imports from by its name, the root of its package, a `src`
    layout's folder, the project's root, workspace folders around it, and folders above it that scripts are started in:
    those that hold what it imports and no other of them has.
    A folder inside a package comes last, and only where something is imported that lies in it and nowhere else: its
    modules are not to shadow top-level ones. A file in one that nothing says to belong to the package has the package's
    root besides its own folder.
    """
    folders = tuple(workspace)
    imported = [name for name in imported if not name.startswith(".")]
    root = package_root(path)
    # Before its own folder: `model/model.py` that imports from `model.layers` is not what `model` is.
    named = [*_named(path, imported)]
    roots = [*named, root]
    if _is_package(os.path.dirname(root)):
        roots.append(package_root(root))
    project = project_root(path, folders)
    if project is not None:
        sources = (os.path.join(project, name) for name in _SOURCES)
        roots.extend(folder for folder in sources if os.path.isdir(folder))
        roots.append(project)
    parents = {*_parents(path)}
    roots.extend(folder for folder in folders if os.path.normpath(folder) in parents)
    limits = {project, *map(os.path.normpath, folders)} & parents
    started = [*_started_in(path, imported, [each for each in roots if not _is_package(each)], limits)]
    outer = [each for each in (*roots, *started) if not _is_package(each)]
    return tuple(dict.fromkeys([*outer, *filter(_is_package, (*named, *started))]))


def _named(path: str, imported: Iterable[str]) -> Iterator[str]:
    """Yield what those folders above a file lie in that it imports from by their names: `from project.nets import Net`.

    No file says of such a folder that it is a package: it is one wherever the folder around it is looked through.
    """
    parts = [name.split(".") for name in imported]
    for folder in _parents(path):
        around, name = os.path.split(folder)
        below = [os.path.join(folder, each[1]) for each in parts if len(each) > 1 and each[0] == name]
        if any(os.path.isdir(each) or os.path.isfile(f"{each}.py") for each in below):
            yield around


def _started_in(
    path: str, imported: Iterable[str], roots: Iterable[str], limits: Collection[str | None]
) -> Iterator[str]:
    """Yield the nearest folders above a file that hold modules it imports and none of the roots does.

    They lie in the project or, where nothing says what that is, not far above.
    """
    parts = {tuple(name.split(".")[:2]) for name in imported}
    parts = {each for each in parts if each[0] not in sys.stdlib_module_names}
    parts = {each for each in parts if not any(_holds(root, *each) for root in roots)}
    for above, folder in enumerate(_parents(path)):
        found = {each for each in parts if _holds(folder, *each) and (not _is_package(folder) or _has(folder, *each))}
        if found and os.path.dirname(folder) != folder:
            parts -= found
            yield folder
        if not parts or folder in limits or (not limits and above == _FURTHEST):
            return


def _holds(folder: str, name: str, member: str = "") -> bool:
    """Whether a folder has a module of a name, a package that says to be one, or a folder with such a member."""
    module = os.path.join(folder, name)
    inner = os.path.join(module, member)
    of_member = (f"{inner}.py", os.path.join(inner, "__init__.py")) if member else ()
    return any(map(os.path.isfile, (f"{module}.py", os.path.join(module, "__init__.py"), *of_member)))


def _has(folder: str, name: str, member: str = "") -> bool:
    """Whether a module in a folder has what is imported from it, or may have: what is not installed may be called so.

    `from datasets import load_dataset` means no folder `datasets` that does not speak of it.
    """
    module = os.path.join(folder, name)
    if (
        not member
        or os.path.exists(os.path.join(module, f"{member}.py"))
        or os.path.isdir(os.path.join(module, member))
    ):
        return True
    for file in (f"{module}.py", os.path.join(module, "__init__.py")):
        with contextlib.suppress(OSError), open(file, encoding="utf-8", errors="replace") as source:
            return re.search(rf"\b{re.escape(member)}\b|import \*", source.read()) is not None
    return False


def _parents(path: str) -> Iterator[str]:
    """Yield the folders above a file, nearest first."""
    folder = os.path.dirname(path)
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def configuration_file(path: str, workspace: Iterable[str] = ()) -> str | None:
    """Return the pyproject.toml that governs a file: the nearest one above it, inside the workspace if there is one."""
    limits = {os.path.normpath(folder) for folder in workspace}
    for folder in _parents(path):
        candidate = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(candidate):
            return candidate
        if folder in limits:
            return None
    return None
