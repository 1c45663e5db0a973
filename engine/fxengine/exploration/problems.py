"""From an exception to the problem that it is: where it is, how the value in question came to be, what mends it."""

import ast
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

from torch import nn

from fxengine.advice import Case, headline, hints, on_one_line
from fxengine.classification import Moment, Verdict, classify, moments_of, node_of, operand_span
from fxengine.diagnosis import TracingProblem
from fxengine.errors import (
    DynamicBool,
    DynamicIteration,
    DynamicLength,
    ForeignCall,
    RaisedWhileTracing,
    Refusal,
    Rule,
    SwallowedError,
    UnsupportedArgument,
    kept_in,
    said_by_torch_fx,
)
from fxengine.graph import Graph
from fxengine.provenance import Kind, Step, is_size_of_data, kind_of, kind_of_length, way_to
from fxengine.proxy import Proxy
from fxengine.source import ModuleSite, SourceFrame, definition_place, frame_at, is_user_file
from fxengine.syntax import Span, definition_of, nodes_around, purpose_of, returns_of, span_of
from fxengine.tracer import Tracer

_MOST_FRAMES: Final = 60


@dataclass(frozen=True, slots=True)
class Trouble:
    """An exception that a run met, with what was known at that moment.

    Attributes:
        error: The exception. Its traceback begins at the root, whether it was raised or answered instead.
        refusals: What the tracer has refused so far.
        graph: The graph so far.
        site: The call of the module whose forward ran.
        assumed_in: The user's frame and instruction that led to the last answer that was assumed.
    """

    error: BaseException
    refusals: Sequence[Refusal]
    graph: Graph
    site: ModuleSite
    assumed_in: tuple[FrameType, int] | None = None

    @property
    def verdict(self) -> Verdict:
        """The rule that it belongs to, and the symbolic value that it is about."""
        verdict = self._verdict_on(self.error)
        if not verdict.certain:
            # What a handler raises in place of an error that only a symbolic value can have raised, that has raised.
            behind = (self._verdict_on(each) for each in chain_of(self.error) if each is not self.error)
            certain = next((each for each in behind if each.certain), None)
            if certain is not None:
                return Verdict(verdict.rule, certain.subject)
        return verdict

    def _verdict_on(self, error: BaseException) -> Verdict:
        verdict = classify(error, self.refusals, self.graph)
        if verdict.rule is ForeignCall and self._follows_from_an_answer(error):
            return Verdict(RaisedWhileTracing, None, certain=False)
        return verdict

    def _follows_from_an_answer(self, error: BaseException) -> bool:
        """Whether a `raise` outside the user's code may be due to an answer that was assumed in the same call."""
        moments = moments_of(error.__traceback__)
        if not moments or not moments[-1].raises:
            return False
        user = next((moment for moment in reversed(moments) if is_user_file(moment.path)), None)
        return user is None or self.assumed_in == (user.frame, user.lasti)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an exception came out.

    Attributes:
        frames: The user frames that led to it, outermost first.
        site: The expression at fault; None if there is no source at all.
        anchor: The place in the user's own files; None if no frame lies there.
        inside: The frames of its traceback but for the engine's own.
        shown: Those of them that are the user's, or all of them if none is.
    """

    frames: tuple[SourceFrame, ...]
    site: SourceFrame | None
    anchor: SourceFrame | None
    inside: list[Moment]
    shown: list[Moment]


@dataclass(frozen=True, slots=True)
class _KeptClass:
    """A call of a class of modules where one of them is meant.

    Attributes:
        kept: Where it is kept: `self.norm`.
        cls: The class.
        site: The call.
    """

    kept: str
    cls: type[nn.Module]
    site: SourceFrame


@dataclass(frozen=True, slots=True)
class Describer:
    """Makes problems of the troubles of one model."""

    root: nn.Module | Callable[..., Any]
    method: str
    user_paths: Collection[str] | None

    def place(self, trouble: Trouble, verdict: Verdict) -> Place:
        """Where an exception came out, which with its rule says whether it is a problem that is known already."""
        inside = moments_of(trouble.error.__traceback__)
        # A model of torch's own has no other frames than torch's.
        shown = [moment for moment in inside if is_user_file(moment.path)] or inside
        # What is made at run time, as by `exec`, has no source to show: its caller has.
        shown = [moment for moment in shown if moment.source.text] or shown
        frames = tuple(moment.source for moment in _shortened(shown)) or self.definition(verdict.rule)
        site = next(iter(frames), None)
        if shown:
            # A call that led into torch is at fault as a whole: the operand in question is one of torch's own code.
            site = _site(verdict, shown[-1]) if shown[-1] == inside[-1] else frames[-1]
        return Place(frames, site, self.anchor(site, frames), inside, shown)

    def problem(
        self, trouble: Trouble, verdict: Verdict, value: str = "", place: Place | None = None
    ) -> TracingProblem:
        """The problem that an exception is.

        Args:
            trouble: The exception.
            verdict: What it is about.
            value: What the value in question is for the inputs in use.
            place: Where it came out, if that was looked at before.
        """
        error, place = trouble.error, place or self.place(trouble, verdict)
        shown = place.shown
        within = bool(shown) and shown[-1] != place.inside[-1]
        case = replace(_case(trouble, verdict, place.site, shown, known=bool(value)), inside=within)
        module = _module_passed(trouble)
        maker = None if module is None else self._maker(type(module), place)
        if module is not None:
            steps = () if maker is None else (Step(None, maker, on_one_line(maker.text)),)
            case = replace(case, module=type(module).__name__, provenance=steps)
        if verdict.rule is RaisedWhileTracing:
            case = replace(case, absent=_asked_for(shown))
        called = self._kept_class(error, shown, maker)
        if called is not None:
            case = replace(case, kept=called.kept, module=called.cls.__name__, provenance=(), kind="")
            place = replace(place, site=called.site, anchor=self.anchor(called.site, place.frames))
        return TracingProblem(
            rule=verdict.rule,
            message=said_by_torch_fx(error),
            headline=headline(case),
            exception=error,
            frames=place.frames,
            site=place.site,
            anchor=place.anchor,
            kind=case.kind,
            provenance=tuple(case.provenance),
            hints=hints(case),
            module_path=trouble.site.module_path,
            module_type=trouble.site.module_type,
            instances=(trouble.site.module_path,),
            value=value,
        )

    def swallowed(self, trouble: Trouble) -> TracingProblem:
        """The silent error that a refusal is which the user's own code has caught."""
        problem = self.problem(trouble, trouble.verdict)
        expression = on_one_line(problem.site.text) if problem.site is not None else ""
        return replace(
            problem,
            rule=SwallowedError,
            headline=f"the tracing error that `{expression}` raises is caught here, and the graph follows the handler",
            hints=(
                f"let the handler catch what is meant, not `{type(trouble.error).__name__}`",
                *problem.hints,
            ),
        )

    def anchor(self, site: SourceFrame | None, frames: tuple[SourceFrame, ...]) -> SourceFrame | None:
        """The place in the user's own files of what is at `site`, where `frames` have led."""
        if self.user_paths is None or (site is not None and site.path in self.user_paths):
            return site
        return next((frame for frame in reversed(frames) if frame.path in self.user_paths), None)

    def _maker(self, cls: type[nn.Module], place: Place) -> SourceFrame | None:
        """The call that has made a module of a class, if the function that passes it on has one; the last before it."""
        if place.shown:
            code, value_of = place.shown[-1].frame.f_code, place.shown[-1].value_of
        else:
            code = traced_code(self.root, self.method)
            value_of = {"self": self.root}.get
        definition = None if code is None else definition_of(code.co_filename, code.co_firstlineno, code.co_name)
        if code is None or definition is None or place.site is None:
            return None
        calls = [each for each in ast.walk(definition) if isinstance(each, ast.Call)]
        makers = [each for each in calls if _looked_up(each.func, value_of) is cls and each.lineno <= place.site.line]
        span = span_of(max(makers, key=lambda each: (each.lineno, each.col_offset))) if makers else None
        return None if span is None else SourceFrame(code.co_filename, code.co_qualname, *span)

    def _kept_class(
        self, error: BaseException, shown: Sequence[Moment], maker: SourceFrame | None
    ) -> _KeptClass | None:
        """The call of a class that is kept where a module is meant, if an error comes from it, or of what it has made.

        Args:
            error: The error.
            shown: The frames that it has passed.
            maker: The call that has made the module which was passed on, if that is what was refused.
        """
        owner = kept_in(error, AttributeError, "obj") if isinstance(error, AttributeError) else None
        asked = isinstance(owner, nn.Module)
        code = traced_code(self.root, self.method)
        scopes: list[tuple[CodeType, Callable[[str], Any], Span | None]] = [
            (each.frame.f_code, each.value_of, each.source.span) for each in reversed(shown)
        ]
        if not scopes and code is not None:
            scopes = [(code, {"self": self.root}.get, None)]
        for function, value_of, span in scopes:
            places = [maker.span] if maker is not None else [] if span is None else [span]
            for place in (*places, *(_calls_in(function) if asked else ())):
                found = _class_called(function, value_of, place)
                if found is not None and (not asked or type(owner) is found.cls):
                    return found
        return None

    def definition(self, rule: type[Rule]) -> tuple[SourceFrame, ...]:
        """Where a problem is shown that no line of the user's raised.

        That is the `return` whose value the graph cannot hold, if there is just one, or the head of the definition.
        """
        code = traced_code(self.root, self.method)
        if code is None:
            return ()
        head = frame_at(code, definition_place())
        definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
        returns = returns_of(definition) if definition is not None and rule is UnsupportedArgument else []
        span = span_of(returns[0]) if len(returns) == 1 else None
        return (head if span is None else SourceFrame(head.path, head.function, *span),)


