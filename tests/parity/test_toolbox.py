"""What stands beside graphs and passes: the engine's smaller functions answer as torch.fx's do."""

import importlib

import pytest

from tests.parity.toolbox_cases import CASES
from tests.support.parity import attempt


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_the_same_answer(name: str) -> None:
    ours = attempt(CASES[name], lambda module: importlib.import_module(module.replace("torch.fx", "fxengine")))
    assert ours == attempt(CASES[name], importlib.import_module)
