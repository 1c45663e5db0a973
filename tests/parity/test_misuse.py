"""Mistakes and edges: the engine answers as torch.fx does, in the same words."""

import pytest
import torch.fx

import fxengine
from tests.parity.misuse_cases import CASES
from tests.support.parity import attempt


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_the_same_answer(name: str) -> None:
    assert attempt(CASES[name], fxengine) == attempt(CASES[name], torch.fx)
