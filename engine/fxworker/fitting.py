"""Arguments for a constructor such that inputs can be found: where the search for the ones and for the others meet.

Arguments that were inferred build a model, and that is all that is known of them: its parts may not fit each other, so
that no input runs. Then what the model says while it runs goes back to the search for arguments, as what a constructor
says does: the sizes that did not agree, and the names that stand for them in the code. What that builds is given inputs
again: others, or those that somebody wrote down. What somebody wrote down is never changed, nor is a model for which
inputs were found.
"""

import ast
import inspect
import linecache
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log2
from typing import Any, Final

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxengine.classification import Moment
from fxengine.inputs import Constant, InferredInputs, disagreements, infer_inputs
from fxengine.inputs.probe import Outcome, probe
from fxengine.shapes_only import to_meta
from fxengine.syntax import nodes_around
from fxworker.building import Built, search_for
from fxworker.loading import Loaded
from fxworker.refitting import Misfit
from fxworker.tracebacks import sources_of
from fxworker.wire import Construct, TraceTarget

_NOT_OF_INPUTS: Final = (NotImplementedError.__name__, ModuleNotFoundError.__name__)
"""What no inputs can mend, nor other arguments; with a fault of the code itself inputs are found (``usable``)."""

_SECONDS: Final = 1.5
"""Seconds of processor time after which nothing more is tried."""

_EACH: Final = 0.25
"""Seconds of it for the inputs of one model."""

_HOPELESS: Final = 12
"""Trials of inputs that end with the same complaint, after which other arguments are tried."""

