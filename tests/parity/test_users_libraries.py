"""torch's own libraries make the same with the engine in torch.fx's place: graphs, code, state and numbers."""

import importlib
import warnings
from collections.abc import Iterator

import pytest

from tests.parity.library_cases import CASES
from tests.support.parity import attempt
from tests.support.transplant import Transplant

USERS = (
    "torch._functorch.compile_utils",
    "torch._functorch.compilers",
    "torch._functorch.fx_minifier",
    "torch._functorch.partitioners",
    "torch._inductor.constant_folding",
    "torch._inductor.pattern_matcher",
    "torch.ao.ns",
    "torch.ao.pruning",
    "torch.ao.quantization.fx",
    "torch.ao.quantization.quantize_fx",
    "torch.distributed.fsdp._trace_utils",
)
ONCE = ("torch.ao.quantization.fx._decomposed",)
"""Modules that may be executed once only: this one defines operators."""
OF_TORCH = (
    "torch.fx.experimental._backward_state",
    "torch.fx.experimental.proxy_tensor",
    "torch.fx.experimental.sym_node",
    "torch.fx.experimental.symbolic_shapes",
)
"""What torch itself is made of: there is one of them in a process."""


@pytest.fixture(scope="module")
def transplant() -> Iterator[Transplant]:
    transplant = Transplant(*USERS, keep=ONCE)
    yield transplant
    transplant.forget()


@pytest.mark.parametrize("name", CASES)
def test_same_outcome(name: str, transplant: Transplant) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = attempt(CASES[name], importlib.import_module)
        actual = attempt(CASES[name], transplant.load)
    assert not isinstance(expected, str), expected
    assert actual == expected
    assert transplant.missing <= {*OF_TORCH}
