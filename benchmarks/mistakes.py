"""How many of the mistakes that people make with sizes are told, and where, in files of real libraries.

Changes files at random: a size of a layer is one more, twice as much, or another size of the class; a layer has no
padding any more; what is joined is joined along another dimension; a line of a forward that only rearranges is gone. A
change counts as a *mistake* if a model fails eagerly on the inputs on which the right file was shown. It is made as in
an editor, in a file that a server has open; with `--opened` the changed file is opened by a server that never saw the
right one. What is said of it that was not said before is judged:

    told        a problem stands at the line that was changed, or at one that the failing run was in
    elsewhere   one stands at another line only
    FX202       it is only said that no inputs were found
    silent      nothing is said
    fits        the model was shown with other arguments or inputs, on which it does run: no mistake then

    python benchmarks/mistakes.py [LIBRARY | FOLDER]... [--files N] [--each-file N] [--seed N] [--opened]
"""

import argparse
import ast
import asyncio
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from _servers import Client, served, whole_report

from fxls.discovery import discover

LIBRARIES: Final = ("vit_pytorch", "torchvision", "timm", "monai", "diffusers", "kornia")

_SIZES: Final = {"LayerNorm": 1, "RMSNorm": 1, "BatchNorm1d": 1, "BatchNorm2d": 1, "BatchNorm3d": 1} | dict.fromkeys(
    ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Embedding", "GRU", "LSTM", "GroupNorm"), 2
)
"""How many of the first arguments of a layer are sizes."""

_REARRANGES: Final = ("view", "reshape", "flatten", "permute", "transpose", "unsqueeze", "squeeze", "rearrange", "mean")
_JOINS: Final = ("cat", "concat", "stack")
_TELLS: Final = ("FX009", "FX102", "FX201", "FX202")
_TRIES: Final = 6
"""How many changes are made for each mistake that is wanted."""

_SETTLED: Final = 0.2
"""Seconds after a whole report in which the last diagnostics come."""

_EAGER: Final = """
import importlib, json, sys, traceback, warnings
import torch

warnings.simplefilter("ignore")
module, path, models = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
namespace = {"torch": torch, "nn": torch.nn, **vars(importlib.import_module(module))}
answers = []
for construct, inputs in models:
    torch.manual_seed(0)
    try:
        model = eval(construct, namespace).eval()
        args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({inputs})", namespace)
    except Exception:
        answers.append(None)
        continue
    try:
        with torch.no_grad():
            model(*args, **kwargs)
        answers.append([])
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        answers.append([f"{type(error).__name__}: {error}".splitlines()[0][:120], *lines])
print(json.dumps(answers))
"""
"""Runs each model on its inputs: null where it is not built, else the error and the lines of the file it came through,
nothing where it ran."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A model as a report shows it: its class, how it is built, and what it is called with."""

    qualname: str
    construct: str
    inputs: str


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of a file: its models, and its problems as code, line and message."""

    models: tuple[Shown, ...]
    problems: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What is put in the place of a piece of one line, in bytes, and what kind of change that is."""

    kind: str
    line: int
    start: int
    end: int
    text: str

    def of(self, source: str) -> str:
        """Return the source with this change."""
        lines = source.split("\n")
        line = lines[self.line - 1].encode()
        lines[self.line - 1] = (line[: self.start] + self.text.encode() + line[self.end :]).decode()
        return "\n".join(lines)

    def told(self, source: str) -> str:
        """Return what it makes of which piece of the source."""
        old = source.split("\n")[self.line - 1].encode()[self.start : self.end].decode()
        return f"{self.kind}: {old} -> {self.text}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A change on which a model fails: the model, its error, and the lines of the file that the run was in."""

    shown: Shown
    error: str
    lines: tuple[int, ...]


