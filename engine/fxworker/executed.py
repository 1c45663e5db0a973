"""Which functions ran, as the interpreter itself knows it.

To be told of each call (`sys.settrace`) makes all that runs slower, and most of it is the libraries' code. CPython 3.11
counts in each code object how often it was entered, until it is specialised; later ones can be told to say of each
function once that it was (`sys.monitoring`).
"""

import contextlib
import ctypes
import sys
from collections.abc import Callable, Generator
from types import CodeType
from typing import Any, Final, TypeAlias

HasRun: TypeAlias = Callable[[CodeType], bool]
"""Whether a function's code has run; where that cannot be told, it has."""

if sys.version_info >= (3, 12):
    _TOOL: Final = 4
    """One of the numbers that are nobody's: debuggers, coverage and profilers have others."""

    @contextlib.contextmanager
    def watched() -> Generator[HasRun]:
        """Yield what tells of functions whether they ran in here; once in a process.

        Raises:
            ValueError: User code watches in the same way.
        """
        seen: dict[int, CodeType] = {}

        def note(code: CodeType, _offset: int) -> Any:
            seen[id(code)] = code
            return sys.monitoring.DISABLE

        sys.monitoring.use_tool_id(_TOOL, "fxls")
        start = sys.monitoring.events.PY_START
        sys.monitoring.register_callback(_TOOL, start, note)
        sys.monitoring.set_events(_TOOL, start)
        try:
            yield lambda code: id(code) in seen
            if sys.monitoring.get_tool(_TOOL) != "fxls" or sys.monitoring.get_events(_TOOL) != start:
                raise ValueError("somebody else watches")
        finally:
            sys.monitoring.set_events(_TOOL, 0)
            sys.monitoring.free_tool_id(_TOOL)

else:
    _at: Final = ctypes.c_short.from_address

    def _counter() -> tuple[int, int] | None:
        """Return how many bytes into a code object its count is, and what that is before the first call."""

        def never_ran() -> None:
            pass

        code = never_ran.__code__
        size = sys.getsizeof(code)
        before = (ctypes.c_short * (size // 2)).from_address(id(code))[:]
        never_ran()
        after = (ctypes.c_short * (size // 2)).from_address(id(code))[:]
        counted = [index for index, count in enumerate(before) if after[index] != count]
        return (2 * counted[0], before[counted[0]]) if len(counted) == 1 else None

    _COUNTER: Final = _counter()

    @contextlib.contextmanager
    def watched() -> Generator[HasRun]:
        """Yield what tells of functions whether they have ever run."""

        def has_run(code: CodeType) -> bool:
            if _COUNTER is None:
                return True
            distance, fresh = _COUNTER
            return _at(id(code) + distance).value != fresh

        yield has_run
