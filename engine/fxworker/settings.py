"""What a project says about the values that constructors read: its command lines, its configurations, its data files.

Whoever asks for a trace has read the project's code; its YAML and JSON files are read here, where the user's own reader
of YAML is at hand. A file counts for as much as it knows of the names that a text reads.
"""

import ast
import contextlib
import importlib
import itertools
import json
import linecache
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from fxworker.choices import literal
from fxworker.nearby import configurations
from fxworker.wire import Location, Setting, Span

_OF_A_MACHINE: Final = re.compile(
    r".*(device|gpu|cuda|path|(?<!pro)file|ckpt|checkpoint|resume|pretrain|rank).*|(.*_)?(dir|root|folder|weights|seed)",
    re.IGNORECASE,
)
"""What holds on one machine alone, or for one run."""

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MOST_READ: Final = 40
_LARGEST: Final = 100_000
"""How many files of data are read, and the bytes of one."""
_MOST_FILES: Final = 3
"""How many of them count."""
_FEWEST: Final = 2
"""How many of the names that a text reads one must know."""
_DEEPEST: Final = 5
_LONGEST: Final = 200
"""How deep sections go, and how long an expression is."""
_SHORTEST: Final = 3
"""How long a word must be to be told from others."""


class Settings:
    """What a project says, asked place by place.

    Args:
        said: What its code says, that of the best file first.
        path: The file whose constructors read it.
    """

    def __init__(self, said: Iterable[Setting] = (), path: str = "") -> None:
        self._said = [each for each in said if _is_general(each)]
        self._path = path

    @cached_property
    def _files(self) -> list[list[Setting]]:
        """What each file says, that first which knows most of the names in the text."""
        text = "".join(linecache.getlines(self._path))
        words = frozenset(_WORD.findall(text))
        files: dict[str, list[Setting]] = {}
        for each in (*self._said, *_in_data(self._path, words)):
            files.setdefault(each.location.path, []).append(each)
        return sorted(files.values(), key=lambda each: -_known(each, words))

    def of(self, path: str, title: str, together: Collection[str] = ()) -> list[str]:
        """Return what a place may hold by what the project says, as literals, the likeliest first.

        Args:
            path: The place, as `config.model.width`.
            title: What the class is called that reads it: its section says most.
            together: The names of what has to go together: a file that knows less than half of them does not count.
        """
        *around, name = path.lower().split(".")
        titles = {each.lower() for each in _PARTS.findall(title) if len(each) >= _SHORTEST}
        ranked: list[tuple[int, int, int, int, str]] = []
        for at, file in enumerate(self._files if self._path else ()):
            if together and 2 * _known(file, frozenset(together)) < len(together):
                continue
            for each in file:
                *sections, last = each.name.lower().split(".")
                if last == name:
                    shared = _alike(around, sections)
                    words = {part.lower() for part in _PARTS.findall(each.name.rpartition(".")[0])}
                    ranked.append((at, -shared, -len(words & titles), len(sections), each.expression))
        return list(dict.fromkeys(expression for *_, expression in sorted(ranked, key=lambda each: each[:4])))

    def location_of(self, expression: str) -> Location | None:
        """Return where the project says the first of the values in a call that are its own, None where none are."""
        # Files of data are not read for this alone.
        said = [each for file in self._files for each in file] if "_files" in vars(self) else self._said
        known = {(each.name.rpartition(".")[2], each.expression): each.location for each in reversed(said)}
        for node in ast.walk(ast.parse(expression, mode="eval")) if known else ():
            for name, value in _named(node):
                # That something is so or is not so is said everywhere.
                is_telling = not (isinstance(value, ast.Constant) and isinstance(value.value, bool | type(None)))
                if is_telling and (found := known.get((name, ast.unparse(value)))) is not None:
                    return found
        return None


NO_SETTINGS: Final = Settings()


def _alike(around: list[str], sections: list[str]) -> int:
    """Return how many names two paths end with alike."""
    pairs = zip(reversed(around), reversed(sections), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the values that a node gives to names."""
    match node:
        case ast.Call(keywords=keywords):
            yield from ((each.arg, each.value) for each in keywords if each.arg is not None)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        case _:
            pass


def _is_general(setting: Setting) -> bool:
    """Whether a value may hold anywhere, and is one that can be written down."""
    is_short = len(setting.expression) <= _LONGEST
    return is_short and not _OF_A_MACHINE.fullmatch(setting.name.rpartition(".")[2])


def _known(settings: Iterable[Setting], words: frozenset[str]) -> int:
    """Return how many of the names in a text are given a value."""
    return len({each.name.rpartition(".")[2] for each in settings} & words)


def _in_data(path: str, words: frozenset[str]) -> list[Setting]:
    """Return what the files of data say in the project of a file, those that know most of the words of its text."""
    ranked: list[tuple[int, int, list[Setting]]] = []
    around = [each for each in sys.path if each and os.path.basename(each) not in {"site-packages", "dist-packages"}]
    for at, file in enumerate(configurations(path, around)[:_MOST_READ] if path else ()):
        text = _text(file)
        # To read it takes longer than to see that it knows nothing.
        if len(words.intersection(_WORD.findall(text))) >= _FEWEST:
            said = [*_entries(file, text)]
            if (known := _known(said, words)) >= _FEWEST:
                ranked.append((-known, at, said))
    return [each for *_, said in sorted(ranked, key=lambda each: each[:2])[:_MOST_FILES] for each in said]


def _text(path: str) -> str:
    """Return the text of a file, "" where it cannot be read or is too large."""
    with contextlib.suppress(OSError):
        if os.path.getsize(path) <= _LARGEST:
            return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""


def _entries(path: str, text: str) -> Iterator[Setting]:
    """Yield what a file of data says; nothing where it cannot be read."""
    data: Any = None
    with contextlib.suppress(Exception):
        if path.endswith(".json"):
            data = json.loads(text)
        elif path.endswith((".yaml", ".yml")):
            data = importlib.import_module("yaml").safe_load(text)
    lines = {name: at for at, line in reversed([*enumerate(text.splitlines(), 1)]) for name in _WORD.findall(line)[:1]}
    for name, value in _flattened("", data, 0):
        line = lines.get(name.rpartition(".")[2], 1)
        setting = Setting(name, repr(value), Location(os.path.abspath(path), Span(line, 0, line, 0)))
        if _is_general(setting):
            yield setting


def _flattened(place: str, data: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a mapping by their dotted names; of a search over values the first one of each."""
    if isinstance(data, Mapping) and depth < _DEEPEST:
        several = data.get("values")
        if place and "value" in data:
            yield place, data["value"]
        elif place and isinstance(several, list) and several:
            yield place, several[0]
        else:
            for key, value in data.items():
                if isinstance(key, str) and key.isidentifier():
                    yield from _flattened(f"{place}.{key}" if place else key, value, depth + 1)
    elif place and data is not None and not isinstance(data, Mapping) and literal(repr(data)) == data:
        yield place, data
