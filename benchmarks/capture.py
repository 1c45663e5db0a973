"""Which models can be captured with the inputs that were inferred for them: how many of each library, at what cost.

A model is *fed* if eager runs on the inputs that were found (`feed.py` says more about that), and *captured* if the
graph module gives eager's outputs on fresh inputs of the same shape, NaN equal to NaN. One whose code asks for data
that depend on the inputs is captured up to there only, and named with the line. Nothing is said about any model; each
gets 30 seconds in a process of its own. What was not captured is listed with the reason. Models with more parameters
than `_REAL`, and those that take longer than `_LONGEST`, are captured for their shapes alone, and outputs are compared
by shape and type: the summary says how many these are. Where that is not possible, as eager wants to see data, those
with up to `_REAL_AT_NEED` parameters are run on real data all the same.

    python benchmarks/capture.py [LIBRARY_OR_PACKAGE...] [--every N] [--limit N] [--shift N] [--only PART] [--each]
                                 [--costs] [--fx] [--export] [--shapes]

With `--fx` and `--export` the same is asked of torch.fx and of torch.export, the latter of models on real data only.
With `--costs` the processor time of a capture is measured against that of a torch.fx trace of the same model, where
torch.fx can trace it, and, with `--export`, against that of torch.export.
"""

import contextlib
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
import torch.fx
from _libraries import Case, Model, inputs_for, made
from _tables import arguments, chosen, outcomes
from torch import nn
from torch.utils import _pytree as pytree

import fxengine
from fxengine.module_snapshot import Snapshot
from fxengine.shapes_only import ShapesOnly, needs_data, wants_gradients
from fxworker.argument_lists import Arguments

_SECONDS: Final = 5.0
"""The budget of one search for inputs, in processor time."""

_REAL: Final = 100_000_000
"""The most parameters of a model that is run on real data."""

_REAL_AT_NEED: Final = 1_000_000_000
"""The most parameters of a model that is run on real data because it does not run without."""

_UNCOMPARED: Final = "not compared: eager wants data, and the model is too large for them"

_LONGEST: Final = 4.0
"""The most seconds of processor time that running on real data may take for outputs to be compared on such."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked beside capturing."""

    fx: bool
    export: bool
    costs: bool
    shapes: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one model went.

    Attributes:
        expression: The inputs as source; "" where the model was not fed.
        reason: Why it was not captured, or not fed; "" if it was.
        nodes: How many nodes the graph has.
        guards: How many guards.
        fx: Why torch.fx does not capture it, "" if it does; None if it was not asked.
        export: Likewise for torch.export.
        seconds: What a capture takes, a trace of torch.fx, and torch.export; 0 where that is not known.
        real: Whether outputs were compared on real data.
        partial: Whether it was captured up to where data decide, with a graph module that gives eager's outputs.
    """

    expression: str
    reason: str
    nodes: int = 0
    guards: int = 0
    fx: str | None = None
    export: str | None = None
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)
    real: bool = False
    partial: bool = False


Make = Callable[[int], Arguments]
"""Makes inputs of the same shapes, others for each seed."""


class Fed(NamedTuple):
    """The inputs of a model.

    Attributes:
        expression: The inputs as source.
        make: What makes them; None where there are none.
        reason: Why there are none.
        seconds: The processor time of a run on them.
        case: The model's case, another one where its arguments were changed.
        model: The model.
        root: The same with weights, where it is run with such.
    """

    expression: str
    make: Make | None
    reason: str
    seconds: float
    case: Case
    model: Model
    root: nn.Module


class OutOfTimeError(BaseException):
    """A run took too long. No `Exception`: the libraries' code must not handle it."""


class Compared(NamedTuple):
    """What capturing gave, and how that differs from eager.

    Attributes:
        captured: The capture.
        reason: Why the model was not captured; "" if it was.
        partial: Whether it was captured up to where data decide, with a graph module that gives eager's outputs.
    """

    captured: fxengine.capturing.Capture
    reason: str
    partial: bool