def _module_passed(trouble: Trouble) -> nn.Module | None:
    """The module that the tracer has refused as an argument, if that is what it has refused."""
    refused = next((each for each in trouble.refusals if each.error is trouble.error), None)
    if refused is None or refused.rule is not UnsupportedArgument:
        return None
    return refused.subject if isinstance(refused.subject, nn.Module) else None


def _asked_for(shown: Sequence[Moment]) -> str:
    """The input that is None by default and that `if x is not None` has let the code come to an error for, else ""."""
    for moment in reversed(shown):
        for around in reversed(nodes_around(moment.path, moment.source.span)):
            match around:
                case ast.If(test=ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[ast.Constant(value=None)])):
                    place = moment.source.span
                    side = around.body if isinstance(op, ast.IsNot) else around.orelse if isinstance(op, ast.Is) else []
                    inside = any((span := span_of(each)) is not None and span.contains(place) for each in side)
                    node = node_of(moment.value_of(name)) if isinstance(moment.value_of(name), Proxy) else None
                    if inside and node is not None and node.op == "placeholder" and node.args[:1] == (None,):
                        return str(node.target)
                case _:
                    pass
    return ""


def _calls_in(code: CodeType) -> Iterator[Span]:
    """The places of the calls in a function."""
    definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
    for node in ast.walk(definition) if definition is not None else ():
        span = span_of(node) if isinstance(node, ast.Call) else None
        if span is not None:
            yield span


