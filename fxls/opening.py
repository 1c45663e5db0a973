"""What is begun between the client's first message and the server: the Python that this message leads to.

The framework and the types of the protocol take as long to load as a fourth of torch, and the one can be done beside
the other. So this module, and what it needs, load neither.
"""

import logging
from typing import Any, Final

from fxls.settings import Settings
from fxls.text.uris import names_file, to_path
from fxls.transport import Incoming
from fxls.workers.pool import WorkerPool
from fxls.workers.python_env import PythonEnv, environment_in

_log = logging.getLogger(__name__)

_INITIALIZE: Final = "initialize"


async def begin(message: Incoming | None, pool: WorkerPool) -> None:
    """Start the worker for the first folder that an `initialize` names, unless nothing may run there.

    Whether the message is as it should be is not for this module to say: what it cannot read it lets pass.
    """
    env = _environment(message)
    if env is not None and not env.problem:
        _log.info("%s is started ahead", env.name)
        await pool.client(env).start()


def _environment(message: Incoming | None) -> PythonEnv | None:
    """Return the Python that files of the first folder are traced with, None where there is none or nothing may run."""
    if not isinstance(message, dict) or message.get("method") != _INITIALIZE:
        return None
    params: Any = message.get("params")
    given = params.get("initializationOptions") if isinstance(params, dict) else None
    options: dict[str, Any] = given if isinstance(given, dict) else {}
    folder = _folder(params)
    if folder is None or options.get("trusted", True) is not True:
        return None
    return environment_in(folder, Settings.read(options)[0])


def _folder(params: Any) -> str | None:
    """Return the first workspace folder, None where there is none that is a folder on this machine."""
    folders: Any = params.get("workspaceFolders") if isinstance(params, dict) else None
    first: Any = folders[0] if isinstance(folders, list) and folders else None
    uri: Any = first.get("uri") if isinstance(first, dict) else None
    if uri is None and isinstance(params, dict):
        uri = params.get("rootUri")
    path = to_path(uri) if isinstance(uri, str) else ""
    return path if path and names_file(path) else None
