"""The oracle on models whose answers are known: which sites it finds, and that torch.fx raises at each of them."""

import contextlib
import functools
import linecache
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.parity.oracle import Budget, Site, Sites, compare, confirm, sites

INPUTS = (torch.zeros(2, 3),)


def text(site: Site) -> str:
    """The source of a site, cut to its first line."""
    place = site.place
    assert place is not None
    line = linecache.getline(place.path, place.line)
    end = place.end_column if place.end_line == place.line else len(line)
    return line.encode()[place.column : end].decode().strip()


def found(root: Any, inputs: Any = None) -> list[tuple[str, str]]:
    """The sites of a model as text and exception, each of them confirmed by torch.fx."""
    search = sites(root, inputs)
    assert not search.cut
    assert not search.diverged
    for site in search.sites:
        raised = confirm(root, search.evidence[site.key], inputs)
        assert raised is not None, site
        assert raised.exception == site.exception
        assert site.place is None or site.place.within(raised.place) == site.place
    return [(text(site), site.exception) for site in search.sites]


def branches(x):
    if x.sum() > 0:
        y = x + 1
    elif x.mean() > 3:
        y = x
    else:
        y = -x if x.max() > 1 else x
    return y


def loops(x):
    while x.min() > 0:
        x = x - 1
    while True:
        if x.max() > 0:
            break
    return x


def asserted(x):
    assert x.ndim == 2
    if not x.any():
        raise ValueError("nothing")
    return x


def own_error(x):
    x = x + 1
    return x + undefined  # type: ignore[name-defined]  # noqa: F821 - that is the point.


def empty_if_all_are_low(x):
    return torch.stack([part for part in (x, -x) if part.mean() > 0])


def swallowed(x):
    try:
        if x.sum() > 0:
            return x
    except ValueError:
        x = x + 1
    with contextlib.suppress(Exception):
        if x.max() > 0:
            return x
    return x if x.min() > 0 else -x


def handed_on(x):
    try:
        if x.sum() > 0:
            x = x + 1
    except ValueError as error:
        raise TypeError("no") from error
    return x if x.min() > 0 else -x


def passed_on(x):
    with torch.no_grad():
        try:
            if x.sum() > 0:
                x = x + 1
        except KeyError:
            x = x - 1
        finally:
            x = x * 2
    return x if x.min() > 0 else -x


def length(x):
    n = len(x)
    return x if x.sum() > n else -x


def iterated(x):
    total = 0
    for row in x:
        total = total + (row if row.sum() > 0 else -row)
    return total


def numbers(x, ids=torch.arange(8)):  # noqa: B008 - a tensor as a default.
    n = x.shape[1]
    kept = torch.arange(8)[:n]
    some = list(range(n))
    return x + kept[0] + some[n - 1] + float(n) + math.sqrt(n) if x.sum() > 0 else f"{n:.2f}"


def items(x):
    x[0] = 1
    del x[1]
    return x if x.sum() > 0 else -x


def same_value(x, flag):
    parts = () if flag else None
    if flag:
        parts = (*parts, x)
    return parts


def in_a_while(x):
    for _ in range(5):
        if x.sum() > 0:
            x = x + 1
    return x


def argument(x):
    return x.add(object())


class Failing(nn.Module):
    def forward(self, x):
        return x.reshape(len(x))


class Goes(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Failing() for _ in range(3))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        if x:
            return x
        return x if x.sum() > 0 else -x


class Stray(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = [nn.Linear(3, 3)]
        self.parameter = [nn.Parameter(torch.ones(3))]

    def forward(self, x):
        x = self.hidden[0](x)
        x = x + self.parameter[0]
        return x if x.sum() > 0 else -x


class Known(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 3))

    def forward(self, x):
        for index in range(self.weight.shape[0]):
            x = x + index
        return x if x.sum() > 0 else -x


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.seen: list[Tensor] = []
        self.cache: Any = None

    def forward(self, x):
        if self.cache is not None:
            raise ValueError("twice")
        self.cache = x
        self.seen.append(x)
        self.calls += 1
        return x if x.sum() > 0 else -x


class Decorated(nn.Module):
    @functools.lru_cache  # noqa: B019 - any decorator without a code object of its own.
    def forward(self, x):
        return x


TRACE, LENGTH = "TraceError", "RuntimeError"


