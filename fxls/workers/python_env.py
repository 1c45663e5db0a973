"""Which Python a document's models run in.

Nothing is executed here: a candidate counts when its file exists and may be executed. What it can do, whether it has
a torch, the worker says when it has started.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from fxls.settings import Settings

_FOLDERS = (".venv", "venv", "env")


@dataclass(frozen=True, slots=True)
class PythonEnv:
    """An interpreter: the command that starts it, and where it was found.

    `problem` is what to tell the person when the command cannot be started, "" when it can. `variables` are the rules
    for what its processes see of the environment (see `fxls.workers.variables`); with `temporary_home` each has a home
    folder of its own, which is removed with it.
    """

    command: tuple[str, ...]
    found: str
    problem: str = ""
    variables: tuple[str, ...] = ()
    temporary_home: bool = False

    @property
    def name(self) -> str:
        """The command as people write it."""
        return " ".join(self.command)


def find_python(
    path: str,
    folder: str | None = None,
    configured: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> PythonEnv:
    """Return the Python for a file: the first that exists.

    The order is: the command that is configured; the active environment (`VIRTUAL_ENV`, then `CONDA_PREFIX`); a
    `.venv`, `venv` or `env` in the workspace folder, then beside the file and in its parents up to the folder; the
    interpreter that the server itself runs on, if there is a torch beside it; a `python` on the PATH; the server's
    own in any case. A configured command that does not exist is a problem, never passed over in silence.
    """
    if configured:
        return _configured(tuple(configured), folder, environ)
    for prefix, found in _prefixes(path, folder, environ):
        python = _python_of(prefix)
        if python is not None:
            return PythonEnv((python,), found)
    own = PythonEnv((sys.executable,), "the server's own")
    if _is_beside_torch():
        return own
    for name in ("python3", "python"):
        python = shutil.which(name, path=environ.get("PATH"))
        if python is not None:
            return PythonEnv((python,), "on the PATH")
    return own


def environment_of(path: str, folder: str | None, settings: Settings) -> PythonEnv:
    """Return the Python for a file of a workspace folder, with what the settings say about its processes."""
    found = find_python(path, folder, settings.interpreter)
    return replace(found, variables=settings.worker_environment, temporary_home=settings.worker_temporary_home)


def environment_in(folder: str, settings: Settings) -> PythonEnv:
    """Return the Python for the files of a workspace folder that have none nearer to them."""
    return environment_of(os.path.join(folder, "*"), folder, settings)  # noqa: PTH118 — The name of no file.


def _is_beside_torch() -> bool:
    """Whether the server was installed into an environment of models; nothing is imported to find that out."""
    return find_spec("torch") is not None


def _configured(command: tuple[str, ...], folder: str | None, environ: Mapping[str, str]) -> PythonEnv:
    program = str(Path(command[0]).expanduser())
    if folder and os.sep in program:
        program = os.path.join(folder, program)  # noqa: PTH118 — an absolute program stays as it is.
    python = shutil.which(program, path=environ.get("PATH")) or _python_of(Path(program))
    if python is None:
        return PythonEnv(command, "configured", f"the configured interpreter `{command[0]}` does not exist")
    return PythonEnv((python, *command[1:]), "configured")


def _prefixes(path: str, folder: str | None, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(variable):
            yield Path(environ[variable]), variable
    top = Path(folder) if folder else None
    if top is not None:
        for name in _FOLDERS:
            yield top / name, f"{name} of the workspace folder"
    for parent in Path(path).parents:
        for name in _FOLDERS:
            yield parent / name, f"{name} in {parent}"
        if parent == top:
            return


def _python_of(prefix: Path) -> str | None:
    """Return the interpreter of an environment's folder, None where there is none."""
    for relative in ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe"):
        candidate = prefix / relative
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return None
