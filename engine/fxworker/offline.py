"""Building models without the network: weights that would be downloaded are absent, and everything else is refused.

What is asked of a model here is its structure and its speed; neither needs trained weights. Code that waits for a
network which does not answer, and tries again, would take longer than everything else together.
"""

import email.message
import functools
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final, NoReturn, Self, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import _IncompatibleKeys

from fxworker.callers import is_dropped, is_guarded, must_contain, outwards, wanted_by
from fxworker.once import wrapped_once
from fxworker.pretrained import models_are_made

_WEIGHTS: Final = (".bin", ".ckpt", ".h5", ".msgpack", ".pt", ".pth", ".pth.tar", ".safetensors")
_NOWHERE: Final = "/nonexistent/weights"
_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 — Recognised, not bound to.

_INSTALLING: Final = re.compile(r"\b(pip3?|conda|mamba|uv|apt|apt-get|brew)\b.*\binstall\b")
"""What programs are called with that install packages, which they would fetch."""

_COMPILING: Final = re.compile(
    r"\bsetup\.py\b.*\b(build\w*|develop|install)\b"
    r"|(?:^|[;&|(]\s*|/)(?:c?make|ninja|nvcc|hipcc|[gc]\+\+|gcc|cc|clang(?:\+\+)?)(?:-\d+)?(?=$|\s)(?!\s+-+(?:version|dump\w*)\b)"
)
"""What programs are called with that compile something, and do not only say which they are."""

_FETCHERS: Final = {"gdown": 1, "wget": 1}
"""Packages whose `download` fetches a file, and which of its arguments says where to."""

NO_NETWORK: Final = "fxls runs files without the network"
"""What is said to code that asks for a connection to another machine."""

NO_COMPILER: Final = "fxls runs files without compiling extensions"
"""What is said to code that starts a compiler."""

_NOT_FOUND: Final = 127 << 8
"""What the shell says of a command that there is not, as a status of a process."""

_Result = TypeVar("_Result")

_absent: Final[set[str]] = set()
"""Files that would have been downloaded."""

_OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
"""What says in the environment that libraries are to be offline."""


class AbsentWeights(dict[Any, Any]):
    """Weights that were not downloaded: what is looked up in them is absent too, and loading them changes nothing.

    What has been read from a file that is not there says so where code asks it for what no table has.
    """

    def __init__(self, file: Any = "") -> None:
        super().__init__()
        self._file = os.path.basename(os.fspath(file))

    def __missing__(self, key: Any) -> "AbsentWeights":
        return self

    def __contains__(self, key: object) -> bool:
        # Nobody knows what they had, but for what the code cannot do without.
        return super().__contains__(key) or must_contain(sys._getframe(1))

    @classmethod
    def __torch_function__(cls, func: Any, _types: Any, args: tuple[Any, ...] = (), _kwargs: Any = None) -> Any:
        # What they are written into stays as it is, and what is computed with them is absent as they are.
        is_written = func.__name__.endswith("_") and not func.__name__.endswith("__")
        return args[0] if is_written and isinstance(args[0], torch.Tensor) else cls()

    def __iter__(self) -> Iterator[Any]:
        # What is taken apart has as many parts as there are names for them.
        return iter([self] * wanted_by(sys._getframe(1)))

    def _computed(self, _other: Any) -> "AbsentWeights":
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _computed

    def __getattr__(self, name: str) -> Any:
        what = f"the file {self._file!r}" if self._file else "what would be downloaded"
        text = f"{type(self).__name__!r} object has no attribute {name!r}: {what} is not there"
        raise AttributeError(text, name=name, obj=self)


# What Python calls them where code asks for what they have not.
AbsentWeights.__name__ = "weights that are absent"


