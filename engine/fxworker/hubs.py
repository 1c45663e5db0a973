"""What `torch.hub.load` would fetch is stood in for: code of a repository, which is as absent as a package.

A repository that lies in torch's cache, or in a folder, is read from there.
"""

from collections.abc import Callable
from typing import Any

import torch

from fxworker.absent import AbsentModule
from fxworker.once import wrapped_once


def hubs_are_absent() -> None:
    """Let a model of a repository that cannot be fetched be what an absent package of its name would make."""
    wrapped = wrapped_once(torch.hub.load, _standing_in)
    if wrapped is not None:
        torch.hub.load = wrapped


def _standing_in(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that loads a model from a repository, or gives what stands for it."""

    def loaded(repo_or_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load(repo_or_dir, model, *args, **kwargs)
        except (OSError, EOFError, RuntimeError) as error:
            if kwargs.get("source", "github") != "github" or not _is_of_fetching(error):
                raise
            name = repo_or_dir.partition(":")[0].rpartition("/")[2]
            return getattr(AbsentModule(name), model)(*args, **kwargs)

    return loaded


def _is_of_fetching(error: Exception) -> bool:
    """Whether an error says that a repository could not be fetched.

    Where nobody answers whether it is trusted, the input ends; where its branch is not known, torch raises what follows
    from the error of the network.
    """
    return not isinstance(error, RuntimeError) or isinstance(error.__cause__, OSError)
