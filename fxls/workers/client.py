"""What the server knows of a worker: that it answers. Processes, restarts and pools stand behind this protocol."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from fxworker.wire import EnvironmentReport, ProfileReport, ProfileRequest, Progress, TraceReport, TraceRequest

OnProgress: TypeAlias = Callable[[Progress], None]
OnEarly: TypeAlias = Callable[[TraceReport], None]


class WorkerClient(Protocol):
    """Something that traces and profiles in one Python environment.

    Invariants:
    - Every call returns an answer, whatever happens to the process that worked on it; none raises.
    - The answer carries the digest of the text that was asked about. Its `id` is of no meaning to the caller.
    - Cancelling a call ends the work on it at once.
    """

    async def environment(self) -> EnvironmentReport:
        """Return what the worker runs on; its `problem` says why it cannot work, "" when it can."""
        ...

    async def trace(self, request: TraceRequest, on_early: OnEarly | None = None) -> TraceReport:
        """Return the report of a file's models; `on_early` is told its problems before the rest of it is known."""
        ...

    async def profile(self, request: ProfileRequest, on_progress: OnProgress) -> ProfileReport:
        """Return the measurements of one model."""
        ...

    async def close(self) -> None:
        """End every process behind this client; calls in flight are answered."""
        ...
