"""Example inputs for a traced model, and what they tell: the shapes of its values, and what a call of it costs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from fxengine._lazy_graph_module import (
    _LazyGraphModule as LazyGraphModule,  # pyright: ignore[reportPrivateUsage] — torch.fx's name for it.
)
from fxengine.exploration import Diagnosis
from fxengine.graph_module import GraphModule
from fxengine.inputs import infer_inputs
from fxengine.passes.cost import model_cost, shapes_and_costs
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.profiling.measuring import bind_placeholders
from fxworker.building import attempt, scope_of
from fxworker.loading import Loaded
from fxworker.patience import OutOfPatience, patience
from fxworker.wire import Inputs, Provenance, TraceTarget

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

SAID: Final = frozenset[Provenance]({"directive", "configuration", "call"})
"""Where inputs come from that somebody wrote down: if they do not fit, that is a problem of the model or of them."""

_SECONDS: Final = 0.5
"""Seconds after which the search for inputs tries no more."""

_PATIENCE: Final = 2.0
"""Seconds after which a guess is given up where it is."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What inputs told. The graph's nodes have their shapes.

    Attributes:
        inputs: The inputs, None where none were found.
        flops: The floating point operations of a call, None where it did not run to its end.
        failures: The nodes on which inputs that somebody wrote down do not fit.
        searched: Whether inputs were searched for in vain.
        feared: Whether guessed inputs took too long.
    """

    inputs: Inputs | None = None
    flops: int | None = None
    failures: tuple[ShapeFailure, ...] = ()
    searched: bool = False
    feared: bool = False


@dataclass(frozen=True, slots=True)
class Feeder:
    """Finds inputs for one traced model and runs its graph on them.

    Attributes:
        target: What was traced, with the inputs that the request names.
        root: The model.
        diagnosis: Its trace.
        loaded: The file's module, in which inputs are evaluated.
        hint: The inputs that were found in an earlier trace, tried before any are searched for.
        on_guess: Is told before inputs are tried that nobody wrote down, and may forbid it by returning False.
        search: Whether to search at all.
    """

    target: TraceTarget
    root: Any
    diagnosis: Diagnosis
    loaded: Loaded
    hint: str
    on_guess: Callable[[], bool]
    search: bool

    def feed(self) -> Fed:
        """Return what inputs tell; nothing where none are found. Never raises."""
        try:
            # What user code compiles is run as it is: compiling takes longer than anything else here.
            with torch.compiler.set_stance("force_eager"):
                # Its nodes are run one by one: nobody asks for its code.
                module = LazyGraphModule(self.diagnosis.root, self.diagnosis.graph)
                return self._said(module) or self._guessed(module)
        except BaseException:  # noqa: BLE001 — User code runs on inputs that need not fit; then nothing is known.
            return Fed()

    def _said(self, module: GraphModule) -> Fed | None:
        """Feed what somebody wrote down, or what is found in the file."""
        for inputs in self.target.inputs:
            fed = self._try(module, inputs)
            if fed is not None:
                return fed
        return None

    def _guessed(self, module: GraphModule) -> Fed:
        if not (self.hint or self.search):
            return Fed(searched=True)
        if not self.on_guess():
            return Fed(feared=True)
        try:
            with patience(_PATIENCE):
                fed = self._try(module, Inputs(self.hint, "inferred")) if self.hint else None
                return fed or self._searched(module)
        except OutOfPatience:
            return Fed(feared=True)

    def _searched(self, module: GraphModule) -> Fed:
        if not self.search:
            return Fed(searched=True)
        found = infer_inputs(self.root, self.diagnosis.graph, budget_s=_SECONDS)
        if not found.complete:
            return Fed(searched=True)
        shapes_and_costs(module, bind_placeholders(module, found.args, found.kwargs))
        return Fed(Inputs(found.expression, "inferred"), self._flops((found.args, found.kwargs)))

    def _try(self, module: GraphModule, inputs: Inputs) -> Fed | None:
        """Feed one choice of inputs; None where they cannot be made, or are only inferred and do not fit."""
        scope = scope_of(self.loaded)
        try:
            args, kwargs = attempt(lambda: arguments_of(inputs.expression, scope))
            values = bind_placeholders(module, args, kwargs)
        except Exception:  # noqa: BLE001 — User code; the next way to feed the model is tried.
            return None
        report, costs = shapes_and_costs(module, values)
        if not report.complete and inputs.source == "inferred":
            return None
        whole = self.diagnosis.complete and report.complete
        flops = sum(each.flops for each in costs.values()) if whole else self._flops((args, kwargs))
        # What stops the graph and not the model comes from the path that the trace took, not from the shapes.
        told = inputs.source in SAID and flops is None
        return Fed(inputs, flops, tuple(each for each in report.failures if told and not each.needs_data))

    def _flops(self, arguments: Arguments) -> int | None:
        try:
            return model_cost(self.root, *arguments).flops
        except Exception:  # noqa: BLE001 — The model itself runs here, and may need data that it was not given.
            return None


def arguments_of(expression: str, scope: dict[str, Any]) -> Arguments:
    """Return the real arguments that an argument list makes.

    Raises:
        BaseException: Whatever the expression raises.
    """
    code = compile(f"__fxls_call__({expression})", "<inputs>", "eval")
    return eval(code, {**scope, "__fxls_call__": lambda *args, **kwargs: (args, kwargs)})  # noqa: S307 — The person's own.
