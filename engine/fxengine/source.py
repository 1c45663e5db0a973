"""Where in the user's source a value came from.

While a model runs under the tracer, every recorded operation notes the *user frames* that it was called from: pairs of
a code object and the offset of the instruction in execution. That costs next to nothing; the positions themselves are
looked up only when somebody asks, in the tables that CPython keeps for its own tracebacks. User frames are found by
exclusion: what lies in the engine, in torch, in the standard library or in a registered helper package is machinery.

This module knows neither graphs nor proxies, and opens no file itself: text comes from `linecache`, where the worker
puts what the editor has not saved.
"""

import functools
import linecache
import os
import sysconfig
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self, TypeAlias

import torch

from fxengine.syntax import Span, definition_of, header_span, parameter_span

Trail = tuple[CodeType | int, ...]
"""Code objects and instruction offsets in turn, innermost first: the user frames of one recorded operation."""

HELPER_PACKAGES: Final = frozenset({"einops", "opt_einsum", "jaxtyping", "beartype", "typeguard", "fxworker"})
"""Packages that people call for convenience, or unknowingly, as what the worker has in place of one that is absent: an
error inside them belongs to the line that called."""


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """One user frame, with the exact expression that was being evaluated.

    Lines count from 1, columns are 0-based offsets into the line's UTF-8 bytes, as in CPython's own tables.
    """

    path: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def span(self) -> Span:
        """The stretch of text alone."""
        return Span(self.line, self.column, self.end_line, self.end_column)

    @property
    def text(self) -> str:
        """The source between the frame's two positions, or nothing if the file's text is not to be had."""
        lines = linecache.getlines(self.path)[self.line - 1 : self.end_line]
        if len(lines) != self.end_line - self.line + 1:
            return ""
        raw = [line.encode() for line in lines]
        raw[-1] = raw[-1][: self.end_column]
        raw[0] = raw[0][self.column :]
        return b"".join(raw).decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node came from: user frames, outermost first, and the module whose forward was running."""

    frames: tuple[SourceFrame, ...]
    module_path: str
    module_type: type | None


class ModuleSite:
    """One call of a module that is traced through; the frames inside it are recorded relative to it.

    The chain of `parent`s leads to the root, whose trail is empty.
    """

    __slots__ = ("_frames", "module_path", "module_type", "parent", "trail")

    def __init__(self, module_path: str, module_type: type | None, parent: "ModuleSite | None", trail: Trail) -> None:
        self.module_path = module_path
        self.module_type = module_type
        self.parent = parent
        self.trail = trail
        self._frames: tuple[SourceFrame, ...] | None = None

    @property
    def caller(self) -> SourceFrame | None:
        """The user frame that made this call, None where the module around it is no code of the user's."""
        return next(iter(resolve_trail(self.trail[:2])), None)

    @property
    def frames(self) -> tuple[SourceFrame, ...]:
        """The user frames from the root to this call, outermost first."""
        if self._frames is None:
            outer = self.parent.frames if self.parent is not None else ()
            self._frames = (*outer, *reversed(resolve_trail(self.trail)))
        return self._frames


Handed: TypeAlias = tuple[ModuleSite, Any]
"""The tuple, list or dictionary that one call of a module returned."""


ModuleStack: TypeAlias = tuple[Any, str, tuple[str, type]]
"""The modules that are running, as a chain that grows and shrinks at its inner end, so that nodes can share it.

A link is: those outside, the name of the call (the path, with `@n` at a later call of the same module), and the path
and type of the module.
"""


def unrolled(stack: ModuleStack | None) -> OrderedDict[str, tuple[str, type]]:
    """The modules of a stack by the names of their calls, outermost first."""
    links: list[tuple[str, tuple[str, type]]] = []
    while stack is not None:
        stack, name, module = stack
        links.append((name, module))
    return OrderedDict(reversed(links))


Mark: TypeAlias = tuple[Any, ...]
"""What a tracer leaves on a node: a site and then the trail inside it, in one tuple, as nothing is made faster."""


class OriginRecord(tuple[ModuleSite, Trail]):
    """A site and the trail inside it; `resolve` makes the readable form."""

    __slots__ = ()

    @classmethod
    def of(cls, mark: Mark) -> Self:
        """The record that a mark stands for."""
        return cls((mark[0], mark[1:]))

    def innermost(self) -> SourceFrame | None:
        """The innermost user frame, if there is one in the record's own site."""
        return next(iter(resolve_trail(self[1][:2])), None)

    def resolve(self) -> Origin:
        """The origin with lines and columns."""
        site, trail = self
        frames = (*site.frames, *reversed(resolve_trail(trail)))
        return Origin(frames, site.module_path, site.module_type)


def innermost(mark: Mark) -> SourceFrame | None:
    """What `OriginRecord.innermost` says of a mark's record, without making one."""
    return frame_at(mark[1], mark[2]) if len(mark) > 2 else None


def moved(mark: Any, code: CodeType, lasti: int) -> Any:
    """A mark at another instruction of the innermost function, if `code` is that function's."""
    if type(mark) is not tuple or len(mark) == 1 or mark[1] is not code:
        return mark
    return (mark[0], code, lasti, *mark[3:])


