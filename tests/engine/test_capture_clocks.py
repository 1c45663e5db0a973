"""What a clock says, and what a function remembers of what was drawn, is another thing in another run: no constant."""

import functools
import random
import time
from time import perf_counter

import pytest
import torch

import fxengine
from fxengine.errors import EmbeddedDraw

X = torch.randn(2, 4)


def _of_module(x):
    return x * (time.time() % 7)


def _of_own_name(x):
    return x + (1 if perf_counter() % 2 < 1 else 2)


def _of_whole_numbers(x):
    return x + time.time_ns() // 10**9


@pytest.mark.parametrize("timed", [_of_module, _of_own_name, _of_whole_numbers])
def test_what_time_it_is_is_told_where_it_decides(timed):
    found = fxengine.capture(timed, X)

    (problem,) = found.problems
    assert problem.rule is EmbeddedDraw
    assert problem.message.startswith("what time it is decides here")
    assert time.time.__name__ == "time"
    assert perf_counter is time.perf_counter


def test_a_clock_that_decides_nothing_is_no_problem():
    def measured(x):
        start = time.perf_counter()
        y = x * 2
        assert time.perf_counter() >= start
        return y

    assert fxengine.capture(measured, X).problems == ()


@functools.lru_cache
def _drawn_once():
    return random.random()


def test_what_a_function_remembers_of_what_was_drawn_is_no_constant():
    _drawn_once.cache_clear()

    found = fxengine.capture(lambda x: x * _drawn_once(), X)

    assert len(found.problems) == 1
    _drawn_once.cache_clear()
    wanted = X * _drawn_once()
    torch.testing.assert_close(found.graph_module(X), wanted)
