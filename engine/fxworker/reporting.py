"""From the engine's types to the protocol's: the one place that knows both.

Origins and locations are made once for each distinct one and shared, as the protocol writes them once. A problem lies
in the edited file wherever a user frame of it exists, and its message is one line in the user's own words.
"""

import ast
import inspect
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from torch.nn import Module

from fxengine.capturing.dimensions import Dimension, misfit
from fxengine.classification import moments_of
from fxengine.errors import RULES, Rule
from fxengine.exploration import Guard as EngineGuard
from fxengine.exploration import TracingProblem
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.profiling.results import Place, ProfileResult
from fxengine.provenance import written
from fxengine.source import Handed, SourceFrame, is_user_file
from fxengine.source import Origin as EngineOrigin
from fxengine.syntax import Span as SyntaxSpan
from fxengine.syntax import definition_of, nodes_around, parameter_span
from fxworker import forgotten, sandbox, slips, spans
from fxworker.batches import BatchSpreadError
from fxworker.building import Unbuilt
from fxworker.executing import Failure, Missing, NotAssignedError, NotExecutedError
from fxworker.kinds import mistaken
from fxworker.offers import offers
from fxworker.offline import NO_NETWORK
from fxworker.printing import contents, described, detail, in_eager_words, one_line, shortened, tensor_info, value_of
from fxworker.reparsing import first_line
from fxworker.rules import ConstructionFailed, ImportFailed, InputsUnknown, NoConstruction, ShapesDoNotFit, TimedOut
from fxworker.slicing import Refused
from fxworker.wire import (
    MADE_HERE,
    Edit,
    Fix,
    Frame,
    Guard,
    Inputs,
    Location,
    Misfit,
    NodeInfo,
    Origin,
    Problem,
    ProfileRow,
    Related,
    Returned,
    Severity,
    Size,
    Span,
    TargetReport,
    TraceTarget,
)

_FORBIDDEN: Final = {
    "files": "lets it write to temporary folders only",
    "network": "keeps it from the network",
}

_LONGEST_WAY: Final = 12
"""Places on the way of a value that are shown: where it comes from, and the last ones."""

_LONGEST_GIVEN: Final = 40
"""Characters of an expression that is quoted beside others."""