@functools.cache
def go_offline() -> None:
    """Let nothing be downloaded in this process, for good. Libraries that have an offline mode get it.

    They ask for it at their import: without it they would wait, and try again, where they get no connection.
    """
    for name in _OFFLINE:
        os.environ[name] = "1"
    if (hub := sys.modules.get("huggingface_hub.constants")) is not None:
        hub.HF_HUB_OFFLINE = True  # pyright: ignore[reportAttributeAccessIssue] — It has it.
    load, read = nn.Module.load_state_dict, torch.load

    @functools.wraps(load)
    def load_state_dict(self: nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        # What was chosen from absent weights is empty.
        if isinstance(state_dict, AbsentWeights) or (isinstance(state_dict, dict) and not state_dict):
            return _IncompatibleKeys([], [])
        return load(self, state_dict, *args, **kwargs)

    @functools.wraps(read)
    def load_file(f: Any, *args: Any, **kwargs: Any) -> Any:
        return AbsentWeights(f) if _is_absent(f) else read(f, *args, **kwargs)

    nn.Module.load_state_dict = load_state_dict
    torch.load = load_file
    torch.hub.load_state_dict_from_url = lambda *_args, **_kwargs: AbsentWeights()
    torch.hub.download_url_to_file = lambda _url, dst, *_args, **_kwargs: _absent.add(str(dst))
    urllib.request.urlretrieve = _retrieving(urllib.request.urlretrieve)
    _refuse_connections()
    _refuse_programs()


def without_weights(work: Callable[[], _Result]) -> _Result:
    """Do something without the weights and models that it fetches, and return what it gives.

    What fetches them may be imported on the way, and does without them only then: what raised is done once more.
    """
    _weights_are_absent()
    imported = len(sys.modules)
    try:
        return work()
    except Exception:
        if len(sys.modules) == imported or not _weights_are_absent():
            raise
    return work()


def _weights_are_absent() -> bool:
    """Let the libraries that fetch weights or models, as far as they are imported, do without what they do not have.

    Returns:
        Whether one of them did not do so before.
    """
    changed = [models_are_made()]
    hub = sys.modules.get("huggingface_hub.file_download")
    if hub is not None:
        names = ("_hf_hub_download_to_cache_dir", "_hf_hub_download_to_local_dir")
        changed += [_replace(hub, each, _fetching) for each in names]
    tensors = sys.modules.get("safetensors.torch")
    if tensors is not None:
        # What was imported by its name opens files with the second.
        changed += [_replace(tensors, "load_file", _reading), _replace(tensors, "safe_open", _opening)]
    for name, position in _FETCHERS.items():
        fetcher = sys.modules.get(name)
        if fetcher is not None:
            changed.append(_replace(fetcher, "download", partial(_downloading, position=position)))
    return any(changed)


def _retrieving(retrieve: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that fetches a file by its address, or says that it is absent if it would be one of weights."""

    @functools.wraps(retrieve)
    def retrieved(url: str, filename: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not str(filename).endswith(_WEIGHTS) or str(url).startswith("file:"):
            return retrieve(url, filename, *args, **kwargs)
        _absent.add(str(filename))
        return str(filename), email.message.Message()

    return retrieved


def _downloading(fetch: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Return a function that fetches a file to where its argument in a position says, or says that it is absent."""

    def downloaded(*args: Any, **kwargs: Any) -> Any:
        output = next((kwargs[each] for each in ("output", "out") if each in kwargs), None)
        output = args[position] if output is None and len(args) > position else output
        if not str(output).endswith(_WEIGHTS):
            return fetch(*args, **kwargs)
        _absent.add(str(output))
        return str(output)

    return downloaded


def _replace(module: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Put a wrapper around a function of a module, and return whether it had none."""
    function = getattr(module, name, None)
    wrapped = wrapped_once(function, wrapper) if function is not None else None
    if wrapped is not None:
        setattr(module, name, wrapped)
    return wrapped is not None


def _fetching(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that fetches a file of weights, or says that it is absent."""

    def fetched(*args: Any, **kwargs: Any) -> Any:
        try:
            return fetch(*args, **kwargs)
        except Exception:
            name = str(kwargs.get("filename", ""))
            if not (name.endswith(_WEIGHTS) or _is_only_counted(sys._getframe(1))):
                raise
            path = f"{_NOWHERE}/{name}"
            _absent.add(path)
            return path

    return fetched


def _is_only_counted(frame: FrameType | None) -> bool:
    """Whether a file is fetched for nothing that is kept, so that the fetching is counted, by code that expects it."""
    around = (each for each in outwards(frame) if not each.f_globals.get("__name__", "").startswith("huggingface_hub."))
    asking = next(around, None)
    return asking is not None and is_dropped(asking) and not is_guarded(asking)


def _reading(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads a file of weights, none where it is absent."""

    def loaded(filename: Any, *args: Any, **kwargs: Any) -> Any:
        return AbsentWeights(filename) if _is_absent(filename) else read(filename, *args, **kwargs)

    return loaded


class _NoTensors:
    """A file of weights without any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def keys(self) -> list[str]:
        """Return the names of its tensors."""
        return []

    offset_keys = keys

    def get_tensors(self, *_names: str) -> dict[str, Any]:
        """Return its tensors by their names."""
        return {}


def _opening(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that opens a file of weights, one without any where it is absent."""

    def opened(filename: Any, *args: Any, **kwargs: Any) -> Any:
        return _NoTensors() if _is_absent(filename) else read(filename, *args, **kwargs)

    return opened


def _is_absent(file: Any) -> bool:
    """Whether a file is one of weights that is not there, be it that it would have been downloaded."""
    path = os.fspath(file) if isinstance(file, str | os.PathLike) else ""
    return isinstance(path, str) and (path in _absent or (path.endswith(_WEIGHTS) and not os.path.exists(path)))


def _refuse_connections() -> None:
    """Let connections to other machines fail at once."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    @functools.wraps(connect)
    def connected(self: socket.socket, address: Any) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and address[0] not in _LOCAL:
            _refuse()
        connect(self, address)

    @functools.wraps(look_up)
    def looked_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and name not in _LOCAL:
            _refuse()
        return look_up(host, *args, **kwargs)

    socket.socket.connect = connected
    socket.getaddrinfo = looked_up


def _refuse_programs() -> None:
    """Let programs fail at once that install packages, or compile something: both take longer than anything here."""
    start, run = subprocess.Popen.__init__, vars(os)["system"]

    @functools.wraps(start)
    def started(self: Any, args: Any, *others: Any, **kwargs: Any) -> None:
        words = args if isinstance(args, str | bytes | os.PathLike) else " ".join(map(str, args))
        if _INSTALLING.search(str(words)):
            _refuse()
        if _COMPILING.search(str(words)):
            raise PermissionError(NO_COMPILER)
        start(self, args, *others, **kwargs)

    @functools.wraps(run)
    def ran(command: Any) -> int:
        is_refused = _INSTALLING.search(str(command)) or _COMPILING.search(str(command))
        return _NOT_FOUND if is_refused else run(command)

    subprocess.Popen.__init__ = started
    os.system = ran


def _refuse() -> NoReturn:
    raise ConnectionRefusedError(NO_NETWORK)
