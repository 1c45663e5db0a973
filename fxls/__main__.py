"""`fxls` and `python -m fxls`: the language server, or, with a sub-command, the command line.

Without arguments the server speaks on standard input and output; on a terminal, where a person and not an editor has
started it, help is printed instead. The server is loaded when the client has spoken, beside the Python that it wants.
"""

import argparse
import asyncio
import contextlib
import ctypes
import gc
import importlib
import ipaddress
import socket
import sys
import types
from collections.abc import Callable, Sequence
from typing import Final

from fxls import __version__
from fxls.cache import bytecode_folder, cache_folder
from fxls.connection import Server, serve_stdio, serve_tcp
from fxls.logs import start_log
from fxls.opening import begin
from fxls.transport import Incoming
from fxls.workers.pool import WorkerPool
from fxworker.pycache import kept

_OBJECTS: Final = 20_000
"""New objects after which a collection looks at them; a syntax tree alone is tens of thousands, and has no cycles."""

_ARENAS: Final = -8
_MAPPED: Final = -3
_KEPT: Final = -1
"""What glibc's `malloc.h` calls M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: how many heaps there are, from how
many bytes on a block is mapped by itself, and how many bytes stay free at the end of the heap."""

_TURN: Final = 0.0005
"""Seconds that a thread which computes keeps the interpreter for itself: a person waits for the event loop."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server or a sub-command; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and not given[0].startswith("-"):
        return int(_ours("fxls.cli").main(given))
    parser = _parser()
    options = parser.parse_args(given)
    if not given and sys.stdin.isatty():
        parser.print_help()
        return 0
    start_log(cache_folder() / "logs")
    sys.setswitchinterval(_TURN)

    async def create(send: Callable[[bytes], object], first: Incoming | None) -> Server:
        pool = WorkerPool()
        if not options.no_run:
            await begin(first, pool)
        return _loaded(send, pool, run=not options.no_run)

    if options.tcp is None:
        return asyncio.run(serve_stdio(create))
    host, port = options.tcp
    return asyncio.run(serve_tcp(create, host, port, _announce(host)))


def _loaded(send: Callable[[bytes], object], pool: WorkerPool, *, run: bool) -> Server:
    """Return the server, whose modules are loaded here."""
    gc.disable()
    server: Server = _ours("fxls.server").FxServer(send, run=run, pool=pool)
    gc.enable()
    # What lives now lives as long as the process: no collection needs to look at it.
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    _stay_small()
    return server


def _ours(name: str) -> types.ModuleType:
    """Return a module that is loaded now, with nearly all that this program is made of."""
    with kept(bytecode_folder(), __file__):
        return importlib.import_module(name)


def _stay_small() -> None:
    """Let large blocks that are freed go back to the system; glibc would keep more of them the longer it runs."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # Another C library has no such thing.
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((_ARENAS, 1), (_MAPPED, 1 << 16), (_KEPT, 1 << 17)):
            mallopt(parameter, value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fxls",
        description="A language server that makes PyTorch models visible while they are written.",
        epilog="Sub-commands: check, code, graph, profile; `fxls check --help` says more.",
    )
    parser.add_argument("--version", action="version", version=f"fxls {__version__}")
    parser.add_argument("--stdio", action="store_true", help="speak on standard input and output (the default)")
    parser.add_argument("--tcp", type=_address, metavar="HOST:PORT", help="serve one client on the loopback")
    parser.add_argument("--no-run", action="store_true", help="never execute the user's code, whatever the client says")
    return parser


def _address(text: str) -> tuple[str, int]:
    """Return host and port of an address on the loopback: whoever can connect can execute code."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    try:
        number = int(port)
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, number)}
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"{text} is no HOST:PORT") from error
    if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
        raise argparse.ArgumentTypeError(f"{host} is not on the loopback; whoever connects may execute code")
    return host, number


def _announce(host: str) -> Callable[[int], None]:
    def announce(port: int) -> None:
        sys.stderr.write(f"fxls: listening on {host}:{port}\n")
        sys.stderr.flush()

    return announce


if __name__ == "__main__":
    sys.exit(main())