def outcome(options: Options, case: Case) -> Outcome | str:
    """Return how a model went, or why it could not be built."""
    # What a library compiles is run as it is, as in the worker.
    torch.compiler.set_stance("force_eager")
    try:
        model = case.build()
    except BaseException as error:  # noqa: BLE001 - the libraries' code raises whatever it likes.
        return told(error)
    real = not options.shapes and model.size <= _REAL
    root = case.build(real=True).root if real else model.root
    expression, make, reason, taken, case, model, root = fed(case, model, root, real=real)
    if make is None:
        return Outcome("", reason)
    if real and taken > _LONGEST:
        real, root = False, model.root
    found = compared(root, make, expression, real=real)
    if not isinstance(found, Outcome) and _UNCOMPARED in found.reason and not options.shapes and small_at_need(model):
        weighted = case.build(real=True).root
        if is_quick(weighted, make):
            real, root = True, weighted
            found = compared(root, make, expression, real=True)
    if isinstance(found, Outcome):
        return found
    captured, reason, is_partial = found
    fx = export = None
    if options.fx:
        fx = asked(lambda: difference(root, torch.fx.symbolic_trace(root), make, real=real))
    if options.export and real:
        args, kwargs = make(0)
        export = asked(
            lambda: difference(root, torch.export.export(root, args, kwargs, strict=False).module(), make, real=real)
        )
    spent = costs(root, make, export=options.export and export == "") if options.costs else (0.0, 0.0, 0.0)
    return Outcome(
        expression, reason, len(captured.graph.nodes), len(captured.guards), fx, export, spent, real, is_partial
    )


def compared(root: nn.Module, make: Make, expression: str, *, real: bool) -> Compared | Outcome:
    """Return what capturing a model gave and how that differs from eager, or the outcome where neither is known."""
    try:
        # As it is run: whether gradients are wanted, and what was drawn, are part of what a graph is specialised on.
        random.seed(0)
        with torch.no_grad():
            captured = fxengine.capture(root, make(0))
    except BaseException as error:  # noqa: BLE001 - a failure of ours.
        return Outcome(expression, f"capture: {told(error)}")
    if not captured.problems:
        try:
            return Compared(captured, difference(root, captured.graph_module, make, real=real), partial=False)
        except Exception as error:  # noqa: BLE001 - the libraries' code raises whatever it likes.
            return Outcome("", f"eager, on other numbers: {told(error)}")
    problem = captured.problems[0]
    place = f" ({problem.site.path}:{problem.site.line} {problem.site.text.splitlines()[0]})" if problem.site else ""
    reason = f"{type(problem.exception).__name__}: {problem.message.splitlines()[0][:200]}{place}"
    if captured.graph_module is None:
        return Compared(captured, reason, partial=False)
    wrong = difference(root, captured.graph_module, make, real=real)
    return Compared(captured, f"{reason}, captured up to there ({wrong or 'outputs equal'})", partial=not wrong)


def small_at_need(model: Model) -> bool:
    """Whether a model is small enough for real data if there is no other way."""
    return model.size <= _REAL_AT_NEED


def is_quick(root: nn.Module, make: Make) -> bool:
    """Whether eager takes no longer on real data than it may."""
    try:
        with ends_after(_LONGEST):
            run(root, root, make(0), real=True)
    except OutOfTimeError:
        return False
    except Exception:  # noqa: BLE001 - the libraries' code raises whatever it likes; whoever compares sees it again.
        return True
    return True


def fed(case: Case, model: Model, root: nn.Module, *, real: bool) -> Fed:
    """Return inputs, or why there are none."""
    for expression in model.said:
        with contextlib.suppress(Exception):
            make = partial(made, expression, model)
            start = time.process_time()
            if not failure(root, make(0), real=real):
                return Fed(expression, make, "", time.process_time() - start, case, model, root)
    fitting, found = inputs_for(case, model, _SECONDS)
    if fitting is not case:
        case, model = fitting, fitting.build()
        root = case.build(real=True).root if real else model.root
    if not isinstance(found, str) and not found.complete:
        last = found.failures[0] if found.failures else None
        reason = f"{last.error} <- {last.expression}" if last is not None else "nothing was tried"
        return Fed("", None, reason, 0.0, case, model, root)
    make = partial(made, found, model)
    start = time.process_time()
    reason = failure(root, make(0), real=real)
    taken = time.process_time() - start
    told_of = f"eager: {reason}" if reason else ""
    expression = (found if isinstance(found, str) else found.expression) or "no arguments"
    return Fed(expression, None if reason else make, told_of, taken, case, model, root)


