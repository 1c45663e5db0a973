"""The engine beside torch.fx on small models of our own: every rule of tracing, and every way in which it fails."""

import pytest

from tests.parity.own_models import CASES
from tests.support.parity import Case, differences


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_outcome(case: Case) -> None:
    assert differences(case) == []
