"""What is raised where a capture ends since nobody has the data that code wants, and whether the code has caught it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fxengine.capturing.unknown import DataDependent
from fxengine.source import is_engine_file

if TYPE_CHECKING:
    from fxengine.capturing.tracer import CaptureTracer, Finished

__all__ = ["Refusals"]


class Refusals:
    """What was raised, each with the calls of modules that had returned by then. Mutable."""

    def __init__(self, tracer: "CaptureTracer") -> None:
        self._tracer = tracer
        self._made: list[tuple[DataDependent, list[Finished]]] = []

    def of(self, func: Callable[..., Any], sources: int = 0) -> DataDependent:
        """What is raised where code wants data, which depend on the inputs that `sources` says as bits."""
        name = getattr(func, "__name__", str(func))
        name = func.__self__.__name__ if name == "__get__" else name  # type: ignore[attr-defined]
        name = name.strip("_") if name.startswith("_") else name
        found = self.saying(f"`{name}` of a tensor that depends on the inputs wants data, not only metadata")
        found.sources = 0 if func is Tensor.__bool__ else sources
        return found

    def saying(self, message: str) -> DataDependent:
        """What is raised where the capture ends."""
        found = DataDependent(message)
        self._made.append((found, list(self._tracer.finished)))
        return found

    def swallowed(self) -> DataDependent | None:
        """Return the first that the code has caught, None if there is none; modules count as returned then."""
        for refusal, finished in self._made:
            traceback = refusal.__traceback__
            if traceback is not None and not is_engine_file(traceback.tb_frame.f_code.co_filename):
                self._tracer.finished = finished
                return refusal
        return None
