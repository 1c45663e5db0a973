"""The rest of a run that cannot be captured because it depends on data: one module, called at the end of the graph.

It runs the model's own code from the beginning, but calls of submodules that the graph has computed already are
answered with what the graph has: so nothing expensive is done twice, and what comes after them is done as in eager
mode.
"""

import inspect
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

__all__ = ["Rest"]


class Rest(nn.Module):
    """Runs a model, given what some calls of its submodules return."""

    def __init__(self, model: nn.Module | Callable[..., Any], paths: Sequence[str]) -> None:
        """Answer for the calls of the modules at `paths`, in this order."""
        super().__init__()
        self.model = model
        self.paths = tuple(paths)

    def forward(self, given: Mapping[str, Any], results: Sequence[Any]) -> Any:
        """Return what the model returns.

        Args:
            given: Its arguments, by parameter.
            results: What the calls return.
        """
        model = self.model
        bound = inspect.signature(model.forward if isinstance(model, nn.Module) else model).bind_partial()
        bound.arguments.update(given)
        with self._answered(results):
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
