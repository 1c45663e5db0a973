"""The rest of a run that cannot be captured because it depends on data: one module, called at the end of the graph.

It runs the model's own code from the beginning, but calls of submodules that the graph has computed already are
answered with what the graph has: so nothing expensive is done twice, and what comes after them is done as in eager
mode. Where an earlier run has left something behind there are no answers, as the code may now go another way.
"""

import inspect
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Beginning", "Rest"]


class Before(NamedTuple):
    """What was before a graph has begun.

    Attributes:
        answers: Whether what the graph computes may stand for what the model's own code would compute.
        state: Where torch's generator of random numbers was.
        buffers: Buffers that the graph changes, each with a copy.
    """

    answers: bool
    state: Tensor
    buffers: tuple[tuple[Tensor, Tensor], ...]

    def put_back(self) -> None:
        """Undo what the graph has done in vain."""
        torch.set_rng_state(self.state)
        with torch.no_grad():
            for buffer, kept in self.buffers:
                buffer.copy_(kept)


class _Knowing(nn.Module):
    """Knows whether a model is as it was captured; of that of a copy nobody does."""

    def __init__(self, is_as_it_was: Callable[[], bool]) -> None:
        super().__init__()
        self._is_as_it_was = is_as_it_was

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_as_it_was": _nobody_knows}


class Beginning(_Knowing):
    """Is called first where calls of modules in the graph draw random numbers, or change their own buffers."""

    def __init__(self, modules: Sequence[nn.Module], is_as_it_was: Callable[[], bool]) -> None:
        """Look after these modules."""
        super().__init__(is_as_it_was)
        self._of = tuple(modules)

    def forward(self) -> Before:
        """Return what is before the graph has begun."""
        answers = self._is_as_it_was()
        buffers = () if answers else [buffer for module in self._of for buffer in module.buffers()]
        return Before(answers, torch.get_rng_state(), tuple((each, each.clone()) for each in buffers))


class Rest(_Knowing):
    """Runs a model, given what some calls of its submodules return."""

    def __init__(
        self, model: nn.Module | Callable[..., Any], paths: Sequence[str], is_as_it_was: Callable[[], bool]
    ) -> None:
        """Answer for the calls of the modules at `paths`, in this order, while the model is as it was captured."""
        super().__init__(is_as_it_was)
        self.model = model
        self.paths = tuple(paths)

    def forward(self, given: Mapping[str, Any], results: Sequence[Any], before: Before | None = None) -> Any:
        """Return what the model returns.

        Args:
            given: Its arguments, by parameter.
            results: What the calls return.
            before: What was before the graph has begun, if that has changed anything.
        """
        model = self.model
        bound = inspect.signature(model.forward if isinstance(model, nn.Module) else model).bind_partial()
        bound.arguments.update(given)
        answers = self._is_as_it_was() if before is None else before.answers
        if before is not None and not answers:
            before.put_back()
        with self._answered(results) if answers else nullcontext():
            return model(*bound.args, **bound.kwargs)

    @contextmanager
    def _answered(self, results: Sequence[Any]) -> Generator[None]:
        """Let the modules return the results, one at each call; once they are used up the modules run."""
        answers: dict[str, deque[Any]] = {}
        for path, result in zip(self.paths, results, strict=True):
            answers.setdefault(path, deque()).append(result)
        modules = (
            {path: self.model.get_submodule(path) for path in answers} if isinstance(self.model, nn.Module) else {}
        )
        kept = {path: module.__dict__.get("forward") for path, module in modules.items()}
        try:
            for path, module in modules.items():
                module.__dict__["forward"] = _answering(answers[path], module.forward)
            yield
        finally:
            for path, module in modules.items():
                module.__dict__.pop("forward", None)
                if kept[path] is not None:
                    module.__dict__["forward"] = kept[path]


def _answering(answers: deque[Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return answers.popleft() if answers else forward(*args, **kwargs)

    return answer


def _nobody_knows() -> bool:
    return False
