"""FX309: C code that was given a symbolic value has failed, and the user's own handler has caught that.

What a tracer itself refuses is known from the first run. That C code fails is seen by nobody but the handler, so where
the code that ran has one that would catch it, the model is walked through again and those functions are watched.
"""

import ast
import sys
from collections.abc import Collection, Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from fxengine.classification import Moment, Verdict, classify, operand_span
from fxengine.diagnosis import TracingProblem
from fxengine.errors import DynamicNumber, ForeignCall, SwallowedError
from fxengine.handlers import catcher
from fxengine.running import running_tracer
from fxengine.silent.observers import record_here
from fxengine.silent.ran import with_innermost
from fxengine.silent.reading import definition_behind, dotted
from fxengine.silent.scene import Scene, shown
from fxengine.source import SourceFrame
from fxengine.tracer import Tracer

if TYPE_CHECKING:
    from fxengine.source import OriginRecord

_CATCHING: Final = frozenset({
    "ArithmeticError",
    "BaseException",
    "Exception",
    "IndexError",
    "KeyError",
    "LookupError",
    "RuntimeError",
    "TypeError",
    "ValueError",
})  # fmt: skip
"""What C code raises when it is given a symbolic value, and what catches that."""


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The errors of C code that a trace has met and the user's code has caught."""
    # Code that asks something of a symbolic value, or passes one on, has mostly recorded a node.
    watched = [code for code in scene.ran.recorded.values() if code.co_exceptiontable and _catches(code)]
    if not watched:
        return
    caught = CaughtErrors(watched)
    if scene.observation.replay(caught) is None:
        return
    for error, place, record in caught.found.values():
        origin = with_innermost(record.resolve(), place)
        if origin.frames[-1] not in scene.told:
            text = shown(origin.frames[-1])
            yield scene.problem(
                SwallowedError,
                origin,
                f"the tracing error that `{text}` raises is caught here, and the graph follows the handler",
                (f"let the handler catch what is meant, not `{type(error).__name__}`", *scene.keep_out(origin)),
            )


class CaughtErrors:
    """Notes the exceptions that some functions catch and that only a symbolic value can have raised.

    Attributes:
        found: Each exception with the expression that raised it and the calls that led there, by identity.
    """

    def __init__(self, watched: Collection[CodeType]) -> None:
        self.found: dict[int, tuple[BaseException, SourceFrame, OriginRecord]] = {}
        self._watched = {id(code) for code in watched}

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, _event: str, _arg: object) -> Any:
        if id(frame.f_code) not in self._watched:
            return None
        frame.f_trace_lines = False
        return self._at_event

    def _at_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception":
            _, error, traceback = arg
            # It is given to the exception itself only after this.
            self._raised(frame, error.with_traceback(traceback))
        return self._at_event

    def _raised(self, frame: FrameType, error: BaseException) -> None:
        tracer, record = running_tracer.get(), record_here(frame)
        if tracer is None or record is None or any(refusal.error is error for refusal in tracer.refusals):
            return
        if catcher(error, frame, Tracer._boundary) is not frame:
            # What leaves a handler stands for what that has caught.
            context = error.__context__
            while context is not None:
                self.found.pop(id(context), None)
                context = context.__context__
            return
        verdict = classify(error, tracer.refusals, tracer.graph)
        if verdict.certain and verdict.rule in {DynamicNumber, ForeignCall}:
            self.found[id(error)] = error, _place(frame, verdict), record


def _place(frame: FrameType, verdict: Verdict) -> SourceFrame:
    moment = Moment(frame, frame.f_lasti)
    source = moment.source
    return SourceFrame(source.path, source.function, *operand_span(verdict, moment))


def _catches(code: CodeType) -> bool:
    """Whether a function has a handler that may catch what C code raises."""
    definition = definition_behind(code)
    return definition is not None and any(map(_is_catching, ast.walk(definition)))


def _is_catching(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=None):
            return True
        case ast.ExceptHandler(type=ast.expr() as named):
            names = [dotted(each) for each in ast.walk(named) if isinstance(each, ast.Name | ast.Attribute)]
        case ast.withitem(context_expr=ast.Call(func=function, args=arguments)) if dotted(function).endswith(
            "suppress"
        ):
            names = [dotted(each) for each in arguments]
        case _:
            return False
    return any(name.rpartition(".")[2] in _CATCHING for name in names)
