"""Asserts about data in models that are captured. PYTEST_DONT_REWRITE: they have to be what Python makes of them."""

import pytest
import torch

import fxengine

X = torch.randn(2, 4)


def checked(x):
    assert x.sum() < 1000
    assert not torch.isnan(x).any(), "no number"
    assert x.min() > -1000 and x.max() < 1000, f"out of range: {x}"  # noqa: PT018 - what it is about.
    return x + 1


def test_asserts_about_data_are_made_by_the_graph():
    found = fxengine.capture(checked, X)

    assert found.problems == ()
    found.graph.lint()
    assert [node.target for node in found.graph.nodes].count(torch._assert) == 4
    assert torch.equal(found.graph_module(X), checked(X))
    for bad in (X + 1000, X * torch.nan, X - 2000):
        with pytest.raises(AssertionError):
            found.graph_module(bad)


def either(x):
    assert x.sum() > 0 or x.max() < 9
    return x + 1


def elsewhere(x):
    fine = bool(x.sum() < 1000)
    assert fine
    return x + 1


def branching(x):
    if x.sum() < 1000:
        return x + 1
    raise AssertionError


@pytest.mark.parametrize("model", [either, elsewhere, branching])
def test_what_is_not_asked_by_an_assert_alone_is_a_problem(model):
    found = fxengine.capture(model, X)

    assert len(found.problems) == 1
    assert torch.equal(found.graph_module(X), model(X))


def numbered(x):
    counts = (x > -9).sum(1)
    assert counts.max().item() <= x.shape[1]
    assert not counts.min().item() < 2, "too few"
    return x + counts.sum().item()


def test_asserts_about_numbers_that_data_tell_are_made_by_the_graph():
    found = fxengine.capture(numbered, X)

    assert found.problems == ()
    assert torch.equal(found.graph_module(X), numbered(X))
    bad = torch.tensor([[-10.0, -10.0, -10.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    for run in (found.graph_module, numbered):
        with pytest.raises((AssertionError, RuntimeError)):
            run(bad)
