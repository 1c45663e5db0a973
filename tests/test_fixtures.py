"""Every file of tests/fixtures against its own markers: problems, spans, hovers, hints, nodes, goldens.

The files are traced by the real worker, one pool for the whole session; see tests/support/markers.py.
"""

import asyncio
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.fx

from fxls.cli.files import SourceFile, read_source
from fxls.cli.tracing import Traced, Tracing
from fxls.settings import Settings
from fxls.workers.pool import WorkerPool
from tests.support.markers import differences, golden, read_markers, settings_of

FIXTURES = Path(__file__).parent / "fixtures"
FILES = sorted(path for path in FIXTURES.rglob("*.py") if not path.name.startswith("_"))
CODES = {f"FX{number:03}" for numbers in (range(1, 10), range(101, 107), range(301, 310)) for number in numbers}


@pytest.fixture(scope="session")
def trace() -> Iterator[Callable[[Path, Settings], Traced]]:
    """Traces a fixture with the worker of the interpreter that runs the tests."""
    with asyncio.Runner() as runner:
        pool = WorkerPool()

        def run(path: Path, settings: Settings) -> Traced:
            tracing = Tracing(pool, settings, (sys.executable,))
            file = SourceFile(str(path), path.relative_to(FIXTURES.parent).as_posix(), named=True)
            return runner.run(tracing.trace(file))

        yield run
        runner.run(pool.close())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FIXTURES).with_suffix("").as_posix())
def test_a_fixture_gives_what_its_markers_say(
    path: Path, trace: Callable[[Path, Settings], Traced], request: pytest.FixtureRequest
) -> None:
    markers = read_markers(read_source(str(path)))
    settings = settings_of(markers)
    traced = trace(path, settings)
    traced = replace(traced, snapshot=replace(traced.snapshot, settings=settings))
    found = differences(markers, traced)
    if markers.golden:
        beside = path.with_suffix(".golden.txt")
        text = golden(traced)
        if request.config.getoption("--update"):
            beside.write_text(text, encoding="utf-8")
        elif not beside.exists() or beside.read_text(encoding="utf-8") != text:
            found.append(f"{beside.name} differs; now it is:\n{text}")
    assert not found, "\n".join(found)


def test_every_code_has_a_fixture() -> None:
    found = {marker.code for path in FILES for marker in read_markers(read_source(str(path))).problems}
    assert CODES - found == set()


TRACED = [path for path in FILES if path.parent.name not in {"world", "layout", "shapes", "ignoring"}]


@pytest.mark.parametrize("path", TRACED, ids=lambda path: path.relative_to(FIXTURES).with_suffix("").as_posix())
def test_torch_fx_stops_where_a_fixture_says(path: Path) -> None:
    """The verdict is torch.fx's: it raises on the line of the first problem, and nowhere where there is none."""
    markers = read_markers(read_source(str(path)))
    lines = {each.line for each in markers.problems if not each.known_wrong and each.code < "FX3"}
    raised = raised_at(path)
    assert raised & lines if lines else not raised


def raised_at(path: Path) -> set[int]:
    """The lines of a fixture that torch.fx's exception went through; empty where it traces."""
    module = types.ModuleType(path.stem)
    with mock.patch.object(sys, "path", [str(path.parent), *sys.path]):
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    try:
        torch.fx.symbolic_trace(module.Net())
    except Exception as error:  # noqa: BLE001 -- the fixture's own code raises whatever it likes.
        return {frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)}
    return set()
