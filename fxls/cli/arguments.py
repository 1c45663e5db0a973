"""What may be written on the command line."""

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fxls import __version__
from fxls.rules import selects_something
from fxls.settings import Sandbox, Settings

_CHECK_EPILOG: Final = """\
exit code:
  0  nothing that stops a trace was found (warnings and information may have been)
  1  there are problems of severity error; with --strict, whatever stops torch.fx is one
  2  it could not do its work: a path does not exist, the interpreter has no torch, ...

Folders are searched for .py files that define models; hidden folders, virtual environments and caches are left out."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of every sub-command; each uses its own."""

    command: str
    paths: tuple[str, ...] = ()
    format: str = ""
    python: tuple[str, ...] = ()
    jobs: int = 1
    strict: bool = False
    ignore: tuple[str, ...] = ()
    fixes: bool = False
    no_run: bool = False
    timeout: float = 10.0
    color: str = "auto"
    sandbox: Sandbox = "auto"
    verbose: bool = False
    device: str = "cpu"


def parse(arguments: Sequence[str], cores: int) -> Options:
    """Return what the arguments say. Prints help or a message and exits where argparse does."""
    parsed = vars(_parser(cores).parse_args(list(arguments)))
    paths = parsed.pop("paths")
    return Options(paths=tuple(paths) if isinstance(paths, list) else (paths,), **parsed)


def _parser(cores: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fxls", description="Trace the PyTorch models of files: problems, graphs, generated code, profiles."
    )
    parser.add_argument("--version", action="version", version=f"fxls {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    check = _command(commands, "check", "find what stops a symbolic trace", _CHECK_EPILOG)
    check.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, or a folder to search")
    _format(check, "text", "json", "github", "sarif")
    check.add_argument(
        "--jobs",
        "-j",
        type=_positive,
        default=cores,
        metavar="N",
        help="trace at most N files at once (default: %(default)s)",
    )
    check.add_argument("--strict", action="store_true", help="report whatever stops torch.fx as an error")
    check.add_argument(
        "--ignore", type=_codes, default=(), metavar="CODES", help="codes that are not reported: FX305, or FX3 for all"
    )
    check.add_argument(
        "--fixes", action="store_true", help="propose fixes, each of which was tried out by tracing the changed file"
    )
    check.add_argument(
        "--verbose", "-v", action="store_true", help="say what files run on, and what the sandbox keeps them from"
    )
    check.add_argument(
        "--no-run", action="store_true", help="execute nothing; report, as hints, what the syntax alone lets expect"
    )

    code = _command(commands, "code", "print the generated code of a model")
    _target(code)
    _format(code, "text", "plain")

    graph = _command(commands, "graph", "print the captured graph of a model")
    _target(graph)
    _format(graph, "text", "json", "dot", "svg")

    profile = _command(commands, "profile", "measure a model, node by node")
    _target(profile)
    profile.add_argument("--device", default="cpu", help="the device to measure on (default: %(default)s)")
    _format(profile, "table", "json", "trace")
    profile.set_defaults(timeout=Settings().profile_timeout)
    return parser


def _command(commands: Any, name: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Add a sub-command with the options that all have."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=description,
        description=description[0].upper() + description[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--python",
        type=_words,
        default=(),
        metavar="PY",
        help="the interpreter that has your torch, or the command that starts it (default: the nearest environment)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=Settings().trace_timeout,
        metavar="SECONDS",
        help="how long one file may take (default: %(default)g)",
    )
    parser.add_argument(
        "--sandbox",
        choices=("auto", "on", "off"),
        default="auto",
        help="whether files run without network and read-only, where Linux offers that (default: auto, which is on)",
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="default: on a terminal, unless NO_COLOR is set",
    )
    return parser


def _target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="FILE[::MODEL]",
        help="a Python file and, after ::, the model in it; else the first that can be built",
    )


def _format(parser: argparse.ArgumentParser, *choices: str) -> None:
    parser.add_argument("--format", choices=choices, default=choices[0], help="default: %(default)s")


def _words(command: str) -> tuple[str, ...]:
    """Return the words of a command; one that is a file as a whole, even with spaces in its name, is one word."""
    if Path(command).is_file():
        return (os.path.abspath(command),)  # noqa: PTH100 -- an environment's python is a link that must stay one.
    return tuple(shlex.split(command, posix=os.name != "nt"))


def _codes(text: str) -> tuple[str, ...]:
    """Return codes that are written with commas between them."""
    codes = tuple(each.strip() for each in text.split(",") if each.strip())
    unknown = next((each for each in codes if not selects_something(each)), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(f"{unknown} is no code of fxls")
    return codes


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