_FRAMES: Final = 8
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model that runs, the way that built it, and inputs for it."""

    built: Built
    inputs: InferredInputs


def fit(
    target: TraceTarget,
    loaded: Loaded,
    built: Built,
    found: InferredInputs | None,
    seconds: float = _SECONDS,
    each: float = _EACH,
) -> Fitted | None:
    """Return a model of a target with other arguments, and inputs on which it runs; None where none was found in time.

    Args:
        target: What is built.
        loaded: The file's module.
        built: The model for which inputs were searched for in vain.
        found: What that search came to, if it is known.
        seconds: The processor time for all.
        each: The processor time for the inputs of one model.

    Raises:
        OutOfPatience: Somebody else's patience ended.
    """
    search = search_for(_called(target, loaded, built), loaded) if built.is_made_up else None
    if search is None:
        return None
    fitting = _Fitting(built, found, time.process_time() + seconds, each)
    result = search.run(fitting.misfit, seconds)
    if result is None or fitting.inputs is None:
        return None
    expression, root = result
    return Fitted(Built(root, Construct(expression, "inferred")), fitting.inputs)


def is_of_inputs(complaint: str) -> bool:
    """Whether what was raised may be about inputs, or arguments: nobody has left it out, and nothing is absent.

    torch says so, too, where it has not implemented something for one type of numbers.
    """
    return not complaint.startswith(_NOT_OF_INPUTS) or "not implemented for '" in complaint


def fit_to(
    target: TraceTarget,
    loaded: Loaded,
    built: Built,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    seconds: float = _SECONDS,
) -> Construct | None:
    """Return another way to build a target, such that it runs on these inputs; None where none was found in time.

    Raises:
        OutOfPatience: Somebody else's patience ended.
    """
    search = search_for(_called(target, loaded, built), loaded) if built.is_made_up else None
    if search is None:
        return None
    args, kwargs = pytree.tree_map_only(Tensor, to_meta, arguments)
    given = {str(name): Constant(each) for name, each in (*enumerate(args), *kwargs.items())}
    limit = time.process_time() + seconds

    def misfit(_expression: str, root: Any) -> Misfit | None:
        outcome = probe(root, given, len(args), limit)
        return None if outcome.accepted else _misfit(outcome)

    result = search.run(misfit, seconds)
    return Construct(result[0], "inferred") if result is not None else None


def _called(target: TraceTarget, loaded: Loaded, built: Built) -> TraceTarget:
    """Return a target as its model was built: where a subclass of the file shows a class, that is the subclass."""
    name = built.construct.expression.partition("(")[0] if built.construct is not None else ""
    is_heir = name != target.callee and loaded.namespace.get(name) is type(built.root)
    return replace(target, qualname=name) if is_heir else target


class _Fitting:
    """Looks for inputs for one model after the other. Mutable: it keeps what it found.

    Attributes:
        inputs: The inputs of the last model, once there are some.
    """

    def __init__(self, built: Built, found: InferredInputs | None, deadline: float, each: float) -> None:
        self.inputs: InferredInputs | None = None
        self._known = {built.construct.expression: found} if built.construct is not None and found is not None else {}
        self._deadline = deadline
        self._each = each

    def misfit(self, expression: str, root: Any) -> Misfit | None:
        """Return what a model says on the best inputs, None if it runs on them."""
        known = self._known.get(expression)
        modules, begun = len(sys.modules), time.process_time()
        left = self._deadline - begun
        found = known or infer_inputs(root, budget_s=min(self._each, max(left, 0.0)), hopeless=_HOPELESS)
        if len(sys.modules) > modules:  # What torch loads for its first message is no time of the search.
            self._deadline += time.process_time() - begun
        if found.complete:
            self.inputs = found
            return None
        return _misfit(found.stopped)


def _misfit(stopped: Outcome | None) -> Misfit:
    """Return what is wrong with a model, by how a trial of it ended."""
    error = stopped.error if stopped is not None else None
    if stopped is None or error is None:
        return Misfit(RuntimeError(), (), (), "", 0.0)
    words = tuple(dict.fromkeys(_words(str(error), stopped.moments)))
    return Misfit(error, words, disagreements(stopped), stopped.complaint, log2(1 + stopped.calls))


def _words(text: str, moments: tuple[Moment, ...]) -> Iterator[str]:
    """Yield the names in a message, then those on the lines that it came through, with what these are made of.

    Last come the names that variables on the innermost of these lines were computed from: `flow` of `self.flows`.
    """
    yield from _WORD.findall(text)
    for moment in moments[:_FRAMES]:
        line = _line_of(moment)
        yield from _WORD.findall(line)
        owner = moment.frame.f_locals.get("self")
        for name in re.findall(r"self\.(\w+)", line) if isinstance(owner, nn.Module) else ():
            yield from _assigned(type(owner), name)
    for moment in moments[:1]:
        yield from _called_with(moment)
        owner = moment.frame.f_locals.get("self")
        for name in sources_of(moment.frame, _line_of(moment)):
            yield name
            yield from _assigned(type(owner), name) if isinstance(owner, nn.Module) else ()


def _called_with(moment: Moment) -> Iterator[str]:
    """Yield the names of the functions that were to be called with what was being computed."""
    for node in nodes_around(moment.path, moment.source.span):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield name
            case _:
                pass


def _line_of(moment: Moment) -> str:
    return moment.source.text or linecache.getline(moment.path, moment.source.line)


def _assigned(cls: type, name: str) -> Iterator[str]:
    """Yield the names in what the constructors of a class assign to an attribute."""
    for each in cls.__mro__:
        constructor = vars(each).get("__init__")
        if each is nn.Module or not inspect.isfunction(constructor):
            continue
        try:
            text = inspect.getsource(constructor)
        except (OSError, TypeError, SyntaxError):
            continue
        stored = rf"self\.{name}\s*(?::[^=\n]+)?=(?!=)|register_(?:buffer|parameter)\(\s*['\"]{name}['\"],"
        for assigned in re.findall(rf"(?:{stored})\s*([^\n]*(?:\n(?!\s*self\.)[^\n]*){{0,4}})", text):
            yield from _WORD.findall(assigned)