@pytest.mark.parametrize(
    ("root", "inputs", "expected"),
    [
        (branches, None, [("x.sum() > 0", TRACE), ("x.mean() > 3", TRACE), ("x.max() > 1", TRACE)]),
        (loops, None, [("x.min() > 0", TRACE), ("x.max() > 0", TRACE)]),
        (asserted, None, [("x.ndim == 2", TRACE), ("x.any()", TRACE)]),
        (own_error, None, [("undefined", "NameError")]),
        (empty_if_all_are_low, None, [("part.mean() > 0", TRACE)]),
        (swallowed, None, [("x.min() > 0", TRACE)]),
        (handed_on, None, [('raise TypeError("no") from error', "TypeError"), ("x.min() > 0", TRACE)]),
        (passed_on, None, [("x.sum() > 0", TRACE), ("x.min() > 0", TRACE)]),
        (length, None, [("len(x)", LENGTH)]),
        (length, INPUTS, [("len(x)", LENGTH), ("x.sum() > n", TRACE)]),
        (iterated, None, [("for row in x:", TRACE)]),
        (iterated, INPUTS, [("for row in x:", TRACE), ("row.sum() > 0", TRACE)]),
        (items, None, [("x[0]", "TypeError"), ("x[1]", "TypeError"), ("x.sum() > 0", TRACE)]),
        (same_value, None, [("() if flag else None", TRACE), ("if flag:", TRACE)]),
        (in_a_while, None, [("x.sum() > 0", TRACE)]),
        (argument, None, [("x.add(object())", "NotImplementedError")]),
        (Goes(), None, [("len(x)", LENGTH), ("x.sum() > 0", TRACE)]),
        (
            Stray(),
            None,
            [("self.hidden[0](x)", "NameError"), ("x + self.parameter[0]", "NameError"), ("x.sum() > 0", TRACE)],
        ),
        (Known(), None, [("range(self.weight.shape[0])", "TypeError"), ("x.sum() > 0", TRACE)]),
        (Remembers(), None, [("x.sum() > 0", TRACE)]),
        (nn.Sequential(nn.Linear(3, 3)), None, []),
        (lambda x: x + 1, None, []),
    ],
)  # fmt: skip
def test_sites(root: Any, inputs: Any, expected: list[tuple[str, str]]) -> None:
    assert found(root, inputs) == expected


def test_numbers_are_given_where_they_are_known() -> None:
    assert [text_ for text_, _ in found(numbers, INPUTS)] == [
        "torch.arange(8)[:n]",
        "range(n)",
        "x.sum() > 0",
        'f"{n:.2f}"',
        "some[n - 1]",
        "float(n)",
    ]
    assert [text_ for text_, _ in found(numbers)] == ["torch.arange(8)[:n]"]


def test_a_model_is_left_as_it_was() -> None:
    model = Remembers()
    state = torch.get_rng_state()
    sites(model)
    assert model.cache is None
    assert model.seen == []
    assert model.calls == 0
    assert torch.equal(state, torch.get_rng_state())


def test_errors_without_a_line_belong_to_the_function() -> None:
    (site,) = sites(Decorated()).sites
    assert (site.exception, text(site)) == (
        "AssertionError",
        "@functools.lru_cache  # noqa: B019 - any decorator without a code object of its own.",
    )
    (site,) = sites(lambda x: object()).sites
    assert site.exception == "NotImplementedError"
    assert site.place is not None
    (site,) = sites(3).sites
    assert (site.exception, site.place) == ("AssertionError", None)


def test_time_is_a_limit() -> None:
    def many(x):
        for _ in range(40):
            x = x + (1 if x.sum() > 0 else 2)
        while x.max() > 0:
            while x.min() > 0:
                while x.mean() > 0:
                    x = x + 1
        return x

    search = sites(many, budget=Budget(seconds=0.5))
    assert search.seconds < 2
    assert {text(site) for site in search.sites} >= {"x.sum() > 0", "x.max() > 0"}


def _diagnosed(search: Sites, drop: int = 0) -> Any:
    """A diagnosis that says what the oracle found, but for the first so many sites."""
    problems = []
    for site in search.sites[drop:]:
        place = site.place
        assert place is not None
        span = (place.line, place.column, place.end_line, place.end_column)
        exception = type(site.exception, (Exception,), {})(site.message)
        problems.append(
            SimpleNamespace(
                site=SimpleNamespace(path=place.path, span=span),
                exception=exception,
                code="FX001",
                message=site.message,
            )
        )
    return SimpleNamespace(problems=problems, cut="")


def test_a_comparison_names_what_is_missing_and_what_is_false() -> None:
    search = sites(branches)
    assert not compare(branches, lambda: _diagnosed(search))
    one_missing = compare(branches, lambda: _diagnosed(search, 1))
    assert len(one_missing.missing) == 1
    assert not one_missing.false_problems
    more = _diagnosed(search)
    more.problems.append(_diagnosed(sites(asserted)).problems[0])
    one_false = compare(branches, lambda: more)
    assert len(one_false.false_problems) == 1
    assert not one_false.missing
    assert "one" not in str(one_false)
    twice = _diagnosed(search, 1)
    twice.problems.append(twice.problems[0])
    assert len(compare(branches, lambda: twice).missing) == 1