class Copied:
    """A copy of a library whose files are changed and run, in a folder of its own."""

    def __init__(self, package: Path, folder: Path) -> None:
        self.package: Final = package
        self._folder: Final = folder
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, file: Path, text: str, models: tuple[Shown, ...]) -> list[list[Any] | None]:
        """Return what `_EAGER` says of each model of a file of this text; nothing if the process dies."""
        copy = self._folder / file.relative_to(self.package.parent)
        module = ".".join(file.relative_to(self.package.parent).with_suffix("").parts)
        given = json.dumps([(each.construct, each.inputs) for each in models])
        path = os.pathsep.join([str(self._folder), str(self.package.parent), os.environ.get("PYTHONPATH", "")])
        copy.write_text(text, "utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-c", _EAGER, module, str(copy), given],
                env={**os.environ, "PYTHONPATH": path}, cwd=self._folder, capture_output=True, text=True, timeout=300,
                check=False,
            )  # fmt: skip
            return json.loads(done.stdout.splitlines()[-1]) if done.stdout else []
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return []
        finally:
            copy.write_text(file.read_text("utf-8"), "utf-8")


class Opened:
    """A file that a server has open."""

    def __init__(self, client: Client, file: Path) -> None:
        self._client, self._uri, self._version = client, file.as_uri(), 0

    async def report(self, text: str) -> Report:
        """Return what is said of the file with a text."""
        self._version += 1
        if self._version == 1:
            self._client.open(self._uri, text)
        else:
            self._client.change(self._uri, self._version, text)
        report = await whole_report(self._client, self._uri, self._version)
        await asyncio.sleep(_SETTLED)
        said = await self._client.diagnostics(self._uri, self._version)
        shown = [each for each in report["targets"] if each["construct"] and each["inputs"]]
        return Report(
            tuple(Shown(each["qualname"], each["construct"], each["inputs"]) for each in shown),
            tuple((each["code"], each["range"]["start"]["line"] + 1, each["message"]) for each in said),
        )


@asynccontextmanager
async def opened(package: Path, file: Path) -> AsyncGenerator[Opened]:
    """Start a server that remembers nothing, and open a file of a library in it."""
    path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="fxls-mistakes-", ignore_cleanup_errors=True) as cache:
        async with served(package, {"PYTHONPATH": path, "XDG_CACHE_HOME": cache}) as client:
            yield Opened(client, file)


def changes_of(source: str, chance: random.Random) -> list[Change]:
    """Return what could be changed in a file, in an order of chance."""
    found: list[Change] = []
    for owner in (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ClassDef)):
        sizes = {text for text, _ in _sizes_in(owner)}
        for text, node in _sizes_in(owner):
            others = sorted(each for each in sizes if each != text and not each.isdigit())
            named = [chance.choice(others)] if others else []
            for kind, new in [("+ 1", f"({text}) + 1"), ("* 2", f"({text}) * 2"), *(("name", each) for each in named)]:
                found += _change(kind, node, new)
        for node in ast.walk(owner):
            found += _other_changes(node)
    chance.shuffle(found)
    return found


