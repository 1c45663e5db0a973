"""Inferring the arguments of a constructor: a search that proposes, constructs, reads the error, and proposes again.

Best first: the first proposal for every required parameter, then what may mend that (`mending`), or what it made if
that does not run (`refitting`); what led further is followed first. Arguments are Python expressions, so that what was
found can be written into the file as a directive.
"""

import heapq
import itertools
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from torch import nn
from torch.nn.parameter import is_lazy

from fxengine.hierarchy import modules_of
from fxworker.callers import EXPRESSION
from fxworker.choices import Choice, Group, Value, written
from fxworker.packages import with_packages
from fxworker.patience import OutOfPatience, patience, worked
from fxworker.proposing import Proposals
from fxworker.readings import numbers_refused
from fxworker.refitting import Misfit, Refitting
from fxworker.settings import NO_SETTINGS, Settings
from fxworker.stock import is_stand_in
from fxworker.tracebacks import Places, depth_of, is_evaluated, is_further, is_raising, parts_made, places_of

_MOST_LARGER: Final = 6
"""How many larger sizes are tried where a layer came out with none."""

_TRIALS: Final = 160
_SECONDS: Final = 2.0
_SECONDS_OF_LESS: Final = 0.5
"""How long an attempt with less may take, after one that took too long."""
_BUILT: Final = 1000.0
"""What it counts that something was built, whatever is wrong with it: more than any line that was come to."""

_BEGUN: Final = 0.2
"""What it costs to begin with something else than the first."""
_RIGHT: Final = -0.5
"""How much of its cost a step counts that led behind what it was to mend: it is followed before others are tried."""


Judge: TypeAlias = Callable[[str, Any], Misfit | None]
"""Says of what an expression has built what is wrong with it, None if nothing is."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How one came to a choice: what it cost before the last step, what this one cost, and which places it mends."""

    cost: float = 0.0
    step: float = 0.0
    mends: Places = ()

    def cost_with(self, places: Places) -> float:
        """Return what it cost, if an attempt came to some places; the last step counts less if it was right."""
        return self.cost + (_RIGHT if is_further(places, self.mends) else 1.0) * self.step


