"""Random numbers in a captured graph: what draws them is a node, so that each run draws its own.

Nobody can list all functions that draw. One that is carried out for real, on constants, moves torch's generator: where
a run did that, the model is captured once more by somebody who looks after each call.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from fxengine.capturing.questions import functions

__all__ = ["RANDOM", "carried_out", "draws"]

RANDOM: Final[frozenset[Callable[..., Any]]] = frozenset(
    functions(
        "rand randn randint randperm rand_like randn_like randint_like normal bernoulli poisson multinomial binomial "
        "_standard_gamma _sample_dirichlet",
        torch,
    )
    + functions(
        "normal_ uniform_ bernoulli_ random_ exponential_ geometric_ log_normal_ cauchy_ bernoulli multinomial", Tensor
    )
    + functions("normal_ uniform_ kaiming_uniform_", nn.init)
    + functions("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout", nn.functional)
)
"""Functions whose results differ from call to call, whatever they are given."""


def carried_out(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return what a function returns, and whether it has drawn; if so the generator is put back."""
    generator = torch.default_generator
    before = generator.get_state()
    result = function(*args, **kwargs)
    if torch.equal(generator.get_state(), before):
        return result, False
    generator.set_state(before)
    return result, True


def draws(module: nn.Module) -> bool:
    """Whether a call of a module of torch's own, or of one that has such, draws random numbers."""
    return any(each.training and _rate_of(each) for each in module.modules())


def _rate_of(module: nn.Module) -> Any:
    if isinstance(module, nn.RReLU):
        return True
    return getattr(module, "p" if isinstance(module, nn.modules.dropout._DropoutNd) else "dropout", 0)