def _class_called(code: CodeType, value_of: Callable[[str], Any], span: Span) -> _KeptClass | None:
    """The class of modules that an attribute of a module is, if that is what the expression at a span calls.

    What is made so and called at once is what the code wants.
    """
    around = nodes_around(code.co_filename, span)
    call, parent = (around[-1], around[-2]) if len(around) > 1 else (None, None)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if not isinstance(call.func.value, ast.Name) or (isinstance(parent, ast.Call) and parent.func is call):
        return None
    itself = call.func.value.id
    cls = _looked_up(call.func, value_of)
    if not isinstance(value_of(itself), nn.Module) or not isinstance(cls, type) or not issubclass(cls, nn.Module):
        return None
    return _KeptClass(f"{itself}.{call.func.attr}", cls, SourceFrame(code.co_filename, code.co_qualname, *span))


def _looked_up(expression: ast.expr, value_of: Callable[[str], Any]) -> Any:
    """What names and attributes of them mean; None for what is nothing else, or is not there. Runs no code."""
    match expression:
        case ast.Name(id=name):
            return value_of(name)
        case ast.Attribute(value=owner, attr=name):
            return inspect.getattr_static(_looked_up(owner, value_of), name, None)
        case _:
            return None


def traced_code(root: nn.Module | Callable[..., Any], method: str) -> CodeType | None:
    """The code that a trace of `root` runs, if it has any; `method` is the name of a module's forward."""
    function: Any = getattr(type(root), method, None) if isinstance(root, nn.Module) else root
    return getattr(inspect.unwrap(function), "__code__", None)


