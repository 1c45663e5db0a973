"""What is watched when a model is walked through once more, because the first run left something to be explained.

Each observer is a context manager around a repetition of the run. It notes where in the user's code something happens
that no graph records: a read of `training`, work on real tensors, a draw from Python's or numpy's random generators.
"""

import random
import sys
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Self

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fxengine.running import running_tracer
from fxengine.source import OriginRecord, SourceFrame, frame_at, is_engine_file, is_user_file, walk_user_frames
from fxengine.syntax import Span

_MISSING: Final = object()
CLASSES: Final = threading.RLock()
"""Held while a class of torch's or ours is changed for a repetition."""

Place = tuple[str, Span]
"""A stretch of a file, whichever function it is in."""


def place_of(frame: SourceFrame) -> Place:
    """Where a frame is."""
    return frame.path, frame.span


def record_here(frame: FrameType | None) -> OriginRecord | None:
    """Where the user's code is that led to `frame`; None if it is the engine's own business, or nothing is traced."""
    tracer = running_tracer.get()
    caller = frame
    while caller is not None and not is_user_file(caller.f_code.co_filename):
        if is_engine_file(caller.f_code.co_filename):
            return None
        caller = caller.f_back
    if tracer is None or tracer._site is None or caller is None:
        return None
    return OriginRecord((tracer._site, walk_user_frames(caller, tracer._boundary)))


class TrainingReads:
    """Notes where user code reads a module's `training`, and answers the opposite at some of these places.

    Attributes:
        reads: For each place the answer and where that was, by the path of the module whose forward ran.
    """

    def __init__(self, opposite_at: Collection[Place] = ()) -> None:
        self.reads: dict[Place, dict[str, tuple[bool, OriginRecord]]] = {}
        self._opposite_at = opposite_at

    def __enter__(self) -> Self:
        CLASSES.acquire()
        self._present = vars(nn.Module).get("training", _MISSING)
        # What a class defines with a setter is asked before the instance.
        nn.Module.training = property(self._get, _set_training)  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        return self

    def __exit__(self, *_: object) -> None:
        if self._present is _MISSING:
            del nn.Module.training
        else:
            nn.Module.training = self._present  # type: ignore[assignment]
        CLASSES.release()

    def _get(self, module: nn.Module) -> bool:
        # An `AttributeError` sends Python to `__getattr__`, where scripted modules have theirs.
        value = module.__dict__.get("training", _MISSING)
        if value is _MISSING:
            raise AttributeError("training")
        reader = sys._getframe(1)
        if not is_user_file(reader.f_code.co_filename):
            return value
        place = place_of(frame_at(reader.f_code, reader.f_lasti))
        record = record_here(reader)
        if record is not None:
            self.reads.setdefault(place, {}).setdefault(record[0].module_path, (value, record))
        return not value if place in self._opposite_at else value


def _set_training(module: nn.Module, value: bool) -> None:
    module.__dict__["training"] = value


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Something that user code did for real while it was traced.

    Attributes:
        kind: Whether a tensor was made, something was drawn, or a tensor of the model was changed.
        name: The operator, or the function that drew.
        record: Where.
        tensor: The tensor that was made or changed.
    """

    kind: Literal["made", "drawn", "changed"]
    name: str
    record: OriginRecord
    tensor: torch.Tensor | None


class RealWork(TorchDispatchMode):
    """Notes the work that is done on real tensors: which are made and drawn, and which of the model's are changed.

    Attributes:
        works: All of it, in order.
        constants: The names of the tensors that the tracer has put into the root.
    """

    def __init__(self, model: nn.Module | None) -> None:
        super().__init__()
        self.works: list[Work] = []
        self.constants: dict[Any, str] = {}
        self._of_model = {} if model is None else {_memory(tensor): tensor for tensor in model.buffers()}
        self._behind: dict[int, tuple[Work, ...]] = {}
        self._alive: list[torch.Tensor] = []

    def behind(self, tensor: torch.Tensor) -> tuple[Work, ...]:
        """What was made and drawn that a tensor was computed from."""
        return self._behind.get(_memory(tensor), ())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do what is asked for, and note it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        given_by = {_memory(tensor) for tensor in given}
        given_works = [work for memory in given_by for work in self._behind.get(memory, ())]
        record = record_here(sys._getframe(1))
        changed = _changed_argument(func, args, kwargs)
        tracer = running_tracer.get()
        if record is not None and tracer is not None:
            self.constants = tracer.tensor_attrs
            own = self._own(func, given, changed, record, result)
            self.works += own
            given_works += own
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                memory = _memory(tensor)
                self._behind[memory] = tuple(dict.fromkeys((*self._behind.get(memory, ()), *given_works)))
                # The memory of a tensor that is gone would be another one's.
                self._alive.append(tensor)
        return result

    def _own(
        self,
        func: Any,
        given: list[torch.Tensor],
        changed: torch.Tensor | None,
        record: OriginRecord,
        result: Any,
    ) -> list[Work]:
        name = str(func).split(".")[1]
        found: list[Work] = []
        tensor = result if isinstance(result, torch.Tensor) else None
        if torch.Tag.nondeterministic_seeded in func.tags:
            found.append(Work("drawn", name, record, tensor))
        elif tensor is not None and changed is None and (not given or name in _CONSTRUCTORS_LIKE):
            found.append(Work("made", name, record, tensor))
        elif changed is not None and _memory(changed) in self._of_model:
            found.append(Work("changed", name, record, self._of_model[_memory(changed)]))
        return found


@contextmanager
def drawing_watched(note: Callable[[str, OriginRecord], None]) -> Generator[None]:
    """Tell of every draw from generators of Python's `random` and of numpy, however the user's code came by them."""
    before = sys.getprofile()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and _draws(arg) and not _is_importing(frame):
            record = record_here(frame)
            if record is not None:
                note(arg.__name__, record)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


class Watching:
    """All that may go on with real values in a run: `RealWork`, and draws of plain numbers."""

    def __init__(self, model: nn.Module | None) -> None:
        self.real = RealWork(model)
        self._drawing = drawing_watched(self._note_draw)

    def _note_draw(self, name: str, record: OriginRecord) -> None:
        self.real.works.append(Work("drawn", name, record, None))

    def __enter__(self) -> Self:
        self._drawing.__enter__()
        self.real.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.real.__exit__(kind, error, traceback)
        self._drawing.__exit__(kind, error, traceback)


def _memory(tensor: torch.Tensor) -> int:
    """What identifies the memory of a tensor, which its views share; tensors without any stand for themselves."""
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def _changed_argument(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The first tensor that an operator writes to, or None."""
    if not func._schema.is_mutable:
        return None
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            if isinstance(value, torch.Tensor):
                return value
    return None


def _draws(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, random.Random):
        return function.__name__ in {"random", "getrandbits"}
    name = getattr(function, "__name__", "")
    return type(owner).__module__.startswith("numpy.random") and name not in _NO_DRAWS and not name.startswith("_")


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a frame is part of the first import of something."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


_NO_DRAWS: Final = frozenset({"seed", "get_state", "set_state", "spawn"})

_CONSTRUCTORS_LIKE: Final = frozenset(
    {
        *(f"new_{name}" for name in ("zeros", "ones", "empty", "full", "empty_strided")),
        *(f"{name}_like" for name in ("zeros", "ones", "empty", "full")),
    }
)
"""Operators that are given a tensor only to make another one beside it."""
