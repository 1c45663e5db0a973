"""Random models of what is hard to capture: their graphs do in each of several runs what eager mode does, or say so."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.capture_code_steps import CODE_STEPS
from tests.engine.random_models import STEPS, captured, wrong_in

_OUTPUTS = ("x", "x, x.view(-1), [x]", "x, inputs", "{'k': (x, [x.t()])}, Pair(x, 1)")
_SHAPES = ((2, 4), (2, 4), (3, 4), (1, 4))


@settings(max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    returned=st.sampled_from(_OUTPUTS),
    training=st.booleans(),
    shape=st.sampled_from(_SHAPES),
)
def test_graphs_of_random_models_do_what_eager_mode_does(names, returned, training, shape):
    assert wrong_in(names, returned, training=training, shape=shape) == ""


@pytest.mark.parametrize("name", sorted(STEPS))
def test_each_step_by_itself(name):
    assert wrong_in([name], training=False) == ""
    assert wrong_in(["layer", name], "x, x.view(-1)", training=True) == ""


@pytest.mark.parametrize("name", sorted(CODE_STEPS))
def test_the_graph_of_ordinary_code_holds_as_far_as_its_guards_say(name):
    problems = [problem.headline for problem in captured([name]).problems]
    assert problems == []
    assert wrong_in([name], training=False, shape=(3, 4), dtype=torch.float64) == ""