class Reporter:
    """Makes the parts of one report. Keeps what it made, so that equal origins are one object."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._frames: dict[SourceFrame, Frame] = {}
        self._origins: dict[EngineOrigin, Origin] = {}

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the edited file."""
        return self.text.split("\n")

    def origin(self, origin: EngineOrigin | None) -> Origin | None:
        """Return an origin in the protocol's form."""
        if origin is None:
            return None
        made = self._origins.get(origin)
        if made is None:
            module_type = origin.module_type.__qualname__ if origin.module_type is not None else ""
            frames = tuple(self.frame(each) for each in origin.frames)
            made = self._origins[origin] = Origin(frames, origin.module_path, module_type)
        return made

    def frame(self, frame: SourceFrame) -> Frame:
        """Return a user frame in the protocol's form."""
        made = self._frames.get(frame)
        if made is None:
            made = self._frames[frame] = Frame(frame.function, Location(frame.path, _span(frame)))
        return made

    def nodes(self, graph: Graph, lines: dict[Node, int]) -> tuple[NodeInfo, ...]:
        """Return the nodes of a graph; `lines` are those of the generated code."""
        every = list(graph.nodes)
        index = {node: number for number, node in enumerate(every)}
        return tuple(self._node(node, number, index, lines.get(node)) for number, node in enumerate(every))

    def _node(self, node: Node, number: int, index: dict[Node, int], line: int | None) -> NodeInfo:
        inputs = tuple(index[each] for each in node.all_input_nodes if each in index)
        users = tuple(index[each] for each in node.users if each in index)
        return NodeInfo(
            number,
            node.name,
            node.op,
            node._pretty_print_target(node.target),
            shortened(repr(node.args)),
            shortened(repr(node.kwargs)) if node.kwargs else "{}",
            inputs,
            users,
            tensor_info(node.tensor),
            value_of(node),
            self.origin(node.origin),
            line,
        )

    def returned(self, handed: Iterable[Handed]) -> Iterator[Returned]:
        """Yield what calls in the edited file have returned that is no single tensor, with the shapes in it."""
        for site, result in handed:
            caller = site.caller
            value = contents(result) if caller is not None and caller.path == self.path else None
            if caller is not None and value is not None:
                yield Returned(self.frame(caller).location, value)

    def problem(
        self,
        rule: type[Rule],
        message: str,
        location: Location,
        *,
        severity: Severity = "error",
        target: str = "",
        explanation: str = "",
        hint: str = "",
        original: str = "",
        related: Iterable[Related] = (),
    ) -> Problem:
        """Return a problem of executing or building."""
        return Problem(
            rule.code,
            severity,
            one_line(message),
            location,
            explanation=explanation,
            hint=hint,
            original=original,
            target=target,
            related=tuple(related),
        )

    def import_failed(self, failure: Failure, others: Sequence[Failure] = ()) -> Problem:
        """Return the problem of a statement that raised when the file was executed, and of others that did likewise."""
        error = failure.error
        if isinstance(error, NotExecutedError):
            return self._not_executed(error.refused, failure)
        if isinstance(error, NotAssignedError):
            return self._not_assigned(error.refused, failure)
        if failure.statement is None:
            return self._unreadable(error)
        frames = user_frames(error)
        location = self._innermost_here(frames) or self._at(failure.statement.node)
        if isinstance(failure.statement.node, ast.Import | ast.ImportFrom):
            # Tracebacks end an import statement where its name begins; all of it is at fault.
            location = self._at(failure.statement.node)
        problem = self.problem(
            ImportFailed,
            described(error),
            location,
            explanation=_instead(failure, "the models below that need it were not traced"),
            original=described(error),
            related=self._elsewhere(error, frames),
        )
        node, binds = failure.statement.node, failure.statement.binds
        needed = [(each.name, each.binder) for each in failure.uses] or [(name, node) for name in sorted(binds)]
        fixes = tuple(fix for name, binder in needed for fix in offers(self.path, name, binder, None))
        uses = [Related(self._at(each.use), f"`{each.name}` depends on it") for each in failure.uses]
        uses += [Related(self._at(each.statement.node), "fails likewise") for each in others if each.statement]
        problem = forgotten.told(problem, error) or replace(_explained(problem, error), fixes=fixes)
        return replace(problem, related=(*problem.related, *uses))

    def _not_executed(self, refused: Refused, failure: Failure) -> Problem:
        """Return the problem of something that a definition needs of a statement that is not executed."""
        statement, name = self._at(refused.statement), refused.name
        how = "is assigned by" if refused.binder is refused.statement else "depends on"
        return replace(
            self.problem(
                ImportFailed,
                f"`{name}` {how} line {statement.span.line}, which is not executed since {refused.cost}",
                self._at(refused.use),
                severity="warning",
                explanation=_instead(failure, "models that need it while they are built were not traced"),
                hint=f"say what it is above the assignment, `# fx: {name} = …`, or execute it: `# fx: run`",
                related=[Related(statement, f"not executed: {refused.cost}")],
            ),
            fixes=tuple(offers(self.path, name, refused.binder, refused.statement)),
        )

    def _not_assigned(self, refused: Refused, failure: Failure) -> Problem:
        """Return the problem of something that a definition needs, and that is assigned in branches not taken."""
        line = refused.statement.lineno
        return self.problem(
            ImportFailed,
            f"`{refused.name}` depends on line {line}, and none of the branches that are taken there assigns it",
            self._at(refused.use),
            severity="information",
            explanation=_instead(failure, ""),
            related=[Related(self._at(refused.statement), "not assigned here")],
        )

    def _unreadable(self, error: BaseException) -> Problem:
        """Return the problem of a text that is no Python program."""
        if isinstance(error, SyntaxError):
            message, span = f"syntax error: {error.msg}", spans.of_syntax_error(error, self.text)
        else:
            message, span = described(error), Span(1, 0, 1, 0)
        return self.problem(ImportFailed, message, Location(self.path, span), original=described(error))

    def not_installed(self, missing: Missing, others: Sequence[Missing] = ()) -> Problem:
        """Return the problem of an import that fails and was left out, or made with something that stands in for it.

        The same import may want others, too.
        """
        error = missing.error
        more = ", ".join(f"`{each.name}`" for each in others)
        if error is not None and not missing.is_caught:
            return self.problem(
                ImportFailed,
                f"{described(error)}; nor is there {more}" if more else described(error),
                self._at(missing.node),
                explanation="models were traced without it: its base classes are taken for `nn.Module`, and what a"
                " model makes of it for single steps of the graph, whose shapes are not known",
                original=described(error),
                related=self._elsewhere(error, user_frames(error)),
            )
        does_without = (
            "what is imported here does without; models that need it were traced with single steps of the graph in its"
            " place, whose shapes are not known"
        )
        return self.problem(
            ImportFailed,
            f"`{missing.name}` {f'and {more} are' if more else 'is'} not installed in this Python",
            self._at(missing.node),
            severity="warning" if error is None else "information",
            explanation="no model of this file needs it, so they are traced without it"
            if error is None
            else does_without,
            related=() if error is None else self._elsewhere(error, user_frames(error)),
        )

    def not_built(self, target: TraceTarget, unbuilt: Unbuilt) -> Problem:
        """Return the problem of a target that could not be built."""
        if unbuilt.unknown:
            return self._no_way(target, unbuilt)
        error = unbuilt.error
        assert error is not None
        frames = user_frames(error)
        location = self._innermost_here(frames)
        construct = unbuilt.construct
        related = self._elsewhere(error, frames)
        if construct is not None and construct.location is not None:
            if location is None:
                location = construct.location
            else:
                related = (*related, Related(construct.location, f"built as `{construct.expression}`"))
        way = f"`{construct.expression}`" if construct is not None else f"`{target.qualname}`"
        problem = self.problem(
            ConstructionFailed,
            f"{way} cannot be built: {described(error)}",
            location or Location(self.path, target.name),
            target=target.qualname,
            original=described(error),
            related=related,
        )
        return slips.told(_explained(problem, error), error, self.path, self.lines)

    def _no_way(self, target: TraceTarget, unbuilt: Unbuilt) -> Problem:
        explanation = ""
        if unbuilt.tried and unbuilt.error is not None:
            explanation = f"tried `{unbuilt.tried}`: {one_line(described(unbuilt.error))}"
        names = ", ".join(unbuilt.missing)
        problem = self.problem(
            NoConstruction,
            f"no arguments are known for `{target.callee}({names})`",
            Location(self.path, target.name),
            severity="information",
            target=target.qualname,
            explanation=explanation,
            hint=f"say how it is built in a comment above the class: `# fx: {target.callee}(…)`",
        )
        return replace(problem, fixes=self.construction(target, unbuilt.tried))

    def construction(self, target: TraceTarget, tried: str) -> tuple[Fix, ...]:
        """Return the insertion of the construction that came furthest, for a person to mend; none where none was."""
        if not tried.startswith(f"{target.callee}(") or tried == f"{target.callee}()":
            return ()
        return self._directive(target, tried, f"Say how {target.qualname} is built")

    def tracing_problem(self, problem: TracingProblem, target: TraceTarget) -> Problem:
        """Return a problem of tracing, at the place in the edited file that led to it."""
        place = problem.anchor or problem.site
        if place is not None and place.path == self.path:
            location = self.frame(place).location
        else:
            own = next((frame for frame in reversed(problem.frames) if frame.path == self.path), place)
            location = self.frame(own).location if own is not None else Location(self.path, target.name)
        site = problem.site
        here = self.frame(site).location if site is not None else location
        # A way that ends at the expression itself says of its last step what the message says already.
        way = problem.provenance
        if way and way[-1].frame is not None and self.frame(way[-1].frame).location == here:
            way = way[:-1]
        related = _shortened(Related(self.frame(step.frame).location, step.text) for step in way if step.frame)
        headline = problem.headline
        if site is not None and here != location:
            related.extend(self._calls(problem, location, here))
            related.append(Related(here, f"it happens here, in `{site.function}`"))
            if here.path != location.path:
                headline = f"{headline}, in `{site.function}` ({os.path.basename(here.path)}:{here.span.line})"
        frames = tuple(self.frame(each) for each in problem.frames)
        module_type = problem.module_type.__qualname__ if problem.module_type is not None else ""
        stops = problem.rule in RULES
        decided = stops and problem.kind == "metadata" and bool(problem.value)
        found = Problem(
            problem.code,
            "warning" if decided else problem.severity or problem.rule.severity,
            one_line(headline),
            location,
            explanation=" → ".join(step.text for step in way),
            hint="\n".join(problem.hints),
            original=f"{type(problem.exception).__name__}: {problem.message}" if stops else "",
            target=target.qualname,
            kind=problem.kind,
            value=problem.value,
            instances=problem.instances,
            origin=Origin(frames, problem.module_path, module_type),
            related=tuple(related),
        )
        if problem.exception is None:
            return found
        return slips.told(_explained(found, problem.exception), problem.exception, self.path, self.lines)

    def _calls(self, problem: TracingProblem, start: Location, end: Location) -> Iterator[Related]:
        """Yield the calls that lead from a place of the edited file into the library where a problem lies."""
        places = [self.frame(frame).location for frame in problem.frames]
        begun = places.index(start) + 1 if start in places else len(places)
        for frame, place in zip(problem.frames[begun:-1], places[begun:-1], strict=True):
            if place != end:
                yield Related(place, f"called here, in `{frame.function}`")

    def shape_problem(self, failure: ShapeFailure, inputs: Inputs, target: str, root: Module) -> Problem:
        """Return the problem of a node of `root`'s graph on which the inputs that somebody wrote down do not fit."""
        origin = self.origin(failure.node.origin)
        frames = origin.frames if origin is not None else ()
        here = next((frame.location for frame in reversed(frames) if frame.location.path == self.path), None)
        location = here or (frames[-1].location if frames else Location(self.path, Span(1, 0, 1, 0)))
        # What is one node though it runs code of this file, as what could not be traced does, fails further in.
        inside = self._innermost_here(user_frames(failure.error))
        given = ", ".join(_given(failure)) if inside is None else ""
        related = [] if inside is None else [Related(location, "called here")]
        location = inside or location
        related += [Related(inputs.location, f"fed with `{inputs.expression}`")] if inputs.location is not None else []
        runs = isinstance(failure.error, BatchSpreadError)
        sizes = misfit(failure.node, root)
        related += [
            Related(self.frame(each.frame).location, f"{each.size} is {each.meaning}") for each in sizes if each.frame
        ]
        explanation = "; ".join(map(str, sizes))
        mistake = mistaken(failure, root)
        made = None if mistake is None or mistake.frame is None else self.frame(mistake.frame).location
        related[:0] = [] if made is None else [Related(made, MADE_HERE)]
        problem = self.problem(
            ShapesDoNotFit,
            mistake.message if mistake is not None else f"does not fit: {in_eager_words(detail(failure.error))}",
            location,
            target=target,
            explanation=f"with {given}{'; ' if explanation else ''}{explanation}" if given else explanation,
            original="" if runs else described(failure.error),
            severity="warning" if runs else "error",
            related=related,
        )
        return replace(
            problem,
            origin=origin,
            misfit=self._misfit(failure, sizes) if inside is None else None,
            slip=slips.slip_of(mistake, made),
        )

    def _misfit(self, failure: ShapeFailure, sizes: tuple[Dimension, ...]) -> Misfit:
        """Return what meets at a node that failed, with the two sizes that differ."""
        tensors = [each.tensor for each in failure.node.all_input_nodes if each.tensor is not None]
        shapes = tuple(tuple(map(int, each.shape)) for each in tensors)
        at_layer = bool(sizes) and failure.node.op == "call_module"
        return Misfit(shapes, tuple(map(self._size, sizes)), at_layer)

    def _size(self, dimension: Dimension) -> Size:
        layer = dimension.built
        if layer is None or layer.held is not None or dimension.frame is None:
            return Size(dimension.size)
        built = self.frame(dimension.frame).location
        return Size(dimension.size, layer.argument, layer.index, layer.flattened, built)

    def unfed(self, target: TraceTarget, root: Any, parameters: Sequence[str], guess: str, complaint: str) -> Problem:
        """Return the problem of a target for which no inputs were found.

        Args:
            target: The target.
            root: The model, or function.
            parameters: What no input was found for.
            guess: The inputs with which it came furthest, as an argument list.
            complaint: What it said then.
        """
        function = inspect.unwrap(getattr(type(root), "forward", root))
        code = getattr(function, "__code__", None)
        definition = (
            definition_of(self.path, code.co_firstlineno, code.co_name)
            if code is not None and code.co_filename == self.path
            else None
        )
        found = [parameter_span(definition, name) for name in parameters] if definition is not None else []
        span = next((Span(*each) for each in found if each is not None), target.name)
        names = ", ".join(f"`{name}`" for name in parameters)
        problem = self.problem(
            InputsUnknown,
            f"no example of {names or 'the inputs'} is known with which `{target.qualname}` runs",
            Location(self.path, span),
            severity="information",
            target=target.qualname,
            explanation=f"tried `{guess}`: {complaint}" if guess and complaint else complaint,
            hint=f"say what it is fed in a comment above it: `# fx: inputs {guess or '…'}`",
        )
        if not guess:
            return problem
        return replace(problem, fixes=self._directive(target, f"inputs {guess}", f"Say how {target.qualname} is fed"))

    def _directive(self, target: TraceTarget, text: str, title: str) -> tuple[Fix, ...]:
        """Return the insertion of a directive above a target, for a person to mend."""
        name = target.name
        around = nodes_around(self.path, SyntaxSpan(name.line, name.column, name.end_line, name.end_column))
        definitions = [each for each in around if isinstance(each, ast.ClassDef | ast.FunctionDef)]
        owner = definitions[-1] if definitions else None
        if owner is None or owner.lineno != name.line:
            return ()
        line = first_line(owner)
        place = Location(self.path, Span(line, 0, line, 0))
        edit = Edit(place, f"{' ' * owner.col_offset}# fx: {text}\n")
        return (Fix(f"{title}: # fx: {text}", (edit,), verified=False),)

    def not_run(self, target: TraceTarget, error: BaseException) -> Problem:
        """Return the problem of a model that raised when it ran on real data."""
        frames = user_frames(error)
        location = self._innermost_here(frames) or Location(self.path, target.name)
        return self.problem(
            ShapesDoNotFit,
            f"`{target.qualname}` does not run: {detail(error)}",
            location,
            target=target.qualname,
            original=described(error),
            related=self._elsewhere(error, frames),
        )

    def guards(self, guards: Iterable[EngineGuard]) -> tuple[Guard, ...]:
        """Return what a graph was specialised on."""
        return tuple(
            Guard(each.expression, shortened(repr(each.value)), self.frame(each.frame).location if each.frame else None)
            for each in guards
        )

    def of_static(self, problem: Problem) -> Problem:
        """Return what is told of a model with a static `forward`, of which torch.fx traces something else."""
        return replace(
            problem,
            message="torch.fx hands a static `forward` the module itself as its first argument",
            severity="information",
            explanation="as a part of another model it is traced as it is meant",
            hint="make it a method, `def forward(self, …)`, to trace it by itself",
        )

    def without_forward(self, problem: Problem, cls: type[Module]) -> Problem:
        """Return what is told of a model that has no `forward`, at the method that is probably meant to be it."""
        return slips.without_forward(problem, cls, self.path, self.lines)

    def profile_rows(self, result: ProfileResult) -> tuple[ProfileRow, ...]:
        """Return the measured nodes."""
        return tuple(
            ProfileRow(
                each.name,
                _location(each.place),
                each.timing.seconds,
                each.timing.error,
                each.share,
                float(each.flops),
                float(each.bytes),
            )
            for each in result.nodes
        )

    def _at(self, node: ast.AST) -> Location:
        return Location(self.path, spans.of_node(node))

    def _innermost_here(self, frames: Sequence[SourceFrame]) -> Location | None:
        """Return the innermost place of the edited file among frames, outermost first."""
        here = next((frame for frame in reversed(frames) if frame.path == self.path), None)
        return None if here is None else self.frame(here).location

    def _elsewhere(self, error: BaseException, frames: Sequence[SourceFrame]) -> tuple[Related, ...]:
        """Return where an error came from, when that is a line of another file of the user's."""
        if isinstance(error, SyntaxError) and error.filename and error.filename != self.path:
            line = error.lineno or 1
            return (Related(Location(os.path.abspath(error.filename), Span(line, 0, line, 0)), "the syntax error"),)
        if not frames or frames[-1].path == self.path or not os.path.isabs(frames[-1].path):
            return ()
        return (Related(self.frame(frames[-1]).location, f"raised here, in `{frames[-1].function}`"),)

    def out_of_time(self, target: TraceTarget, message: str) -> Problem:
        """Return the problem of targets, this and maybe others, for which not everything could be done in time."""
        return self.problem(
            TimedOut,
            message,
            Location(self.path, target.name),
            severity="information",
            target=target.qualname,
            hint="if it needs longer, raise `fxls.trace.timeout`",
        )

    def untraced(self, target: TraceTarget, problems: Iterable[Problem] = ()) -> TargetReport:
        """Return the report of a target without a graph."""
        return TargetReport(target.qualname, target.kind, target.name, "not traced", problems=tuple(problems))


