"""Programs written at random: whatever torch.fx makes of them, the engine makes too, and so do the passes after it."""

import copy
import importlib
import linecache
import random
import re
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.fx
from torch.fx._symbolic_trace import _wrapped_fns_to_patch

import fxengine
from tests.parity.program_deeds import DEEDS, Load
from tests.parity.programs import Program, write
from tests.support.parity import Case, attempt, differences, run

_WAY = re.compile(r"\nOriginal traceback:\n.*?(?=\nUse tlparse|\s*\Z)|\s+\Z", re.DOTALL)

FAULTS_OF_TORCH = (
    "TypeError: unhashable type: 'slice'",
    "KeyError: 'torch.fx._symbolic_trace._assert_is_none'",
)
"""How torch.fx's passes fail where the engine's do not: they hash slices, which only Python 3.12 can, and code that
registers a function by its dotted name lets no model be traced after it."""
PER_TEST = 10
"""Programs of one test."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors are tiny: threads would cost more than they save."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def seeds(first: int, count: int) -> list[range]:
    return [range(start, start + PER_TEST) for start in range(first, first + count, PER_TEST)]


@contextmanager
def imported(program: Program) -> Iterator[types.ModuleType]:
    """The program as a module, which pickles can find."""
    name = f"generated_program_{program.seed}"
    module, path = types.ModuleType(name), f"/generated/{name}.py"
    linecache.cache[path] = (len(program.text), None, program.text.splitlines(keepends=True), path)
    sys.modules[name] = module
    try:
        exec(compile(program.text, path, "exec"), module.__dict__)
        yield module
    finally:
        del sys.modules[name], linecache.cache[path]


@contextmanager
def forgetting() -> Iterator[None]:
    """Let torch.fx forget what is registered meanwhile, and how many constants there were.

    It numbers constants across traces. Of code that was registered by a dotted name, as generated code does with
    torch.fx's own functions, no further model can be traced.
    """
    wrapped = set(_wrapped_fns_to_patch)
    torch.fx.Tracer._qualname_counter.clear()
    try:
        yield
    finally:
        for registered in set(_wrapped_fns_to_patch) - wrapped:
            del _wrapped_fns_to_patch[registered]


def of_torch(name: str) -> Any:
    return importlib.import_module(name)


def of_the_engine(name: str) -> Any:
    return importlib.import_module(name.replace("torch.fx", "fxengine"))


def done(name: str, load: Load, graph_module: Any, inputs: tuple[Any, ...]) -> Any:
    """What a deed makes of a copy of a graph module, told."""
    with forgetting():
        return _without_way(attempt(lambda: DEEDS[name](load, copy.deepcopy(graph_module), inputs)))


def _without_way(told: Any) -> Any:
    """What is told, but for the way to a failing node: ours ends with the user's line where torch.fx knows of none."""
    if isinstance(told, str):
        return _WAY.sub("", told)
    if isinstance(told, list):
        return [_without_way(each) for each in told]
    return {key: _without_way(each) for key, each in told.items()} if isinstance(told, dict) else told


def unlike(program: Program, deeds: Iterable[str] = DEEDS) -> list[str]:
    """Where the engine differs from torch.fx on a program, in words."""
    with forgetting(), imported(program) as module, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = Case("", module.make, lambda: module.INPUTS, module.concrete, module.tracer, module.SETTINGS)
        found = differences(case)
        if found:
            return found
        torch.fx.Tracer._qualname_counter.clear()
        root = module.make()
        theirs = run(torch.fx, copy.deepcopy(root), case).module
        ours = run(fxengine, copy.deepcopy(root), case).module
        if theirs is None or ours is None:
            return []
        for name in deeds:
            expected = done(name, of_torch, theirs, module.INPUTS)
            actual = done(name, of_the_engine, ours, module.INPUTS)
            if expected != actual and expected not in FAULTS_OF_TORCH:
                found.append(f"{name}: torch.fx makes\n{expected}\nthe engine\n{actual}")
        return found


def check(numbers: range, deeds: int) -> None:
    for seed in numbers:
        program = write(seed)
        chosen = random.Random(seed).sample(list(DEEDS), deeds)
        found = unlike(program, chosen)
        assert not found, "\n".join([*found, program.text])


@pytest.mark.parametrize("numbers", seeds(0, 100), ids=lambda numbers: f"from {numbers[0]}")
def test_programs(numbers: range) -> None:
    check(numbers, deeds=3)


@pytest.mark.corpus
@pytest.mark.parametrize("numbers", seeds(10_000, 200), ids=lambda numbers: f"from {numbers[0]}")
def test_many_programs(numbers: range) -> None:
    check(numbers, deeds=6)
