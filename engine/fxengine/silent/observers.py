"""What is watched when a model is walked through once more, because the first run left something to be explained.

Each observer is a context manager around a repetition of the run. It notes where in the user's code something happens
that no graph records: a read of `training`, work on real tensors, a draw from Python's or numpy's random generators.
"""

import pickle
import random
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal, Self

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fxengine.bytecode import calls_in
from fxengine.graph import Graph
from fxengine.places import BETWEEN
from fxengine.running import running_tracer
from fxengine.source import OriginRecord, SourceFrame, frame_at, is_engine_file, is_user_file, walk_user_frames
from fxengine.syntax import Span
from fxengine.tracer import Tracer

_MISSING: Final = object()
CLASSES: Final = threading.RLock()
"""Held while a class of torch's or ours is changed for a repetition."""

Place = tuple[str, Span]
"""A stretch of a file, whichever function it is in."""


def place_of(frame: SourceFrame) -> Place:
    """Where a frame is."""
    return frame.path, frame.span


def lines_of(places: Collection[Place]) -> frozenset[tuple[str, int]]:
    """The lines that places are on, for a quick look."""
    return frozenset((path, line) for path, span in places for line in range(span.line, span.end_line + 1))


def record_here(frame: FrameType | None) -> OriginRecord | None:
    """Where the user's code is that led to `frame`; None if it is the engine's own business, or nothing is traced."""
    tracer = running_tracer.get()
    caller = frame
    while caller is not None and not is_user_file(caller.f_code.co_filename):
        if is_engine_file(caller.f_code.co_filename) and caller.f_code is not BETWEEN:
            return None
        caller = caller.f_back
    if tracer is None or tracer._site is None or caller is None:
        return None
    return OriginRecord((tracer._site, walk_user_frames(caller, tracer._boundary)))


def look_at_graph(watch: Callable[[Graph], None] | None) -> None:
    """Show the graph that is being made to whoever watches."""
    tracer = running_tracer.get()
    if watch is not None and tracer is not None:
        watch(tracer.graph)


def _is_making_module(frame: FrameType | None) -> bool:
    """Whether a frame runs on behalf of the constructor of a module."""
    boundary = Tracer._boundary
    while frame is not None and frame.f_code is not boundary:
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), nn.Module):
            return True
        frame = frame.f_back
    return False


class TrainingReads:
    """Answers the opposite where user code reads a module's `training`, at some places, and notes that.

    Attributes:
        reads: For each place the answer and where that was, by the path of the module whose forward ran.
        watch: Called with the graph so far at each of these places.
    """

    def __init__(self, opposite_at: Collection[Place]) -> None:
        self.reads: dict[Place, dict[str, tuple[bool, OriginRecord]]] = {}
        self.watch: Callable[[Graph], None] | None = None
        self._opposite_at = opposite_at
        self._lines = lines_of(opposite_at)

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
        if (reader.f_code.co_filename, reader.f_lineno) not in self._lines:
            return value
        place = place_of(frame_at(reader.f_code, reader.f_lasti))
        record = record_here(reader)
        if record is None or place not in self._opposite_at:
            return value
        look_at_graph(self.watch)
        self.reads.setdefault(place, {}).setdefault(record[0].module_path, (value, record))
        return not value


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
        has_drawn_numbers: Whether anything was drawn from the generators of Python's `random` and of numpy.
    """

    def __init__(self, model: nn.Module | None) -> None:
        super().__init__()
        self.works: list[Work] = []
        self.constants: dict[Any, str] = {}
        self.has_drawn_numbers = False
        self._of_model = {} if model is None else {_memory(tensor): tensor for tensor in model.buffers()}
        self._behind: dict[int, tuple[Work, ...]] = {}
        self._alive: list[torch.Tensor] = []

    def __enter__(self) -> Self:
        self._numbers = generators_state()
        return super().__enter__()

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        self.has_drawn_numbers = generators_state() != self._numbers

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Never to be asked of torch's compiler, which would be imported for it; newer torch calls this."""
        return False

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
        frame = sys._getframe(1)
        record = None if _is_making_module(frame) else record_here(frame)
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


class Draws:
    """Notes the instructions of user code that draw from random generators: those of the process, and some others.

    Those are C code, so nothing can stand between. Instead the generators are looked at after each call that user code
    makes, which is slow: this is for runs of which one knows that they draw.

    Attributes:
        records: Where that was.
    """

    def __init__(self, generators: Collection[Any]) -> None:
        self.records: list[OriginRecord] = []
        self._generators = generators
        self._state: tuple[Any, ...] = ()
        self._calls: dict[int, frozenset[int]] = {}
        self._called_from: tuple[FrameType, int] | None = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        self._state = generators_state(self._generators)
        # CPython 3.12 tells of instructions only if some frame had asked for them before.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, _event: str, _arg: object) -> Any:
        code = frame.f_code
        if not is_user_file(code.co_filename) or code.co_name == "<module>":
            return None
        # CPython 3.13 begins to tell of instructions when a frame asks that is traced by then.
        frame.f_trace = self._at_instruction
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if id(code) not in self._calls:
            self._calls[id(code)] = calls_in(code)
        return self._at_instruction

    def _at_instruction(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Look at the generators after a call, which is before the next instruction or at the function's return."""
        if self._called_from is not None:
            self._look()
        self._called_from = (frame, frame.f_lasti) if frame.f_lasti in self._calls[id(frame.f_code)] else None
        return self._at_instruction

    def _look(self) -> None:
        state = generators_state(self._generators)
        if state == self._state:
            return
        self._state = state
        assert self._called_from is not None
        frame, lasti = self._called_from
        tracer = running_tracer.get()
        if tracer is not None and tracer._site is not None and not _is_importing(frame):
            _, _, *outer = walk_user_frames(frame, tracer._boundary)
            self.records.append(OriginRecord((tracer._site, (frame.f_code, lasti, *outer))))


class Moves:
    """Sees whether random generators are used.

    Attributes:
        has_moved: Whether they were.
    """

    def __init__(self, generators: Collection[Any]) -> None:
        self.has_moved = False
        self._generators = generators

    def __enter__(self) -> Self:
        self._state = generators_state(self._generators)
        return self

    def __exit__(self, *_: object) -> None:
        self.has_moved = generators_state(self._generators) != self._state


def is_generator(value: object) -> bool:
    """Whether an object is a random generator of Python's or numpy's."""
    # Asking numpy itself would import its generators.
    numpys = sys.modules.get("numpy.random")
    return isinstance(value, random.Random) or (
        numpys is not None and isinstance(value, numpys.Generator | numpys.RandomState)
    )


def generators_state(others: Collection[Any] = ()) -> tuple[Any, ...]:
    """Where the generators of Python's `random` and of numpy are, in a few numbers, and where some others are."""
    _, python, _ = random.getstate()
    numpys = sys.modules.get("numpy.random")
    known = tuple(pickle.dumps(each) for each in others)
    if numpys is None:
        return python[-1], python[0], *known
    _, keys, position, *_ = numpys.get_state()
    return python[-1], python[0], position, int(keys[0]), *known


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


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a frame is part of the first import of something."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


_CONSTRUCTORS_LIKE: Final = frozenset(
    {
        *(f"new_{name}" for name in ("zeros", "ones", "empty", "full", "empty_strided")),
        *(f"{name}_like" for name in ("zeros", "ones", "empty", "full")),
    }
)
"""Operators that are given a tensor only to make another one beside it."""