def user_frames(error: BaseException) -> list[SourceFrame]:
    """Return the user frames that an exception passed, outermost first."""
    return [each.source for each in moments_of(error.__traceback__) if is_user_file(each.path)]


def _instead(failure: Failure, otherwise: str) -> str:
    """Return with what models were built in place of what a failure left unknown, or what became of them otherwise."""
    said = ", ".join(f"`{name} = {value}`" for name, value in failure.assumed.items())
    return f"models that need it while they are built get {said}, a guess" if said else otherwise


def _explained(problem: Problem, error: BaseException) -> Problem:
    """Return a problem with what the sandbox, or the closed network, had to do with it."""
    if any(isinstance(each, ConnectionRefusedError) and each.args == (NO_NETWORK,) for each in sandbox.chain(error)):
        hint = "no setting opens the network: let it read a local copy, or do without"
        return replace(problem, severity="warning", hint=hint)
    what = sandbox.forbade(error)
    if not what:
        return problem
    return replace(
        problem,
        message=one_line(f"{problem.message}: the sandbox {_FORBIDDEN[what]}"),
        hint="a file that you edit is traced without the sandbox; or set `fxls.sandbox` to `off`",
    )


def _given(failure: ShapeFailure) -> Iterator[str]:
    """Yield what a node was given, as the code calls it where that is short: `self.norm(x)`: f32[2, 8]."""
    for node, (name, value) in zip(failure.node.all_input_nodes, failure.inputs, strict=False):
        text = written(node)
        shown = name if len(text) > _LONGEST_GIVEN or text == written(failure.node) else text
        yield f"{shown if shown.isidentifier() else f'`{shown}`'}: {value}"


def _span(frame: SourceFrame) -> Span:
    return Span(frame.line, frame.column, frame.end_line, frame.end_column)


def _location(place: Place | None) -> Location | None:
    if place is None:
        return None
    return Location(place.path, Span(place.line, place.column, place.end_line, place.end_column))


def _shortened(way: Iterable[Related]) -> list[Related]:
    """Return the way of a value without the places that it comes by again, as of a block that is called many times."""
    last = {each.location: each for each in reversed([*way])}
    places = [*reversed(last.values())]
    return places if len(places) <= _LONGEST_WAY else [places[0], *places[-_LONGEST_WAY + 1 :]]
