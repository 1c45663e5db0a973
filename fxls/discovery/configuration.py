"""`[tool.fxls]` of a project's pyproject.toml, as far as it speaks of targets.

    [[tool.fxls.target]]
    path = "models/vit.py"               # or a glob; relative to the pyproject.toml
    name = "ViT"                         # optional: every target of the file otherwise
    construct = "ViT(image_size=64)"     # Python, evaluated in the module
    inputs = "torch.randn(2, 3, 64, 64)" # the arguments of a call

Nothing in it is executed here. What is wrong with an entry is said, and the entry left out.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fxls.discovery.index import ConfiguredTarget
from fxworker.wire import Location, Problem, Span

_HEADER: Final = re.compile(r"^\s*\[\[\s*tool\s*\.\s*fxls\s*\.\s*target\s*\]\]", re.MULTILINE)
_KEYS: Final = frozenset({"path", "name", "construct", "inputs"})


@dataclass(frozen=True, slots=True)
class ProjectConfiguration:
    """The entries of one pyproject.toml, and what is wrong with it."""

    path: str
    targets: tuple[ConfiguredTarget, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_configuration(path: str) -> ProjectConfiguration:
    """Return the targets that a pyproject.toml configures; an unreadable file has none and says why."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return ProjectConfiguration(path, problems=(_problem(path, 1, f"cannot be read: {error}"),))
    return parse_configuration(path, text)


def parse_configuration(path: str, text: str) -> ProjectConfiguration:
    """Return the targets that the text of a pyproject.toml configures."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        return ProjectConfiguration(path, problems=(_problem(path, int(line.group(1)) if line else 1, str(error)),))
    section = document.get("tool", {}).get("fxls", {})
    entries = section.get("target", []) if isinstance(section, dict) else []
    lines = [text.count("\n", 0, match.end()) + 1 for match in _HEADER.finditer(text)]
    targets: list[ConfiguredTarget] = []
    problems: list[Problem] = []
    if not isinstance(entries, list):
        return ProjectConfiguration(
            path, problems=(_problem(path, 1, "tool.fxls.target is written [[tool.fxls.target]]"),)
        )
    for index, entry in enumerate(entries):
        line = lines[index] if index < len(lines) else 1
        wrong = _wrong(entry)
        if wrong:
            problems.append(_problem(path, line, wrong))
            continue
        targets.extend(_targets(path, line, entry))
    return ProjectConfiguration(path, tuple(targets), tuple(problems))


def _wrong(entry: object) -> str:
    """Return what is wrong with an entry, "" for nothing."""
    if not isinstance(entry, dict):
        return "a target is a table"
    unknown = sorted(str(key) for key in entry if key not in _KEYS)
    if unknown:
        return f"unknown key {unknown[0]!r} in a target; known are {', '.join(sorted(_KEYS))}"
    not_text = sorted(str(key) for key, value in entry.items() if not isinstance(value, str))
    if not_text:
        return f"{not_text[0]} of a target is a string"
    if not entry.get("path"):
        return "a target needs a path"
    return "" if entry.get("construct") or entry.get("inputs") else "a target needs `construct` or `inputs`"


def _targets(path: str, line: int, entry: dict[str, str]) -> list[ConfiguredTarget]:
    """Return one configured target for each file that an entry's path names."""
    folder = Path(path).parent
    pattern = entry["path"]
    location = Location(path, Span(line, 0, line, 0))
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


def _problem(path: str, line: int, message: str) -> Problem:
    return Problem("FX102", "warning", f"pyproject.toml: {message}", Location(path, Span(line, 0, line, 0)))
