"""Where inputs for a model may come from, and what finds them while it is traced."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from torch import nn

from fxengine.graph import Graph
from fxengine.inputs import InferredInputs, infer_inputs
from fxworker.argument_lists import Arguments, arguments_of
from fxworker.building import MADE_UP, attempt, scope_of
from fxworker.compiling import eagerly
from fxworker.failing import used_by_default
from fxworker.loading import Loaded
from fxworker.patience import OutOfPatience, patience
from fxworker.wire import Construct, TraceTarget

SECONDS: Final = 0.5
"""Seconds after which the search for inputs tries no more."""

PATIENCE: Final = 2.0
"""Seconds after which a guess is given up where it is."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Inputs that were searched for in vain.

    Attributes:
        parameters: Those for which nothing fits.
        guess: The inputs with which the model came furthest, as an argument list.
        complaint: What it said then.
        never: Whether no others would fit either: two layers do not go together.
    """

    parameters: tuple[str, ...]
    guess: str
    complaint: str
    never: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """Where inputs for a model may come from.

    Attributes:
        target: What is traced, with the inputs that the request names.
        root: The model.
        loaded: The file's module, in which inputs are evaluated.
        hint: The inputs that were found in an earlier trace, tried before any are searched for.
        on_guess: Is told before inputs are tried that nobody wrote down, and may forbid it by returning False.
        search: Whether to search at all.
        unknown: What an earlier search in vain found out, for a model that has not changed since.
        construct: How the model was built with arguments that nobody wrote down; None where somebody did.
        way: How it was built, whoever says so; None for a function, and for what the file has built.
    """

    target: TraceTarget
    root: Any
    loaded: Loaded
    hint: str
    on_guess: Callable[[], bool]
    search: bool
    unknown: Unknown | None = None
    construct: Construct | None = None
    way: Construct | None = None

    @property
    def is_of_own_values(self) -> bool:
        """Whether arguments were inferred, and these are nothing but configurations as their classes make them."""
        return self.construct is None and self.way is not None and self.way.source in MADE_UP

    def arguments(self, expression: str) -> Arguments:
        """Return the real arguments that an argument list makes.

        Raises:
            Exception: They cannot be made.
        """
        return attempt(lambda: arguments_of(expression, scope_of(self.loaded)))


class Finder:
    """Finds inputs while a model is being traced, for what cannot be decided without. Mutable: it keeps what it found.

    Attributes:
        found: What a search found, complete or not.
        in_vain: Whether a search found nothing.
        guess: The inputs that it has handed over and that nobody wrote down.
    """

    def __init__(self, sources: Sources, on_end: Callable[[], None]) -> None:
        """Prepare; `on_end` is called when the trace goes on."""
        self.found: InferredInputs | None = None
        self.in_vain = False
        self.guess = ""
        self._sources = sources
        self._on_end = on_end

    def find(self, graph: Graph) -> Arguments | None:
        """Return inputs for the model whose graph has come so far; None where none are found. Never raises."""
        try:
            with eagerly():
                return self._said() or self._guessed(graph)
        except BaseException:  # noqa: BLE001 — User code runs here, and nothing but inputs depends on it.
            return None
        finally:
            self._on_end()

    def _said(self) -> Arguments | None:
        for inputs in self._sources.target.inputs:
            arguments = self._made(inputs.expression)
            if arguments is not None:
                return arguments
        return None

    def _guessed(self, graph: Graph) -> Arguments | None:
        sources = self._sources
        if not (sources.hint or sources.search) or not sources.on_guess():
            return None
        try:
            with patience(PATIENCE):
                arguments = self._made(sources.hint) if sources.hint else None
                self.guess = sources.hint if arguments is not None else ""
                return arguments or (self._searched(graph) if sources.search else None)
        except OutOfPatience:
            self.in_vain = True
            return None

    def _searched(self, graph: Graph) -> Arguments | None:
        root = self._sources.root
        found = infer_inputs(root, graph, budget_s=SECONDS)
        self.in_vain = not found.usable
        left_out = used_by_default(graph) - found.recipes.keys() if found.usable else frozenset[str]()
        if left_out:
            # A symbolic input is never None, so what has been asked is whether there is one: it is given, too.
            fuller = infer_inputs(root, graph, budget_s=SECONDS / 2, wanted=left_out)
            found = fuller if fuller.usable and left_out <= fuller.recipes.keys() else found
        self.found = found
        self.guess = found.expression
        return (found.args, found.kwargs) if found.usable else None

    def _made(self, expression: str) -> Arguments | None:
        """Return the arguments that an expression makes, if the model can be called with them."""
        root = self._sources.root
        try:
            args, kwargs = self._sources.arguments(expression)
            inspect.signature(root.forward if isinstance(root, nn.Module) else root).bind(*args, **kwargs)
        except Exception:  # noqa: BLE001 — User code; the next way to feed the model is tried.
            return None
        return args, kwargs