def failure(root: nn.Module, given: Arguments, *, real: bool) -> str:
    """Return why eager does not run on the arguments, "" if it does."""
    try:
        with ends_after(_LONGEST) if real else contextlib.nullcontext():
            run(root, root, given, real=real)
    except OutOfTimeError:  # On real data it takes too long; whether it runs without them remains to be seen.
        return failure(root, given, real=False)
    except Exception as error:  # noqa: BLE001 - the libraries' code raises whatever it likes.
        return "" if not real and needs_data(error) else told(error)
    return ""


@contextlib.contextmanager
def ends_after(limit: float) -> Generator[None]:
    """End what runs inside, with an `OutOfTimeError`, a moment after so many seconds of processor time.

    Raises:
        OutOfTimeError: They are over.
    """

    def end(_number: int, _frame: object) -> None:
        raise OutOfTimeError

    previous = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, limit + 0.1)  # So that it is seen that it took longer.
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


def run(model: nn.Module, module: Any, given: Arguments, *, real: bool) -> Any:
    """Return what a model, or what was made of it, returns for arguments; with gradients where it asks for some."""
    args, kwargs = given
    for gradients in (False, True):
        random.seed(0)
        torch.manual_seed(0)
        try:
            with torch.set_grad_enabled(gradients), contextlib.nullcontext() if real else ShapesOnly(model):
                return module(*args, **kwargs)
        except RuntimeError as error:
            if gradients or not wants_gradients(error):
                raise
    raise AssertionError


def difference(root: nn.Module, module: Any, make: Make, *, real: bool) -> str:
    """Return how the outputs of what was made of a model differ from its own on fresh inputs, "" if they do not."""
    state = {name: value.detach().clone() for name, value in tensors_of(root).items()} if real else {}
    snapshot = Snapshot(root)
    try:
        wanted = leaves(run(root, root, make(1), real=real))
    except Exception as error:
        if real or not needs_data(error):
            raise
        return _UNCOMPARED
    snapshot.restore()  # What a run leaves behind in plain Python the graph's first run is not to find.
    if real:
        restore(root, state)
    try:
        found = leaves(run(root, module, make(1), real=real))
    except Exception as error:  # noqa: BLE001 - generated code may raise anything.
        return f"run: {told(error)}"
    if len(wanted) != len(found):
        return f"{len(found)} outputs for {len(wanted)}"
    for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
        try:
            device = one.device if real else "meta"
            torch.testing.assert_close(other.to(device), one.to(device), equal_nan=True)
        except AssertionError as error:
            return f"output {index}: {told(error)}"
    return ""


def tensors_of(root: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a model by name; what a model saves may be more, or wrapped."""
    return {**dict(root.named_parameters()), **dict(root.named_buffers())}


def restore(root: nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Give the tensors of a model the data again that they had, those apart that it has got since."""
    with torch.no_grad():
        for name, value in tensors_of(root).items():
            if name in state and value.shape == state[name].shape:
                value.copy_(state[name])


def leaves(value: Any) -> list[torch.Tensor]:
    """Return the tensors in outputs, those in objects included, in order."""
    found: list[torch.Tensor] = []
    seen: set[int] = set()

    def visit(item: Any) -> None:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, list | tuple | set):
            for each in item:
                visit(each)
        elif isinstance(item, dict):
            for each in item.values():
                visit(each)
        elif hasattr(item, "__dict__") and not isinstance(item, type | nn.Module) and id(item) not in seen:
            seen.add(id(item))
            visit(list(vars(item).values()))
        elif type(item) in pytree.SUPPORTED_NODES:
            visit(pytree.tree_leaves(item))

    visit(value)
    return found