def resolve_trail(trail: Trail) -> tuple[SourceFrame, ...]:
    """The frames of a trail in its own order, innermost first."""
    pairs = zip(trail[::2], trail[1::2], strict=True)
    return tuple(
        frame_at(code, lasti) for code, lasti in pairs if isinstance(code, CodeType) and isinstance(lasti, int)
    )


@functools.lru_cache(maxsize=65536)
def frame_at(code: CodeType, lasti: int) -> SourceFrame:
    """The source frame of the instruction at byte offset `lasti` of `code`.

    Negative offsets stand for places that no instruction has: see `definition_place` and `parameter_place`.
    """
    if lasti < 0:
        span = _definition_span(code, lasti)
    else:
        positions = _positions(code)
        index = lasti // 2
        line, end_line, column, end_column = positions[index] if index < len(positions) else (None,) * 4
        if line is None or end_line is None or column is None or end_column is None:
            span = _line_span(code.co_filename, line or code.co_firstlineno)
        else:
            span = Span(line, column, end_line, end_column)
    return SourceFrame(code.co_filename, code.co_qualname, *span)


@functools.lru_cache(maxsize=4096)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    """The positions of all instructions of a function; CPython gives them one after the other only."""
    return list(code.co_positions())


def definition_place() -> int:
    """The offset that stands for the head of a function's definition."""
    return -1


def parameter_place(code: CodeType, name: str) -> int:
    """The offset that stands for a parameter in the definition's signature; the definition if there is none such."""
    variable = name.lstrip("*")
    return -2 - code.co_varnames.index(variable) if variable in code.co_varnames else definition_place()


def _definition_span(code: CodeType, place: int) -> Span:
    definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
    span = None
    if definition is not None and place < definition_place():
        span = parameter_span(definition, code.co_varnames[-2 - place])
    if definition is not None and span is None:
        span = header_span(definition)
    return span or _line_span(code.co_filename, code.co_firstlineno)


def _line_span(path: str, line: int) -> Span:
    """All of a line but its indentation."""
    text = linecache.getline(path, line).rstrip()
    return Span(line, len(text) - len(text.lstrip()), line, len(text.encode()))


def walk_user_frames(frame: FrameType | None, boundary: CodeType | None) -> Trail:
    """The user frames from `frame` outwards, as far as the first frame that runs `boundary` or the outermost one."""
    return walk_known_frames(frame, boundary, None)[0]


def walk_known_frames(
    frame: FrameType | None, boundary: CodeType | None, known: FrameType | None
) -> tuple[Trail, FrameType | None]:
    """The user frames from `frame` outwards, and the frame at which the next such walk may end.

    Args:
        frame: Where to begin.
        boundary: The walk ends at the first frame that runs this code, or else at the outermost of all.
        known: The walk ends here, too: no frame between this one and the boundary is the user's.
    """
    trail: Trail = ()
    outermost = frame
    while frame is not None:
        code = frame.f_code
        if _USER_FILES[code.co_filename]:
            trail += (code, frame.f_lasti)
            outermost = frame
        elif code is boundary:
            break
        if frame is known:
            return trail, known
        frame = frame.f_back
    return trail, outermost


def is_user_file(path: str) -> bool:
    """Whether frames of this file are shown to the user: it is neither the engine's, torch's nor Python's own."""
    return _USER_FILES[path]


def is_engine_file(path: str) -> bool:
    """Whether this file is the engine's own."""
    return path.startswith(_machinery_folders()[1])


@functools.cache
def _machinery_folders() -> tuple[str, str, str]:
    stdlib, engine, torch_ = (
        f"{folder}{os.sep}"
        for folder in (sysconfig.get_path("stdlib"), Path(__file__).parent, Path(torch.__file__).parent)
    )
    return stdlib, engine, torch_


class _UserFiles(dict[str, bool]):
    """Remembers for each file whether its frames are the user's; a subscript costs less than a call."""

    def __missing__(self, path: str) -> bool:
        self[path] = answer = _belongs_to_user(path)
        return answer


_USER_FILES: Final = _UserFiles()


def _belongs_to_user(path: str) -> bool:
    stdlib, engine, torch_ = _machinery_folders()
    if path.startswith(("<frozen", engine, torch_)):
        return False
    installed = _installed_package(path)
    if installed:
        return installed not in HELPER_PACKAGES
    return not path.startswith(stdlib) and _outermost_package(path) not in HELPER_PACKAGES


def _outermost_package(path: str) -> str:
    """The package that a file outside `site-packages` belongs to, such as one in a folder of `pip install --target`.

    A relative path, as of what was compiled from a text, ends at the working directory, which is its own parent.
    """
    name, folder = "", Path(path).parent
    while folder.name and (folder / "__init__.py").is_file():
        name, folder = folder.name, folder.parent
    return name


def _installed_package(path: str) -> str:
    """The top-level folder or module below `site-packages`, or nothing for a file that is not installed there."""
    parts = path.replace(os.sep, "/").split("/")
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            below = parts[len(parts) - parts[::-1].index(folder) :]
            return below[0].removesuffix(".py") if below else ""
    return ""
