"""What a model does as it was built and fed before an edit, where that does not fit it any more.

Other arguments or inputs may fit, and the model is shown with these; but who has just made a mistake is not helped by
that. So the former ones are kept, and tried first: as soon as the model runs with them again, it is as it was.
"""

from dataclasses import dataclass, replace

from torch import nn

from fxengine.passes.cost import model_cost
from fxengine.passes.shape_prop import ShapeFailure
from fxengine.shapes_only import needs_data
from fxworker.argument_lists import arguments_of
from fxworker.building import Built, attempt, build, scope_of
from fxworker.compiling import eagerly
from fxworker.failing import evaluating, failure_of
from fxworker.finder import PATIENCE
from fxworker.loading import Hint, Loaded
from fxworker.patience import patience
from fxworker.wire import TraceTarget


@dataclass(frozen=True, slots=True)
class Former:
    """A model as it was built before.

    Attributes:
        built: The model, with what it ran on.
        failure: What ends its run now, None if it runs.
    """

    built: Built
    failure: ShapeFailure | None


def former(target: TraceTarget, loaded: Loaded, hint: Hint) -> Former | None:
    """Return a model as it ran before; None where it is not built so, or ends at no function of torch. Never raises."""
    try:
        with eagerly(), patience(PATIENCE):
            built, arguments = (
                _built(target, loaded, hint),
                attempt(lambda: arguments_of(hint.ran_on, scope_of(loaded))),
            )
            if built is None or not isinstance(built.root, nn.Module):
                return None
            with evaluating(built.root):
                try:
                    model_cost(built.root, *arguments)
                except Exception as error:  # noqa: BLE001 — User code; it runs on what it need not take any more.
                    failure = failure_of(built.root, arguments) if not needs_data(error) else None
                    return Former(built, failure) if failure is not None else None
            # A run may leave something in it.
            again = _built(target, loaded, hint)
            return Former(again, None) if again is not None else None
    except BaseException:  # noqa: BLE001 — As above.
        return None


def _built(target: TraceTarget, loaded: Loaded, hint: Hint) -> Built | None:
    built = build(target, loaded, hint.former, lambda: False)
    is_so = isinstance(built, Built) and built.construct is not None and built.construct.expression == hint.former
    return replace(built, inputs=hint.ran_on) if isinstance(built, Built) and is_so else None
