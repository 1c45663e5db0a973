"""Where in a model's code a question is asked, in a form that is the same in every run."""

from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from fxengine.source import ModuleSite, is_engine_file, walk_user_frames

Place: TypeAlias = tuple[str, int, bytes, int]
"""An instruction: file and line of its function, the function's table of positions, and the offset in its code.

Not the code itself: of a function with `*args` each trace makes a new one.
"""

Key: TypeAlias = tuple[Place, ...]
"""Where a question is asked: the instruction, and those that lead to it within one module's forward."""

CALL: Final[Place] = ("", 0, b"", 0)
"""Marks the key of a call, which is no question that is asked at the same place."""


def place_of(code: CodeType, lasti: int) -> Place:
    """The place of an instruction."""
    return code.co_filename, code.co_firstlineno, code.co_linetable, lasti


def asking_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not the engine's own."""
    while frame is not None and is_engine_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def trail_of(frame: FrameType, boundary: CodeType | None) -> list[tuple[CodeType, int]]:
    """The instruction in a frame, and those of the user's that lead to it from where `boundary` runs."""
    trail: tuple[Any, ...] = walk_user_frames(frame, boundary)
    return [(frame.f_code, frame.f_lasti), *zip(trail[::2], trail[1::2], strict=True)]


def key_of(frame: FrameType, boundary: CodeType | None) -> Key:
    """Where a question is asked; a function that calls itself counts once, however deep it is."""
    return tuple(dict.fromkeys(place_of(code, lasti) for code, lasti in trail_of(frame, boundary)))


def calls_of(site: ModuleSite | None) -> tuple[Any, ...]:
    """The calls that lead from the root to a module's forward, by the instructions that make them."""
    calls: list[Any] = []
    while site is not None:
        trail: tuple[Any, ...] = site.trail
        calls += [place_of(code, lasti) for code, lasti in zip(trail[::2], trail[1::2], strict=True)]
        site = site.parent
    return tuple(calls)
