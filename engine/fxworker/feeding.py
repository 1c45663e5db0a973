"""Example inputs for a traced model, and what they tell: the shapes of its values, and what a call of it costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import nn

from fxengine._lazy_graph_module import (
    _LazyGraphModule as LazyGraphModule,  # pyright: ignore[reportPrivateUsage] — torch.fx's name for it.
)
from fxengine.capturing.dimensions import frame_of
from fxengine.classification import moments_of
from fxengine.diagnosis import TracingProblem
from fxengine.errors import (
    DynamicBool,
    DynamicIteration,
    DynamicLength,
    DynamicNumber,
    ForeignCall,
    Rule,
    text_of,
)
from fxengine.exploration import Diagnosis
from fxengine.graph_module import GraphModule
from fxengine.inputs import InferredInputs, infer_inputs
from fxengine.inputs.faults import is_of_layout
from fxengine.passes.cost import model_cost, shapes_and_costs
from fxengine.passes.shape_prop import ShapeFailure, ShapeReport
from fxengine.profiling.measuring import bind_placeholders
from fxengine.shapes_only import needs_data
from fxengine.source import SourceFrame, is_user_file
from fxworker.accidents import by_accident
from fxworker.argument_lists import Arguments
from fxworker.batches import spread
from fxworker.building import Built
from fxworker.compiling import eagerly
from fxworker.failing import (
    evaluating,
    failing_with,
    failure_of,
    failure_with,
    is_taken_otherwise,
    never_agree,
    nodes_behind,
)
from fxworker.finder import PATIENCE, SECONDS, Finder, Sources, Unknown
from fxworker.fitting import fit, fit_to, is_of_inputs
from fxworker.kinds import mistaken
from fxworker.never import Hopeless, Search
from fxworker.patience import OutOfPatience, patience
from fxworker.printing import shortened
from fxworker.wire import Construct, Inputs, Provenance

SAID: Final = frozenset[Provenance]({"directive", "configuration", "call"})
"""Where inputs come from that somebody wrote down: if they do not fit, that is a problem of the model or of them."""

_ASK_SHAPES: Final = frozenset[type[Rule]]({DynamicBool, DynamicLength, DynamicNumber})
"""Questions that stop a trace, and that shapes answer."""

_OF_SYMBOLS: Final = _ASK_SHAPES | {DynamicIteration, ForeignCall}
"""What stops a trace for its symbolic values: the model itself, if it stops there, does so for another reason."""

_LONGEST_PLACE: Final = 60
"""Characters of an expression that is quoted."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What inputs told. The graph's nodes have their shapes.

    Attributes:
        inputs: The inputs, None where none were found.
        flops: The floating point operations of a call, None where it did not run to its end.
        failures: The nodes on which inputs that somebody wrote down do not fit, or no inputs would.
        searched: Whether inputs were searched for in vain.
        feared: Whether guessed inputs took too long.
        unknown: What is told of a search in vain.
        in_vain: What a search that was made now came to, where that is nothing.
        is_unfit: Whether the model, built with arguments that nobody wrote down, refuses inputs that somebody did.
        ran_on: The inputs that it ran on before it was edited, where it does not now.
        outgrown: Where it fails on these, where others are found: unless it is a layer that takes another size of them.
    """

    inputs: Inputs | None = None
    flops: int | None = None
    failures: tuple[ShapeFailure, ...] = ()
    searched: bool = False
    feared: bool = False
    unknown: Unknown | None = None
    in_vain: InferredInputs | None = None
    is_unfit: bool = False
    ran_on: str = ""
    outgrown: ShapeFailure | None = None

    @property
    def wants_other_arguments(self) -> bool:
        """Whether there may be inputs for the model, or it may take those that there are, if it is built otherwise."""
        return self.in_vain is not None or self.is_unfit


@dataclass(frozen=True, slots=True)
class _Ran:
    """What a model itself did with inputs: it ran, and what that costs, or what it raised."""

    flops: int | None = None
    error: Exception | None = None

    def agrees(self, failure: ShapeFailure) -> bool:
        """Whether a node of the graph fails where the model does, or with the same words; or nobody knows.

        What a model has got past before it asks for data, it does without fault: its graph has gone another way there.
        """
        error = self.error
        if error is None:
            return False
        met = [each.source for each in moments_of(error.__traceback__)]
        if needs_data(error):
            return not _is_past(failure, [each for each in met if is_user_file(each.path)])
        if type(error) is type(failure.error) and text_of(error) == text_of(failure.error):
            return True
        place = frame_of(failure.node)
        return place is not None and any(each.path == place.path and each.line == place.line for each in met)


@dataclass(frozen=True, slots=True)
class Feeder:
    """Finds inputs for one traced model and runs its graph on them.

    Attributes:
        sources: Where inputs may come from.
        finder: What has looked for them while the model was traced, if anything had to.
        diagnosis: The trace.
    """

    sources: Sources
    finder: Finder
    diagnosis: Diagnosis

    def feed(self) -> Fed:
        """Return what inputs tell; nothing where none are found. Never raises."""
        try:
            with eagerly():
                # Its nodes are run one by one: nobody asks for its code.
                module = LazyGraphModule(self.diagnosis.root, self.diagnosis.graph)
                return self._said(module) or self._guessed(module)
        except BaseException:  # noqa: BLE001 — User code runs on inputs that need not fit; then nothing is known.
            return Fed()

    def fit(self, built: Built, fed: Fed, seconds: float) -> tuple[Construct | None, str]:
        """Return another way to build a model that cannot be fed as it is, with inputs for it where nobody wrote any.

        Never raises.
        """
        sources = self.sources
        is_said = any(inputs.source in SAID for inputs in sources.target.inputs)
        if is_said and not (fed.is_unfit and fed.inputs is not None):
            return None, ""
        failures = fed.in_vain.failures[:1] if fed.in_vain is not None else ()
        if not all(is_of_inputs(each.error) for each in failures) or not sources.on_guess():
            return None, ""
        try:
            with eagerly(), patience(PATIENCE + seconds):
                if fed.is_unfit and fed.inputs is not None:
                    arguments = sources.arguments(fed.inputs.expression)
                    return fit_to(sources.target, sources.loaded, built, arguments, seconds), ""
                fitted = fit(sources.target, sources.loaded, built, fed.in_vain, seconds)
                return (fitted.built.construct, fitted.inputs.expression) if fitted is not None else (None, "")
        except BaseException:  # noqa: BLE001 — As above.
            return None, ""

    def _said(self, module: GraphModule) -> Fed | None:
        """Feed what somebody wrote down, or what is found in the file."""
        for inputs in self.sources.target.inputs:
            fed = self._try(module, inputs)
            if fed is not None:
                return fed
        return None

    def _guessed(self, module: GraphModule) -> Fed:
        hint = self.sources.hint
        if not (hint or self.sources.search):
            return self._told_before(module)
        if not self.sources.on_guess():
            return self._feared()
        try:
            with patience(PATIENCE), evaluating(self.sources.root):
                fed = self._try(module, Inputs(hint, "inferred")) if hint else None
                return fed or self._no_longer(module, self._searched(module))
        except BaseException:  # noqa: BLE001 — User code runs on inputs that need not fit: it may exit, or take too long.
            return self._feared()

    def _feared(self) -> Fed:
        """Return what is told of a model of which nothing is guessed, as a guess took too long or ended the process."""
        inputs = (node for node in self.diagnosis.graph.nodes if node.op == "placeholder" and not node.args)
        names = tuple(str(node.target) for node in inputs)
        return Fed(
            feared=True,
            unknown=Unknown(names, "", f"a search for one takes longer than {PATIENCE:g} s, or ends the process"),
        )

    def _searched(self, module: GraphModule) -> Fed:
        found = self.finder.found
        if not self.sources.search or (self.finder.in_vain and found is None):
            return self._told_before(module)
        found = found or infer_inputs(self.sources.root, self.diagnosis.graph, budget_s=SECONDS)
        if not found.usable:
            return self._in_vain(module, found)
        search = self._search(module, found)
        hidden = None if found.complete else search.of_kind()
        hidden = hidden or (search.hidden() if found.failures else None)
        if hidden is None:
            left_out = self._left_out(module, found)
            found = self._fuller(module, found, left_out) if left_out else found
            tied = by_accident(self._search(module, found))
            if isinstance(tied, Hopeless):
                hidden = tied
            elif tied is not None:
                # Other trials have left their shapes at the nodes.
                found = tied
                self._left_out(module, found)
        if hidden is not None:
            unknown = Unknown(tuple(found.recipes), hidden.guess, text_of(hidden.failure.error), never=True)
            return Fed(searched=True, unknown=unknown, failures=(hidden.failure,))
        return Fed(Inputs(found.expression, "inferred"), self._run((found.args, found.kwargs)).flops)

    def _in_vain(self, module: GraphModule, found: InferredInputs) -> Fed:
        """Return what a search that found nothing has found out."""
        told = self._told_where_it_stops(found)
        if told - _OF_SYMBOLS:
            return Fed(searched=True, in_vain=found)
        unknown = _unknown(found) if told <= _ASK_SHAPES else None
        try:
            search = self._search(module, found)
            hopeless = search.hopeless() or self._captured(search)
        except OutOfPatience:
            hopeless = None  # What the search came to is known all the same.
        if hopeless is None:
            return Fed(searched=True, unknown=unknown, in_vain=found)
        failure = hopeless.failure
        never = unknown or Unknown(tuple(found.recipes), "", text_of(failure.error))
        never = replace(never, never=True, guess=hopeless.guess)
        # Other arguments would only hide it.
        is_found = (
            self.sources.is_of_own_values
            or is_of_layout(failure.error)
            or mistaken(failure, self.sources.root) is not None
            or hopeless.hidden_by_others
        )
        return Fed(searched=True, unknown=never, in_vain=None if is_found else found, failures=(failure,))

    def _told_where_it_stops(self, found: InferredInputs) -> frozenset[type[Rule]]:
        """Return the rules of what is told where the model itself stops, or of what it cannot take there."""
        stopped = found.stopped
        met = [each.source for each in stopped.moments] if stopped is not None else []
        is_of_kinds = stopped is not None and isinstance(stopped.error, TypeError)
        return frozenset(
            problem.rule
            for problem in self.diagnosis.problems
            if stopped is not None and _is_within(stopped.module, problem)
            for place in (problem.site, problem.anchor)
            if place is not None and any(_is_about(place, one, is_of_kinds) for one in met)
        )

    def _captured(self, traced: Search) -> Hopeless | None:
        """Return what a search came to with a capture for the best inputs, which goes on to where the model stops.

        The trace came to where it had to know of inputs, and there were none; or it has gone another way.
        """
        root, found = self.sources.root, traced.found
        failure = failure_with(traced.module, found.args, found.kwargs, root)
        if (failure is not None and traced.stops_at(failure)) or not isinstance(root, nn.Module):
            return None
        captured = failing_with(root, (found.args, found.kwargs))
        search = self._search(captured, found) if captured is not None else None
        hopeless = search.hopeless() if search is not None else None
        return hopeless if search is not None and hopeless is not None and search.stops_at(hopeless.failure) else None

    def _no_longer(self, module: GraphModule, fed: Fed) -> Fed:
        """Return what is told of a model that ran on some inputs before it was edited, and does not now.

        What is to be known of these is where they fail now, if the model itself does so, too.
        """
        hint, unknown = self.sources.hint, fed.unknown
        if not hint or fed.failures:
            return fed
        if fed.inputs is not None:
            return self._outgrown(fed, fed.inputs.expression) if fed.inputs.expression != hint else fed
        if unknown is None:
            return fed
        arguments = self.sources.arguments(hint)
        failure = failure_with(module, *arguments, self.sources.root)
        ran = self._run(arguments)
        if failure is None or failure.needs_data or not ran.agrees(failure):
            failure = self._own_failure(hint, ran)  # The trace has gone another way.
        if failure is None:
            return fed
        told = replace(unknown, guess=hint, complaint=text_of(failure.error))
        return replace(fed, unknown=told, failures=(failure,), ran_on=hint)

    def _outgrown(self, fed: Fed, now: str) -> Fed:
        """Return what is told of a model that runs on other inputs than before it was edited."""
        hint, arguments = self.sources.hint, self.sources.arguments
        before = arguments(hint)
        failure = self._own_failure(hint, self._run(before))
        if failure is None or is_taken_otherwise(failure, self.sources.root, before, arguments(now)):
            return fed
        return replace(fed, ran_on=hint, outgrown=failure)

    def _search(self, module: GraphModule, found: InferredInputs) -> Search:
        """Return what a search came to, to be asked what would fit no inputs."""
        sources = self.sources
        return Search(
            sources.target,
            sources.root,
            sources.loaded,
            module,
            sources.construct,
            sources.way,
            found,
            sources.arguments,
        )

    def _told_before(self, module: GraphModule) -> Fed:
        """Return what an earlier search came to, with the node that fails with any inputs, if that found one."""
        unknown = self.sources.unknown
        if unknown is None or not unknown.never:
            return Fed(searched=True, unknown=unknown)
        root, given = self.sources.root, self.sources.arguments(unknown.guess)
        failure = failure_with(module, *given, root)
        if failure is None and not self.diagnosis.complete and isinstance(root, nn.Module):
            failure = failure_of(root, given)
        return Fed(searched=True, unknown=unknown, failures=() if failure is None else (failure,))

    def _left_out(self, module: GraphModule, found: InferredInputs) -> frozenset[str]:
        """Note the shapes for some inputs, and return the optional ones that are left out and that the graph needs.

        What asks `mask is not None` is told by a symbolic value that it is there, whatever it is by default.
        """
        values = bind_placeholders(module, found.args, found.kwargs, self.sources.root)
        report, _ = shapes_and_costs(module, values)
        return _absent_behind(module, values, report)

    def _fuller(self, module: GraphModule, found: InferredInputs, left_out: frozenset[str]) -> InferredInputs:
        """Return inputs that leave out nothing which the graph needs; those that were found, where there are none.

        What was decided by inputs that were found while the model was traced is to be decided by the others, too.
        """
        graph = self.diagnosis.graph
        fuller = infer_inputs(self.sources.root, graph, budget_s=SECONDS / 2, wanted=left_out)
        is_fitting = fuller.usable and left_out <= fuller.recipes.keys()
        has_decided = self.finder.found is not None
        if is_fitting and (not has_decided or _has_all(fuller, found)) and not self._left_out(module, fuller):
            return fuller
        self._left_out(module, found)
        return found

    def _try(self, module: GraphModule, inputs: Inputs) -> Fed | None:
        """Feed one choice of inputs; None where they cannot be made, or are only inferred and do not fit."""
        try:
            args, kwargs = self.sources.arguments(inputs.expression)
            values = bind_placeholders(module, args, kwargs, self.sources.root)
        except Exception:  # noqa: BLE001 — User code; the next way to feed the model is tried.
            return None
        report, costs = shapes_and_costs(module, values)
        whole = self.diagnosis.complete and report.complete
        ran = _Ran(sum(each.flops for each in costs.values())) if whole else self._run((args, kwargs))
        flops = ran.flops
        if not report.complete and inputs.source == "inferred":
            # What the model itself takes fits, whatever stops its graph; unless the graph wants more than that.
            return None if flops is None or _absent_behind(module, values, report) else Fed(inputs, flops)
        return self._unfit(inputs, ran, report) if inputs.source in SAID else Fed(inputs, flops)

    def _unfit(self, inputs: Inputs, ran: _Ran, report: ShapeReport) -> Fed:
        """Return what is told of inputs that somebody wrote down and that do not go through the graph.

        What stops the graph and not the model comes from the path that the trace took, not from the shapes; where the
        model stops elsewhere, it is no other; and what could not be traced may want data. A model with made-up
        arguments may be fed so if it is built otherwise.
        """
        skipped = self.diagnosis.stand_ins
        failures = [each for each in report.failures if not each.needs_data and each.node not in skipped]
        if not any(map(ran.agrees, failures)):
            is_said = self.sources.construct is None
            if ran.error is None and report.complete and is_said:
                return Fed(inputs, ran.flops, tuple(spread(self.diagnosis.graph)))
            own = self._own_failure(inputs.expression, ran) if is_said else None
            return Fed(inputs, ran.flops, () if own is None else (own,))
        if self.sources.construct is not None and not any(map(self._never_agree, failures)):
            return Fed(inputs, is_unfit=True)
        # What is handed None, as by a part that returns nothing, is told where that is met first.
        empty = [each for each in failures if not each.inputs]
        return Fed(inputs, failures=tuple(each for each in failures if each not in empty[1:]))

    def _own_failure(self, inputs: str, ran: _Ran) -> ShapeFailure | None:
        """Return where the model itself stops with inputs that do not fit, which its graph does not come to."""
        if ran.error is None or needs_data(ran.error) or not isinstance(self.sources.root, nn.Module):
            return None
        failure = failure_of(self.sources.root, self.sources.arguments(inputs))
        return failure if failure is not None and ran.agrees(failure) else None

    def _never_agree(self, failure: ShapeFailure) -> bool:
        sources = self.sources
        return never_agree(failure, sources.root, sources.construct, sources.target, sources.loaded)

    def _run(self, arguments: Arguments) -> _Ran:
        try:
            return _Ran(model_cost(self.sources.root, *arguments).flops)
        except Exception as error:  # noqa: BLE001 — The model itself runs here, and may need data that it was not given.
            return _Ran(error=error)


def _is_about(told: SourceFrame, met: SourceFrame, is_of_kinds: bool) -> bool:
    """Whether what is told at one place is met at another: there, or in what that cannot take, as it is of no kind."""
    contains = told.span.contains(met.span) or (is_of_kinds and met.span.contains(told.span))
    return told.path == met.path and contains


def _is_within(path: str, problem: TracingProblem) -> bool:
    """Whether a module is one in which a problem is met, or a part of such a one."""
    around = (problem.module_path, *problem.instances)
    return any(not each or path == each or path.startswith(f"{each}.") for each in around)


def _is_past(failure: ShapeFailure, stopped: Sequence[SourceFrame]) -> bool:
    """Whether code that stopped in some frames, outermost first, came past the place of a node."""
    origin = failure.node.origin
    for place, other in zip(origin.frames if origin is not None else (), stopped, strict=False):
        if (place.path, place.function) != (other.path, other.function):
            return False
        if place.line != other.line:
            return place.line < other.line
    return False


def _absent_behind(module: GraphModule, values: Sequence[Any], report: ShapeReport) -> frozenset[str]:
    """Return the inputs that are None and that what the graph stops at follows from."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    absent = {node for node, value in zip(placeholders, values, strict=False) if value is None}
    behind = nodes_behind(failure.node for failure in report.failures)
    return frozenset(str(node.target) for node in absent & behind)


def _has_all(inputs: InferredInputs, others: InferredInputs) -> bool:
    """Whether inputs are others with more beside them."""
    return all(
        name in inputs.recipes and inputs.recipes[name].expression == recipe.expression
        for name, recipe in others.recipes.items()
    )


def _unknown(found: InferredInputs) -> Unknown | None:
    """Return what is told of a search in vain, None where it is not for want of inputs that the model does not run."""
    complaint = found.failures[0].error if found.failures else ""
    if not found.recipes or not is_of_inputs(complaint):
        return None
    return Unknown(found.doubtful, found.expression, f"{complaint}{_said_at(found)}")


def _said_at(found: InferredInputs) -> str:
    """Return where in the code the best inputs failed, to be read behind what was said there; "" if that is unknown."""
    moment = next(iter(found.stopped.moments), None) if found.stopped is not None else None
    text = " ".join(moment.source.text.split()) if moment is not None else ""
    return f", at `{shortened(text, _LONGEST_PLACE)}`" if text else ""