def _sizes_in(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments of layers that are sizes, with their source."""
    for node in ast.walk(owner):
        for argument in node.args[: _SIZES.get(_called(node), 0)] if isinstance(node, ast.Call) else ():
            if isinstance(argument, ast.Name | ast.Attribute | ast.Constant | ast.BinOp | ast.Subscript):
                yield ast.unparse(argument), argument


def _other_changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of a node that are not of a size."""
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg == "padding" and "Conv" in _called(node):
            yield from _change("padding", keyword.value, "0")
        if keyword.arg == "dim" and _called(node) in _JOINS:
            yield from _change("dim", keyword.value, f"{ast.unparse(keyword.value)} + 1")
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _called(node.value) in _REARRANGES:
        yield from _change("gone", node, "pass")


def _called(node: ast.AST) -> str:
    """Return the last name of what a call calls, "" where it has none."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
        case _:
            return ""


def _change(kind: str, node: ast.expr | ast.stmt, text: str) -> Iterator[Change]:
    """Yield the change that puts a text in the place of a node that stands on one line."""
    if node.end_lineno == node.lineno and node.end_col_offset is not None:
        yield Change(kind, node.lineno, node.col_offset, node.end_col_offset, text)


def mistake_in(copied: Copied, file: Path, text: str, ran: tuple[Shown, ...]) -> Mistake | None:
    """Return how a model fails that ran before; None if all run, or one is not even built: that is no matter here."""
    for shown, answer in zip(ran, copied.run(file, text, ran), strict=False):
        if answer is None:
            return None
        if answer[1:]:
            return Mistake(shown, answer[0], tuple(answer[1:]))
    return None


def verdict_on(right: Report, wrong: Report, mistake: Mistake, line: int) -> tuple[str, str]:
    """Return the verdict on what is said of a mistake, as if it fitted nothing else, and what is said newly."""
    before = {(code, message) for code, _, message in right.problems}
    said = [each for each in wrong.problems if each[0] in _TELLS and (each[0], each[2]) not in before]
    places = [place for code, place, _ in said if code != "FX202"]
    text = "; ".join(f"{code} at {place}: {message.splitlines()[0]}" for code, place, message in said)
    if any(place in (line, *mistake.lines) for place in places):
        return "told", text
    return "elsewhere" if places else "FX202" if said else "silent", text


def mistakes_in(package: Path, options: argparse.Namespace) -> Counter[str]:
    """Print the mistakes that were made in a library, and return how many of them were told and how many not."""
    chance = random.Random(options.seed)
    verdicts: Counter[str] = Counter()
    paths = [each for each in sorted(package.rglob("*.py")) if discover(str(each), each.read_text("utf-8")).targets]
    chance.shuffle(paths)
    files = 0
    with tempfile.TemporaryDirectory(prefix="fxls-mistakes-") as folder:
        copied = Copied(package, Path(folder))
        for file in paths:
            source = file.read_text("utf-8")
            changes = changes_of(source, chance)[: _TRIES * options.each_file]
            found = asyncio.run(_mistakes_of(copied, file, source, changes, options))
            verdicts += found
            files += bool(found)
            if files == options.files:
                break
    return verdicts


async def _mistakes_of(
    copied: Copied, file: Path, source: str, changes: list[Change], options: argparse.Namespace
) -> Counter[str]:
    """Print the mistakes that were made in a file, and return the verdicts."""
    verdicts: Counter[str] = Counter()
    async with opened(copied.package, file) as server:
        right = await server.report(source)
        answers = copied.run(file, source, right.models)
        ran = tuple(shown for shown, answer in zip(right.models, answers, strict=False) if answer == [])
        for change in changes if ran else ():
            text = change.of(source)
            mistake = mistake_in(copied, file, text, ran)
            if mistake is None:
                continue
            if options.opened:
                async with opened(copied.package, file) as other:
                    wrong = await other.report(text)
            else:
                wrong = await server.report(text)
                right = await server.report(source)
            verdict, said = verdict_on(right, wrong, mistake, change.line)
            shown = tuple(each for each in wrong.models if each.qualname == mistake.shown.qualname)
            if verdict != "told" and shown and copied.run(file, text, shown)[:1] == [[]]:
                verdict, said = "fits", f"{shown[0].construct} on ({shown[0].inputs})"
            verdicts[verdict] += 1
            print(f"{verdict:9} {file.relative_to(copied.package.parent)}:{change.line} {change.told(source)}")
            if verdict != "told":
                print(
                    f"          {mistake.shown.construct}: {mistake.error}, in {mistake.lines}\n          {said[:300]}"
                )
            sys.stdout.flush()
            if verdicts.total() == options.each_file:
                break
    return verdicts


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", default=LIBRARIES, help="libraries or folders of packages")
    parser.add_argument("--files", type=int, default=5, help="so many files of each at most")
    parser.add_argument("--each-file", type=int, default=2, help="so many mistakes in each file at most")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of files and changes")
    parser.add_argument("--opened", action="store_true", help="open the changed files, in place of changing open ones")
    options = parser.parse_args(arguments)
    rows: list[str] = []
    for place in options.places:
        verdicts = mistakes_in(_package(place), options)
        count = verdicts.total() - verdicts["fits"]
        rows.append(f"{place}: {verdicts['told']} of {count} mistakes told at their place; {dict(verdicts)}")
    print("\n".join(rows))
    return 0


def _package(place: str) -> Path:
    """Return the folder of a package that is given as itself or by name."""
    if Path(place).is_dir():
        return Path(place).resolve()
    found = importlib.util.find_spec(place)
    if found is None or found.origin is None:
        raise SystemExit(f"{place} is neither a folder nor installed: `make corpus` installs the libraries")
    return Path(found.origin).parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
