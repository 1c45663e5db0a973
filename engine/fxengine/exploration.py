"""`diagnose`: traces a model and says what stops it, instead of raising.

The answer is the graph as far as the trace came, which is a valid graph, and each problem with its rule, its place, how
the value in question came to be, and what mends it. Tracing itself is the business of the tracer that is given; nothing
is changed in what it accepts.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from torch import nn
from torch.utils import _pytree as pytree

from fxengine.advice import Case, headline, hints, on_one_line
from fxengine.classification import Moment, Verdict, classify, moments_of, node_of, operand_span
from fxengine.errors import DynamicBool, Rule, UnsupportedArgument, text_of
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.placeholders import PHBase
from fxengine.provenance import Kind, Step, kind_of, way_to
from fxengine.source import ModuleSite, SourceFrame, definition_place, frame_at, is_user_file, parameter_place
from fxengine.syntax import definition_of, nodes_around, purpose_of, returns_of, span_of
from fxengine.tracer import Tracer

_MOST_FRAMES: Final = 60


@dataclass(frozen=True, slots=True)
class TracingProblem:
    """What stopped a trace.

    Attributes:
        rule: The rule that is broken; `code` is its name.
        message: What torch.fx would say.
        headline: What is wrong, in one line, in the user's own expressions.
        exception: The exception, with its traceback.
        frames: The user frames that led to it, outermost first.
        site: The expression at fault; None if there is no source at all.
        anchor: The place in the user's own files: the site if it lies there, else the innermost call that led to it;
            None if no frame lies there.
        kind: What the value in question follows from: `metadata`, `data-dependent`, or empty if that is not known.
        provenance: How the value came from an input, input first.
        hints: What mends it, best first.
        module_path: The path of the module whose forward ran.
        module_type: The type of that module.
    """

    rule: type[Rule]
    message: str
    headline: str
    exception: BaseException
    frames: tuple[SourceFrame, ...]
    site: SourceFrame | None
    anchor: SourceFrame | None
    kind: Kind
    provenance: tuple[Step, ...]
    hints: tuple[str, ...]
    module_path: str
    module_type: type[Any] | None

    @property
    def code(self) -> str:
        """The stable name of the rule, such as `FX001`."""
        return self.rule.code


@dataclass(frozen=True, slots=True)
class Guard:
    """Something that the graph holds true, because it was made for that case.

    Attributes:
        expression: What is fixed, as it reads in the source.
        value: The value that it is fixed to.
        frame: Where it stands in the source, if anywhere.
    """

    expression: str
    value: Any
    frame: SourceFrame | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a trace gave.

    Attributes:
        graph: The graph, as far as the trace came; it is valid, and its output is then the last value computed.
        problems: What stopped the trace; empty if nothing did.
        guards: What the graph was specialised on.
        root: The module that the graph refers to: the model, or a new module that holds a function's constants.
    """

    graph: Graph
    problems: tuple[TracingProblem, ...]
    guards: tuple[Guard, ...]
    root: nn.Module

    @property
    def complete(self) -> bool:
        """Whether the trace came to its end."""
        return not self.problems


def diagnose(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | None = None,
    *,
    tracer: Tracer | None = None,
    user_paths: Collection[str] | None = None,
) -> Diagnosis:
    """Trace a model; return the graph as far as it came, and what stopped it.

    Args:
        root: A module or function.
        concrete_args: Values of parameters that are not to be symbolic, as for `Tracer.trace`.
        tracer: The tracer to use; by default one as `symbolic_trace` makes.
        user_paths: The files that the user is working on; every file that is not machinery if None.

    Returns:
        A diagnosis. Whatever the model raises is a problem in it, `SystemExit` and `KeyboardInterrupt` too.
    """
    tracer = Tracer() if tracer is None else tracer
    tracer.refusals.clear()
    try:
        graph = tracer.trace(root, concrete_args)
        problems: tuple[TracingProblem, ...] = ()
    except BaseException as error:  # noqa: BLE001 - this is where the user's code is called.
        problem, stopped_at = _problem(error, tracer, root, user_paths)
        graph = _closed(tracer.graph, stopped_at)
        problems = (problem,)
    return Diagnosis(graph, problems, _guards(root, concrete_args, tracer), tracer.root)


