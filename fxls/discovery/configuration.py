"""`[tool.fxls]` of a project's pyproject.toml: what is reported, and how models are built and fed.

    [tool.fxls]
    ignore = ["FX305"]                   # codes, or beginnings of codes, that are not reported
    strict = true                        # whatever stops torch.fx is an error
    severity = { FX301 = "error" }       # error, warning, information, hint or off
    per-file-ignores = { "tests/*" = ["FX3"] }

    [[tool.fxls.target]]
    path = "models/vit.py"               # or a glob; relative to the pyproject.toml
    name = "ViT"                         # optional: every target of the file otherwise
    construct = "ViT(image_size=64)"     # Python, evaluated in the module
    inputs = "torch.randn(2, 3, 64, 64)" # the arguments of a call

Nothing in it is executed here. What is wrong with an entry is said, and the entry left out.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from fxls.discovery.index import ConfiguredTarget
from fxls.rules import CONFIGURATION, selects_something
from fxls.settings import LEVELS, Level, Settings
from fxls.text.scanning import byte_length
from fxworker.wire import Location, Problem, Span

_HEADER: Final = re.compile(r"^\s*\[\[\s*tool\s*\.\s*fxls\s*\.\s*target\s*\]\]", re.MULTILINE)
_SECTION: Final = re.compile(r"^\s*\[+\s*(?P<name>[^\]]*?)\s*\]")
_KEYS: Final = frozenset({"ignore", "strict", "severity", "per-file-ignores", "target"})
_TARGET_KEYS: Final = frozenset({"path", "name", "construct", "inputs"})


@dataclass(frozen=True, slots=True)
class ProjectConfiguration:
    """What one pyproject.toml says, and what is wrong with it. `per_file` has the codes to ignore by pattern."""

    path: str
    targets: tuple[ConfiguredTarget, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[tuple[str, Level], ...] = ()
    strict: bool = False
    problems: tuple[Problem, ...] = ()

    def applied(self, settings: Settings, path: str) -> Settings:
        """Return the settings that hold for a file: the project's, and above them those of the person."""
        if not (self.ignore or self.per_file or self.severity or self.strict):
            return settings
        file, folder = Path(path), Path(self.path).parent
        names = {file.name, file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.as_posix()}
        here = [codes for pattern, codes in self.per_file if any(fnmatchcase(name, pattern) for name in names)]
        return replace(
            settings,
            ignore=tuple(dict.fromkeys((*settings.ignore, *self.ignore, *(code for codes in here for code in codes)))),
            severity=tuple(sorted({**dict(self.severity), **dict(settings.severity)}.items())),
            strict=settings.strict or self.strict,
        )


def read_configuration(path: str) -> ProjectConfiguration:
    """Return what a pyproject.toml says; an unreadable file says nothing, and why."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return ProjectConfiguration(path, problems=(_Places(path, "").problem(f"cannot be read: {error}"),))
    return parse_configuration(path, text)


def parse_configuration(path: str, text: str) -> ProjectConfiguration:
    """Return what the text of a pyproject.toml says."""
    places = _Places(path, text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        problem = places.problem(str(error), places.at_line(int(line.group(1)) if line else places.last))
        return ProjectConfiguration(path, problems=(problem,))
    section = document.get("tool", {}).get("fxls", {})
    if not isinstance(section, dict):
        return ProjectConfiguration(path, problems=(places.problem("tool.fxls is a table", places.of("fxls")),))
    return _Reader(places).read(section)


class _Places:
    """Where something stands in a pyproject.toml, found by its words: the parser of TOML tells no positions."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._lines = re.split(r"\r\n|\r|\n", text)
        self.targets = [text.count("\n", 0, match.end()) + 1 for match in _HEADER.finditer(text)]

    @property
    def last(self) -> int:
        """The last line that holds anything."""
        return max((number for number, line in enumerate(self._lines, 1) if line.strip()), default=1)

    def of(self, *words: str) -> Span:
        """Return the span of the last word on the first line of our section that has it, and those before it above.

        Without such a line it is the line that the section begins on.
        """
        ours = False
        start: int | None = None
        waiting = list(words)
        for number, line in enumerate(self._lines, 1):
            header = _SECTION.match(line)
            if header is not None:
                ours = re.match(r"tool\s*\.\s*fxls\b", header["name"]) is not None
            if not ours:
                continue
            start = start or number
            while waiting:
                found = re.search(rf"(?<![\w-]){re.escape(waiting[0])}(?![\w-])", line)
                if found is None:
                    break
                if len(waiting) == 1:
                    return Span(number, byte_length(line[: found.start()]), number, byte_length(line[: found.end()]))
                waiting.pop(0)
        return self.at_line(start or 1)

    def at_line(self, number: int) -> Span:
        """Return the span of what stands on a line."""
        line = self._lines[number - 1].rstrip() if 0 < number <= len(self._lines) else ""
        return Span(number, byte_length(line[: len(line) - len(line.lstrip())]), number, byte_length(line))

    def problem(self, message: str, span: Span | None = None) -> Problem:
        """Return a problem of this file."""
        return Problem(
            CONFIGURATION, "warning", f"pyproject.toml: {message}", Location(self.path, span or Span(1, 0, 1, 0))
        )