def costs(root: nn.Module, make: Make, *, export: bool) -> tuple[float, float, float]:
    """Return the processor time of a capture, a trace of torch.fx and torch.export; 0 where one fails."""
    inputs = make(0)
    ours = [seconds(lambda: fxengine.capture(root, inputs)) for _ in range(3)]
    theirs: list[float] = []
    exported: list[float] = []
    with contextlib.suppress(Exception):
        theirs = [seconds(lambda: torch.fx.symbolic_trace(root)) for _ in range(3)]
    if export:
        with contextlib.suppress(Exception):
            args, kwargs = inputs
            exported = [seconds(lambda: torch.export.export(root, args, kwargs, strict=False)) for _ in range(2)]
    return min(ours), min(theirs, default=0.0), min(exported, default=0.0)


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time that a function takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def asked(question: Callable[[], str]) -> str:
    """Return the answer, or the error."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - torch raises whatever the model does.
        return told(error)


def told(error: BaseException) -> str:
    """Return the first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"


def main(given: list[str]) -> int:
    """Measure, print, and return the exit status."""
    parser = arguments(__doc__)
    parser.add_argument("--fx", action="store_true", help="ask torch.fx too")
    parser.add_argument("--export", action="store_true", help="ask torch.export too")
    parser.add_argument("--costs", action="store_true", help="measure what a capture costs")
    parser.add_argument("--shapes", action="store_true", help="run no model on real data: a quick look")
    asked_for = parser.parse_args(given)
    options = Options(asked_for.fx, asked_for.export, asked_for.costs, asked_for.shapes)
    rows: list[str] = []
    with elsewhere():
        for library, models in chosen(asked_for):
            show = partial(line, each=asked_for.each)
            found, unbuilt = outcomes(partial(outcome, options), models, lost, show, each=asked_for.each)
            rows.append(summary(library, len(models), unbuilt, found))
    print("\n" + "\n".join(rows))
    return 0


@contextlib.contextmanager
def elsewhere() -> Generator[None]:
    """Work in a folder that is gone afterwards, with what the libraries' constructors write into it."""
    sys.path[:] = [str(Path(each).absolute()) for each in sys.path]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


def lost(reason: str) -> Outcome:
    """Return the outcome of a model whose process did not answer: it counts as not fed."""
    return Outcome("", reason)


def line(found: Outcome, taken: float, *, each: bool) -> str:
    """Return what is printed for a model."""
    if not found.expression:
        return f"not fed: {found.reason}"
    if found.reason:
        return f"NOT CAPTURED: {found.reason} [{found.expression}]"
    return f"{found.nodes} nodes, {found.guards} guards, {taken:.1f} s {found.seconds}" if each else ""


def summary(library: str, count: int, unbuilt: int, found: list[Outcome]) -> str:
    """Return how many models were fed and captured, by whom, and at what cost."""
    given = [each for each in found if each.expression]
    parts = [f"{library}: {count} models, {count - unbuilt} built, {share(given, found)} fed"]
    captured = [each for each in given if not each.reason]
    shapes = sum(not each.real for each in captured)
    parts.append(f"{share(captured, given)} of these captured ({shapes} compared by shape alone)")
    parts.append(f"{sum(each.partial for each in given)} more up to where data decide, with eager's outputs")
    for title, asked_of in (("torch.fx", "fx"), ("torch.export", "export")):
        answers = [getattr(each, asked_of) for each in given if getattr(each, asked_of) is not None]
        if answers:
            parts.append(f"{title} captures {share([each for each in answers if not each], answers)}")
    ratios = [each.seconds[0] / each.seconds[1] for each in given if each.seconds[1]]
    if ratios:
        parts.append(f"a capture costs {statistics.median(ratios):.2f} x a torch.fx trace (worst {max(ratios):.2f})")
    ratios = [each.seconds[2] / each.seconds[0] for each in given if each.seconds[2]]
    if ratios:
        parts.append(f"torch.export costs {statistics.median(ratios):.1f} x a capture (least {min(ratios):.1f})")
    return ", ".join(parts)


def share(part: list[Any], whole: list[Any]) -> str:
    """Return a count with its share."""
    return f"{len(part)} ({100 * len(part) / max(1, len(whole)):.1f}%)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
