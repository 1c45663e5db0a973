"""Asserts about data in models that are captured. PYTEST_DONT_REWRITE: they have to be what Python makes of them."""

import warnings

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


def raising(x):
    if torch.isnan(x).any() or (x > 900).any():
        raise ValueError(f"no number, or too large: {x}")
    if not (x > -900).all():
        text = f"too small on average: {x.mean():.3f}"
        raise RuntimeError(text)
    torch._assert(x.sum() < 1000, "too large together")
    for row in x:
        if row.isinf().any():
            raise ValueError
    return x + 1


def test_a_branch_that_only_raises_is_an_assert():
    found = fxengine.capture(raising, X)

    assert found.problems == ()
    assert [node.target for node in found.graph.nodes].count(torch._assert) == 6
    assert torch.equal(found.graph_module(X), raising(X))
    for bad in (X * torch.nan, X + 950, X - 950, X + 200):
        with pytest.raises(AssertionError):
            found.graph_module(bad)


def caught(x):
    try:
        if x.sum() > 0:
            raise ValueError  # noqa: TRY301 - what it is about.
    except ValueError:
        return x * 2
    return x + 1


def with_more(x):
    if x.sum() > 0:
        if x.dim() > 2:
            raise ValueError
        return x * 2
    return x + 1


def both(x):
    if x.sum() > 0 and x.max() > 100:
        raise ValueError
    return x + 1


def any_number(x):
    try:
        count = int(x.abs().sum()) % 7
    except Exception:  # noqa: BLE001 - what it is about.
        count = 100
    return x * count


@pytest.mark.parametrize("model", [caught, with_more, both, any_number])
def test_what_decides_more_than_whether_it_raises_is_a_problem_whatever_the_code_catches(model):
    found = fxengine.capture(model, X)

    assert len(found.problems) == 1
    assert isinstance(found.problems[0].exception, fxengine.capturing.DataDependent)
    for x in (X.abs(), -X.abs()):
        assert torch.equal(found.graph_module(x), model(x))


def _check(x):
    if not (x > 0).all():
        raise ValueError("not in the support")


def warning(x):
    try:
        _check(x)
    except ValueError:
        warnings.warn("not in the support", stacklevel=1)
    return x * 2


@pytest.mark.filterwarnings("ignore:not in the support")
def test_what_is_checked_and_caught_is_no_assert():
    found = fxengine.capture(warning, torch.ones(3))
    assert len(found.problems) == 1
    assert not [node for node in found.graph.nodes if node.target is torch._assert]
    assert torch.equal(found.graph_module(X), X * 2)
