"""What a worker runs on: loading torch once, and finding the devices without touching them."""

import importlib
import os
import platform
import select
import sys
from typing import Any, Final

from fxworker import sandbox
from fxworker.wire import EnvironmentReport

_PROBE_SECONDS: Final = 20.0


def load(*, forking: bool = True) -> EnvironmentReport:
    """Import torch and report the environment; `problem` says why it cannot trace, with forked processes or without."""
    if forking and not hasattr(os, "pidfd_open"):
        return _report("", (), f"models cannot be run safely on {platform.system()} yet")
    try:
        torch: Any = importlib.import_module("torch")
        version = str(torch.__version__)
        torch.set_num_threads(1)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return _report("", (), f"the interpreter {sys.executable} has no torch")
        return _report("", (), f"torch of {sys.executable} cannot be imported: {error}")
    except BaseException as error:  # noqa: BLE001 — A broken torch fails in any way, at the loader's or its own will.
        return _report("", (), f"torch of {sys.executable} cannot be imported: {type(error).__name__}: {error}")
    return _report(version, devices(torch), "")


def devices(torch: Any) -> tuple[str, ...]:
    """Return the devices that a profile can run on, the CPU first. This process does not initialise any of them."""
    found = ["cpu"]
    if hasattr(os, "fork") and any(_is_built(torch, name) for name in ("cuda", "xpu", "mps")):
        found += _probe(torch)
    return tuple(found)


def _report(torch: str, found: tuple[str, ...], problem: str) -> EnvironmentReport:
    return EnvironmentReport(platform.python_version(), sys.executable, torch, found, problem, sandbox.available())


def _is_built(torch: Any, name: str) -> bool:
    if name == "cuda":
        return bool(torch.backends.cuda.is_built())
    if name == "mps":
        return bool(torch.backends.mps.is_built())
    return bool(getattr(torch.version, "xpu", None))


def _probe(torch: Any) -> list[str]:
    """Return the accelerators, as a child sees them: asking may initialise a driver, after which no fork is clean."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, "\n".join(_accelerators(torch)).encode("ascii"))
        finally:
            os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], _PROBE_SECONDS)
    text = os.read(reading, 1 << 16).decode("ascii") if ready else ""
    os.close(reading)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return text.split("\n") if text else []


def _accelerators(torch: Any) -> list[str]:
    found: list[str] = []
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        if module is not None and module.is_available():
            found += [f"{name}:{index}" for index in range(module.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found