def _problem(
    error: BaseException,
    tracer: Tracer,
    root: nn.Module | Callable[..., Any],
    user_paths: Collection[str] | None,
) -> tuple[TracingProblem, Node | None]:
    """The problem that an exception is, and the node of the value in question."""
    verdict = classify(error, tracer.refusals, tracer.graph)
    inside = moments_of(error.__traceback__)
    # A model of torch's own has no other frames than torch's.
    shown = [moment for moment in inside if is_user_file(moment.path)] or inside
    frames = tuple(moment.source for moment in _shortened(shown)) or _definition(root, tracer, verdict.rule)
    site = next(iter(frames), None)
    if shown:
        # A call that led into torch is at fault as a whole: the operand in question is one of torch's own code.
        site = _site(verdict, shown[-1]) if shown[-1] == inside[-1] else frames[-1]
    case = _case(error, verdict, site, shown, tracer)
    problem = TracingProblem(
        rule=verdict.rule,
        message=text_of(error),
        headline=headline(case),
        exception=error,
        frames=frames,
        site=site,
        anchor=_anchor(site, frames, user_paths),
        kind=case.kind,
        provenance=tuple(case.provenance),
        hints=hints(case),
        module_path=_failing_module(tracer, error).module_path,
        module_type=case.module_type,
    )
    return problem, node_of(verdict.subject)


def _case(
    error: BaseException,
    verdict: Verdict,
    site: SourceFrame | None,
    shown: list[Moment],
    tracer: Tracer,
) -> Case:
    provenance = way_to(verdict.subject)
    purpose = ""
    if verdict.rule is DynamicBool and site is not None and shown:
        purpose = purpose_of(nodes_around(site.path, shown[-1].source.span), site.span, shown[-1].opname)
    return Case(
        rule=verdict.rule,
        error=error,
        expression=on_one_line(site.text) if site is not None else "",
        value=on_one_line(provenance[-1].text) if provenance else "",
        kind=kind_of(verdict.subject),
        purpose=purpose,
        provenance=provenance,
        module_type=_failing_module(tracer, error).module_type,
    )


def _site(verdict: Verdict, moment: Moment) -> SourceFrame:
    """The expression at fault in the innermost frame that is shown."""
    source = moment.source
    return SourceFrame(source.path, source.function, *operand_span(verdict, moment))


def _anchor(
    site: SourceFrame | None, frames: tuple[SourceFrame, ...], user_paths: Collection[str] | None
) -> SourceFrame | None:
    if user_paths is None or (site is not None and site.path in user_paths):
        return site
    return next((frame for frame in reversed(frames) if frame.path in user_paths), None)


def _shortened(moments: list[Moment]) -> list[Moment]:
    """The outermost and innermost frames, if a recursion has left too many."""
    if len(moments) <= _MOST_FRAMES:
        return moments
    return [*moments[: _MOST_FRAMES // 2], *moments[-_MOST_FRAMES // 2 :]]


def _traced_code(root: nn.Module | Callable[..., Any], tracer: Tracer) -> CodeType | None:
    function: Any = getattr(type(root), tracer.traced_func_name, None) if isinstance(root, nn.Module) else root
    return getattr(inspect.unwrap(function), "__code__", None)


def _definition(root: nn.Module | Callable[..., Any], tracer: Tracer, rule: type[Rule]) -> tuple[SourceFrame, ...]:
    """Where a problem is shown that no line of the user's raised.

    That is the `return` whose value the graph cannot hold, if there is just one, or the head of the definition.
    """
    code = _traced_code(root, tracer)
    if code is None:
        return ()
    head = frame_at(code, definition_place())
    definition = definition_of(code.co_filename, code.co_firstlineno, code.co_name)
    returns = returns_of(definition) if definition is not None and rule is UnsupportedArgument else []
    span = span_of(returns[0]) if len(returns) == 1 else None
    return (head if span is None else SourceFrame(head.path, head.function, *span),)


def _failing_module(tracer: Tracer, error: BaseException) -> ModuleSite:
    """The call of the innermost module whose forward the exception passed."""
    if tracer._failure is not None and tracer._failure[0] is error:
        return tracer._failure[1]
    return ModuleSite("", type(tracer.root), None, ())


def _closed(graph: Graph, stopped_at: Node | None) -> Graph:
    """The graph with an output: the value that the trace stopped at, or else the last one that it computed."""
    last = next((node for node in reversed(graph.nodes) if node.op != "placeholder"), None)
    graph.output(stopped_at if stopped_at is not None and stopped_at.graph is graph else last)
    return graph


def _guards(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None, tracer: Tracer
) -> tuple[Guard, ...]:
    """The inputs that were fixed to values; those of which `PH` is a part are inputs still."""
    if not concrete_args:
        return ()
    code = _traced_code(root, tracer)
    return tuple(
        Guard(name, value, None if code is None else frame_at(code, parameter_place(code, name)))
        for name, value in concrete_args.items()
        if not any(isinstance(leaf, PHBase) for leaf in pytree.tree_leaves(value))
    )