def failing_site(tracer: Tracer, error: BaseException) -> ModuleSite:
    """The call of the innermost module whose forward an exception passed."""
    if tracer._failure is not None and tracer._failure[0] is error:
        return tracer._failure[1]
    return ModuleSite("", type(tracer.root), None, ())


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that were being handled when it was raised."""
    pending, seen = [error], set[int]()
    while pending:
        each = pending.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += [other for other in (each.__cause__, each.__context__) if other is not None]


def with_callers(error: BaseException, frame: FrameType | None, outermost: CodeType) -> BaseException:
    """The exception with a traceback that begins where `outermost` runs, as if it had gone all the way out.

    Args:
        error: The exception, with the traceback from below `frame` inwards, or with none if it was not raised.
        frame: The innermost frame that is still running.
        outermost: The code where the traceback is to begin.
    """
    traceback = error.__traceback__
    while frame is not None and frame.f_code is not outermost:
        traceback = TracebackType(traceback, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return error.with_traceback(traceback)


def _case(trouble: Trouble, verdict: Verdict, site: SourceFrame | None, shown: list[Moment], *, known: bool) -> Case:
    provenance = way_to(verdict.subject)
    # A size that counts what holds in the data is none of the metadata, unless example inputs have told it.
    counted = not known and is_size_of_data(verdict.subject)
    purpose = ""
    if verdict.rule in {DynamicBool, DynamicIteration} and site is not None and shown:
        purpose = purpose_of(nodes_around(site.path, shown[-1].source.span), site.span, shown[-1].opname)
    return Case(
        rule=verdict.rule,
        error=trouble.error,
        expression=on_one_line(site.text) if site is not None else "",
        value=on_one_line(provenance[-1].text) if provenance else "",
        kind="data-dependent" if counted else _kind(verdict),
        purpose=purpose,
        provenance=provenance,
        module_type=trouble.site.module_type,
        known=known,
        counted=counted,
    )


def _kind(verdict: Verdict) -> Kind:
    """What the answer to the question follows from: how many items there are is a size, whatever data they hold."""
    counts = verdict.rule in {DynamicLength, DynamicIteration}
    return kind_of_length(verdict.subject) if counts else kind_of(verdict.subject)


def _site(verdict: Verdict, moment: Moment) -> SourceFrame:
    """The expression at fault in the innermost frame that is shown."""
    source = moment.source
    return SourceFrame(source.path, source.function, *operand_span(verdict, moment))


def _shortened(moments: list[Moment]) -> list[Moment]:
    """The outermost and innermost frames, if a recursion has left too many."""
    if len(moments) <= _MOST_FRAMES:
        return moments
    return [*moments[: _MOST_FRAMES // 2], *moments[-_MOST_FRAMES // 2 :]]
