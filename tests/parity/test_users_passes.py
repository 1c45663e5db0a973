"""Passes and experiments: the engine's make what torch.fx's make, and torch.fx's own make the same on the engine.

The latter asks whether graphs, nodes, proxies and tracers of the engine are to other people's code what torch.fx's are.
"""

import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.parity.pass_cases import CASES
from tests.support.parity import attempt
from tests.support.transplant import Transplant

OF_TORCH = (
    "torch.fx.annotate",
    "torch.fx.experimental",
    "torch.fx.operator_schemas",
    "torch.fx.passes",
    "torch.fx.subgraph_rewriter",
)
ONCE = (
    "torch.fx.experimental.proxy_tensor",
    "torch.fx.experimental.sym_node",
    "torch.fx.experimental.symbolic_shapes",
    "torch.fx.experimental.unification",
)
"""Modules that torch itself is made of: there is one of them in a process."""


@pytest.fixture(scope="module")
def transplant() -> Iterator[Transplant]:
    transplant = Transplant(*OF_TORCH, keep=ONCE)
    yield transplant
    transplant.forget()


@pytest.fixture(scope="module")
def expected() -> Callable[[str], Any]:
    known: dict[str, Any] = {}

    def result(name: str) -> Any:
        if name not in known:
            known[name] = run(name, importlib.import_module)
        return known[name]

    return result


def run(name: str, load: Callable[[str], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = attempt(CASES[name], load)
    return result, [str(warning.message) for warning in caught if warning.category is UserWarning]


@pytest.mark.parametrize("name", CASES)
def test_the_engines_passes(name: str, expected: Callable[[str], Any]) -> None:
    assert run(name, lambda module: importlib.import_module(module.replace("torch.fx", "fxengine"))) == expected(name)


@pytest.mark.parametrize("name", CASES)
def test_torchs_passes_on_the_engine(name: str, expected: Callable[[str], Any], transplant: Transplant) -> None:
    assert run(name, transplant.load) == expected(name)
    assert {name for name in transplant.missing if not name.startswith(ONCE)} == set()