class Search:
    """A search for the arguments of a class, or of a function that gives a `kind`. Mutable; runs once.

    Attributes:
        error: What the furthest attempt raised.
        tried: The expression of that attempt.
        trials: How many attempts were made.
    """

    def __init__(
        self,
        name: str,
        cls: Any,
        scope: Mapping[str, Any],
        attempt: Callable[[Callable[[], Any]], Any],
        *,
        inner: bool = False,
        kind: type | tuple[type, ...] = nn.Module,
        settings: Settings = NO_SETTINGS,
        is_hopeless: Callable[[BaseException | None], bool] = lambda _error: False,
    ) -> None:
        self.error: BaseException | None = None
        self.tried = ""
        self.trials = 0
        self._scope = dict(scope)
        self._attempt = attempt
        self._is_hopeless = is_hopeless
        self._kind = kind
        self._patience = _SECONDS
        self._cls = cls
        self._mending = Refitting(Group("call", name, cls), Proposals(self._scope, cls, settings, inner=inner))

    @property
    def stands_in(self) -> bool:
        """Whether its first attempt would give something that only stands in for a module."""
        return any(each.style == "module" if isinstance(each, Group) else is_stand_in(each) for each in self._first())

    @property
    def makes_up(self) -> bool:
        """Whether its first attempt would give more than numbers, flags and names: things that nobody has seen."""
        return any(
            isinstance(each, Group) or is_stand_in(each) or each[:1] in {"[", "{", "("} for each in self._first()
        )

    def _first(self) -> list[Value]:
        """Return the arguments of the first attempt."""
        return [each for path, each in self._mending.first().items() if path and "." not in path]

    def run(self, judge: Judge | None = None, seconds: float = _SECONDS) -> tuple[str, Any] | None:
        """Return the expression that builds the class and what it builds, None if none was found in time.

        Args:
            judge: Is asked about what was built, which has to be right; without it all is.
            seconds: The processor time, that of programs which are started among it, after which nothing more is tried
                but what is smaller than what took all of it.
        """
        found = self._run(judge, seconds)
        if found is None:
            return None
        choice, expression, root = found
        return self._fuller(choice, expression, root) if judge is None else (expression, root)

    def _fuller(self, choice: Choice, expression: str, root: Any) -> tuple[str, Any]:
        """Return what was found, or what larger sizes make where one of its layers has none: `channels // 16` of 3."""
        larger = self._mending.larger(choice) if _is_hollow(root) else ()
        for _, changed in itertools.islice(larger, _MOST_LARGER):
            other = written(changed)
            made, _ = self._try(other)
            if made is not None and not _is_hollow(made):
                return other, made
        return expression, root

    def _run(self, judge: Judge | None, seconds: float) -> tuple[Choice, str, Any] | None:
        """Do what `run` says, and return the choice, too."""
        begun = self._mending.begun()
        queue: list[tuple[float, int, _Way, dict[str, Value]]] = [
            (_BEGUN * at, at, _Way(_BEGUN * at), each) for at, each in enumerate(begun)
        ]
        deadline = worked() + seconds
        serial = itertools.count(len(begun))
        known = {tuple(each.items()): _BEGUN * at for at, each in enumerate(begun)}
        tried = set[str]()
        while queue and self.trials < _TRIALS:
            if worked() > deadline:
                return None
            _, _, way, choice = heapq.heappop(queue)
            expression = written(choice)
            if expression in tried:
                continue  # It was to be tried later as well.
            tried.add(expression)
            modules, start = len(sys.modules), worked()
            root, error = self._try(expression)
            misfit = judge(expression, root) if root is not None and judge is not None else None
            if len(sys.modules) > modules:
                # What is imported on the way is imported once, and is no fault of the arguments.
                deadline += worked() - start
            elif isinstance(error, OutOfPatience) and self._patience == _SECONDS:
                # One attempt that takes all the time says that less would do, which takes less.
                deadline = max(deadline, worked() + _SECONDS_OF_LESS)
                self._patience = _SECONDS_OF_LESS
            if root is not None and misfit is None:
                return choice, expression, root
            if misfit is None and self._is_in_vain(error, expression):
                return None
            reached = _reached(error) if misfit is None else _BUILT + misfit.reached
            mending, places = self._mending, places_of(error)
            cost = way.cost_with(places)
            for step, changed in mending.after(choice, error) if misfit is None else mending.fitting(choice, misfit):
                key, rank = tuple(changed.items()), cost + step - reached
                if rank < known.get(key, math.inf):
                    known[key] = rank
                    heapq.heappush(queue, (rank, next(serial), _Way(cost, step, places), changed))
        return None

    def _is_in_vain(self, error: BaseException | None, expression: str) -> bool:
        """Whether an attempt raised what nothing that one could propose mends; the furthest that came is noted."""
        depth = depth_of(error)
        own = error is not None and self._is_own(error)
        unknown = (
            isinstance(error, NameError)
            and own
            and not (isinstance(error, UnboundLocalError) or is_evaluated(error) or is_raising(error))
        )
        in_vain = own and (isinstance(error, ModuleNotFoundError) or unknown or self._is_hopeless(error))
        if error is not None and (in_vain or self.error is None or depth > depth_of(self.error)):
            self.error, self.tried = error, expression
        return in_vain

    def _is_own(self, error: BaseException) -> bool:
        """Whether an attempt came to what is to be built, and not only to what it was to be given."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if not isinstance(self._cls, type):
            return frames[-1].f_code.co_filename != EXPRESSION
        return any(isinstance(frame.f_locals.get("self"), self._cls) for frame in frames)

    def _try(self, expression: str) -> tuple[Any, BaseException | None]:
        self.trials += 1
        try:
            code = compile(expression, EXPRESSION, "eval")
            names = with_packages(code, self._scope)
            with patience(self._patience), numbers_refused():
                root = self._attempt(lambda: eval(code, names))  # noqa: S307 — Literals and classes of the file.
        except BaseException as error:  # noqa: BLE001 — User code raises whatever it likes.
            return None, error
        return (root, None) if isinstance(root, self._kind) else (None, None)


def _is_hollow(root: Any) -> bool:
    """Whether one of torch's layers in a model has weights without a number."""
    modules = modules_of(root) if isinstance(root, nn.Module) else ()
    layers = (each for each in modules if getattr(type(each), "__module__", "").startswith("torch.nn."))
    weights = (each for layer in layers for each in vars(layer).get("_parameters", {}).values() if each is not None)
    return any(not is_lazy(each) and each.numel() == 0 for each in weights)


def _reached(error: BaseException | None) -> float:
    """Return how far an attempt came: the line counts, and what parts are there, which inherited code may have made."""
    return 0.02 * depth_of(error) + 0.1 * parts_made(error)