class _Reader:
    """Reads one `[tool.fxls]`, and collects what is wrong with it."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._problems: list[Problem] = []

    def read(self, section: dict[str, Any]) -> ProjectConfiguration:
        """Return what the section says."""
        for key in section:
            if key not in _KEYS:
                self._wrong(f"unknown key {key!r} in [tool.fxls]; known are {', '.join(sorted(_KEYS))}", key)
        strict = section.get("strict", False)
        if not isinstance(strict, bool):
            self._wrong("strict is true or false", "strict")
        return ProjectConfiguration(
            self._places.path,
            tuple(self._targets(section.get("target", []))),
            self._codes(section.get("ignore", []), "ignore"),
            tuple(self._per_file(section.get("per-file-ignores", {}))),
            tuple(self._severity(section.get("severity", {}))),
            strict is True,
            tuple(self._problems),
        )

    def _codes(self, value: object, *key: str) -> tuple[str, ...]:
        """Return a list of codes; those that are none are said and left out."""
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self._wrong(f"{key[-1]} is a list of codes", *key)
            return ()
        return tuple(self._known(value, *key))

    def _known(self, codes: Iterable[str], *key: str) -> Iterator[str]:
        for code in codes:
            if selects_something(code):
                yield code
            else:
                self._wrong(f"{key[-1]} names {code!r}, which is no code of fxls", *key, code)

    def _per_file(self, value: object) -> Iterator[tuple[str, tuple[str, ...]]]:
        if not isinstance(value, dict):
            self._wrong('per-file-ignores is a table: { "tests/*" = ["FX3"] }', "per-file-ignores")
            return
        for pattern, codes in value.items():
            known = self._codes(codes, "per-file-ignores", pattern)
            if known:
                yield pattern, known

    def _severity(self, value: object) -> Iterator[tuple[str, Level]]:
        if not isinstance(value, dict):
            self._wrong('severity is a table: { FX301 = "error" }', "severity")
            return
        for code in self._known(value, "severity"):
            level: Any = value[code]
            if level in LEVELS:
                yield code, level
            else:
                self._wrong(f"the severity of {code} is one of {', '.join(LEVELS)}, not {level!r}", "severity", code)

    def _targets(self, entries: object) -> Iterator[ConfiguredTarget]:
        if not isinstance(entries, list):
            self._wrong("tool.fxls.target is written [[tool.fxls.target]]", "target")
            return
        for index, entry in enumerate(entries):
            line = self._places.targets[index] if index < len(self._places.targets) else 1
            wrong = _wrong_target(entry)
            if wrong:
                self._problems.append(self._places.problem(wrong, self._places.at_line(line)))
            else:
                yield from _targets(Location(self._places.path, Span(line, 0, line, 0)), entry)

    def _wrong(self, message: str, *words: str) -> None:
        self._problems.append(self._places.problem(message, self._places.of(*words)))


def _wrong_target(entry: object) -> str:
    """Return what is wrong with an entry, "" for nothing."""
    if not isinstance(entry, dict):
        return "a target is a table"
    unknown = sorted(str(key) for key in entry if key not in _TARGET_KEYS)
    if unknown:
        return f"unknown key {unknown[0]!r} in a target; known are {', '.join(sorted(_TARGET_KEYS))}"
    not_text = sorted(str(key) for key, value in entry.items() if not isinstance(value, str))
    if not_text:
        return f"{not_text[0]} of a target is a string"
    if not entry.get("path"):
        return "a target needs a path"
    return "" if entry.get("construct") or entry.get("inputs") else "a target needs `construct` or `inputs`"


def _targets(location: Location, entry: dict[str, str]) -> list[ConfiguredTarget]:
    """Return one configured target for each file that an entry's path names."""
    folder = Path(location.path).parent
    pattern = entry["path"]
    try:
        files = sorted(folder.glob(pattern)) if any(each in pattern for each in "*?[") else [folder / pattern]
    except (ValueError, NotImplementedError):
        files = [Path(pattern)]
    return [
        ConfiguredTarget(
            path=str(file),
            qualname=entry.get("name", ""),
            construct=entry.get("construct", ""),
            inputs=entry.get("inputs", ""),
            location=location,
        )
        for file in files
    ]
