"""Example inputs for a traced model, and what they tell: the shapes of its values, and what a call of it costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fxengine.exploration import Diagnosis
from fxengine.graph_module import GraphModule
from fxengine.inputs import infer_inputs
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.profiling.cost import model_cost, shapes_and_costs
from fxengine.profiling.measuring import bind_placeholders
from fxworker.building import attempt, scope_of
from fxworker.loading import Loaded
from fxworker.wire import Inputs, Provenance, TraceTarget

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

SAID: Final = frozenset[Provenance]({"directive", "configuration", "call"})
"""Where inputs come from that somebody wrote down: if they do not fit, that is a problem of the model or of them."""

_SECONDS: Final = 0.5
"""Seconds that the search for inputs may take."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What inputs told. The graph's nodes have their shapes.

    Attributes:
        inputs: The inputs, None where none were found.
        flops: The floating point operations of a call, None where it did not run to its end.
        failures: The nodes on which inputs that somebody wrote down do not fit.
        searched: Whether inputs were searched for in vain.
    """

    inputs: Inputs | None = None
    flops: int | None = None
    failures: tuple[ShapeFailure, ...] = ()
    searched: bool = False


def feed(target: TraceTarget, root: Any, diagnosis: Diagnosis, loaded: Loaded, hint: str, *, search: bool) -> Fed:
    """Find inputs and run the graph on them for its shapes.

    Args:
        target: What was traced, with the inputs that the request names.
        root: The model.
        diagnosis: Its trace.
        loaded: The file's module, in which inputs are evaluated.
        hint: The inputs that were found in an earlier trace, tried before any are searched for.
        search: Whether to search at all.
    """
    try:
        return _feed(target, root, diagnosis, loaded, hint, search=search)
    except BaseException:  # noqa: BLE001 — User code runs on inputs that need not fit; then nothing is known.
        return Fed(searched=search)


def _feed(target: TraceTarget, root: Any, diagnosis: Diagnosis, loaded: Loaded, hint: str, *, search: bool) -> Fed:
    module = GraphModule(diagnosis.root, diagnosis.graph)
    for inputs, (args, kwargs) in _known(target, loaded, hint):
        try:
            values = bind_placeholders(module, args, kwargs)
        except TypeError:
            continue
        report, costs = shapes_and_costs(module, values)
        if not report.complete and inputs.source == "inferred":
            continue
        failures = tuple(each for each in report.failures if not each.needs_data)
        whole = diagnosis.complete and report.complete
        flops = sum(each.flops for each in costs.values()) if whole else _flops(root, (args, kwargs))
        return Fed(inputs, flops, failures if inputs.source in SAID else ())
    if not search:
        return Fed(searched=True)
    inferred = infer_inputs(root, diagnosis.graph, budget_s=_SECONDS)
    if not inferred.complete:
        return Fed(searched=True)
    shapes_and_costs(module, bind_placeholders(module, inferred.args, inferred.kwargs))
    return Fed(Inputs(inferred.expression, "inferred"), _flops(root, (inferred.args, inferred.kwargs)))


def arguments_of(expression: str, scope: dict[str, Any]) -> Arguments:
    """Return the real arguments that an argument list makes.

    Raises:
        BaseException: Whatever the expression raises.
    """
    code = compile(f"__fxls_call__({expression})", "<inputs>", "eval")
    return eval(code, {**scope, "__fxls_call__": lambda *args, **kwargs: (args, kwargs)})  # noqa: S307 — The person's own.


def _known(target: TraceTarget, loaded: Loaded, hint: str) -> Iterator[tuple[Inputs, Arguments]]:
    """Yield the inputs that need not be searched for, and can be made."""
    scope = scope_of(loaded)
    for inputs in (*target.inputs, *((Inputs(hint, "inferred"),) if hint else ())):
        try:
            arguments = attempt(lambda expression=inputs.expression: arguments_of(expression, scope))
        except BaseException:  # noqa: BLE001, S112 — User code; the next way to feed the model is tried.
            continue
        yield inputs, arguments


def _flops(root: Any, arguments: Arguments) -> int | None:
    try:
        return model_cost(root, *arguments).flops
    except Exception:  # noqa: BLE001 — The model itself runs here, and may need data that it was not given.
        return None
