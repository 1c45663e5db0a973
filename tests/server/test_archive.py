"""Reports that are kept between sessions: when they are found again, and when not."""

import asyncio
import os
import sys
from dataclasses import replace

import pytest

from fxls import archive
from fxls.archive import Archive
from fxls.workers.python_env import PythonEnv
from fxworker.texts import digest
from fxworker.wire import (
    Construct,
    EnvironmentReport,
    Location,
    Problem,
    Setting,
    Span,
    TargetReport,
    TraceReport,
    TraceRequest,
    TraceTarget,
    Whole,
)

ENV = PythonEnv((sys.executable,), "configured")
RUNS_ON = EnvironmentReport("3.11", sys.executable, "2.13", ("cpu",))
TARGET = TraceTarget("Net", "class", Span(1, 6, 1, 9))


@pytest.fixture
def request_(tmp_path):
    return TraceRequest(7, str(tmp_path / "net.py"), "class Net: ...", (TARGET,), (str(tmp_path),))


def report(request, **more):
    target = TargetReport("Net", "class", Span(1, 6, 1, 9), "complete", Construct("Net()", "inferred"), code="code")
    return TraceReport(7, request.path, digest(request.text), "complete", (target,), **more)


async def again(folder, request, env=ENV, **more):
    """Keep a report in one session, and look for it in the next."""
    before = Archive(folder)
    before.keep(env, request, RUNS_ON, report(request, **more))
    await before.close()
    return await recalled(folder, request, env)


async def recalled(folder, request, env=ENV, **asked):
    after = Archive(folder)
    try:
        return await after.recalled(env, request, **asked)
    finally:
        await after.close()


async def test_a_report_comes_back_in_the_next_session(tmp_path, request_):
    kept = await again(tmp_path / "cache", request_)
    assert kept is not None
    assert kept.report == report(request_)
    assert kept.environment == RUNS_ON
    known = replace(TARGET, constructs=(Construct("Net()", "remembered"),))
    assert await recalled(tmp_path / "cache", replace(request_, id=9, early=True, targets=(known,))) is not None


async def test_whatever_a_report_follows_from_must_be_the_same(tmp_path, request_, monkeypatch):
    folder = tmp_path / "cache"
    assert await again(folder, request_) is not None
    said = replace(TARGET, constructs=(Construct("Net(1)", "directive"),))
    for other in (
        replace(request_, text="class Net: pass"),
        replace(request_, targets=(said,)),
        replace(request_, roots=()),
        replace(request_, sandbox=True),
        replace(request_, path=request_.path + "x"),
    ):
        assert await recalled(folder, other) is None
    assert await recalled(folder, request_, replace(ENV, variables=("-HOME",))) is None
    assert await recalled(folder, request_, replace(ENV, command=("other",))) is None
    monkeypatch.setattr(archive, "program", lambda: "another version")
    assert await recalled(folder, request_) is None


async def test_files_that_were_imported_must_be_the_same(tmp_path, request_):
    layers = tmp_path / "layers.py"
    layers.write_text("WIDTH = 1")
    await asyncio.sleep(0.05)
    await asyncio.sleep(0.02)
    assert await again(tmp_path / "cache", request_, dependencies=(str(layers),)) is not None
    os.utime(layers, (1, 1))
    assert await recalled(tmp_path / "cache", request_) is not None
    layers.write_text("WIDTH = 2")
    assert await recalled(tmp_path / "cache", request_) is None
    layers.unlink()
    assert await recalled(tmp_path / "cache", request_) is None


async def test_a_file_that_changed_while_it_was_traced_leaves_no_report(tmp_path, request_):
    layers = tmp_path / "layers.py"
    before = Archive(tmp_path / "cache")
    before.keep(ENV, request_, RUNS_ON, report(request_, dependencies=(str(layers),)))
    layers.write_text("WIDTH = 2")
    await before.close()
    assert await recalled(tmp_path / "cache", request_) is None


async def test_what_an_accident_made_is_not_kept_and_replaces_what_was_to_be(tmp_path, request_):
    hung = Problem("FX104", "error", "timed out", Location(request_.path, Span(1, 0, 1, 0)))
    before = Archive(tmp_path / "cache")
    before.keep(ENV, request_, RUNS_ON, report(request_))
    before.keep(ENV, request_, RUNS_ON, report(request_, problems=(hung,)))
    before.keep(ENV, request_, RUNS_ON, report(request_, denied="network"))
    await before.close()
    assert await recalled(tmp_path / "cache", request_) is None


async def test_only_the_last_of_many_reports_is_written_and_after_a_pause(tmp_path, request_, monkeypatch):
    monkeypatch.setattr(archive, "_PAUSE", 0.01)
    written = []
    write = Archive._write
    monkeypatch.setattr(Archive, "_write", lambda self, *entry: (written.append(entry), write(self, *entry)))
    kept = Archive(tmp_path / "cache")
    for status in ("partial", "complete"):
        kept.keep(ENV, request_, RUNS_ON, replace(report(request_), status=status))
    async with asyncio.timeout(20):
        while (found := await kept.recalled(ENV, request_)) is None:
            await asyncio.sleep(0.01)
    assert found.report.status == "complete"
    assert len(written) == 1
    await kept.close()


@pytest.mark.parametrize("damage", [b"", b"garbage", "cut", "folder"])
async def test_a_file_that_is_damaged_is_as_good_as_none(tmp_path, request_, damage):
    folder = tmp_path / "cache"
    assert await again(folder, request_) is not None
    (file,) = folder.iterdir()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(file.read_bytes()[:40] if damage == "cut" else damage)
    assert await recalled(folder, request_) is None


async def test_those_that_nobody_asked_for_longest_are_removed(tmp_path, request_, monkeypatch):
    monkeypatch.setattr(archive, "_MOST_FILES", 2)
    folder = tmp_path / "cache"
    requests = [replace(request_, path=f"{request_.path}{number}") for number in range(3)]
    for number, each in enumerate(requests[:2]):
        await again(folder, each)
        file = Archive(folder)._file(ENV, each.path)
        os.utime(file, (number + 1, number + 1))
    assert await recalled(folder, requests[0]) is not None
    await again(folder, requests[2])
    assert [await recalled(folder, each) is not None for each in requests] == [True, False, True]
    assert len(list(folder.iterdir())) == 2


async def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path, request_):
    (tmp_path / "cache").write_text("a file")
    assert await again(tmp_path / "cache", request_) is None


async def test_what_other_files_say_may_be_unknown_for_the_time_being(tmp_path, request_):
    elsewhere = Location(str(tmp_path / "train.py"), Span(9, 0, 9, 9))
    called = replace(
        TARGET,
        constructs=(Construct("Net(8)", "call", elsewhere),),
        wholes=(Whole(str(tmp_path / "whole.py"), "Outer"),),
    )
    known = replace(request_, targets=(called,), settings=(Setting("width", "8", elsewhere),))
    folder = tmp_path / "cache"
    assert not (await again(folder, known)).provisional
    assert await recalled(folder, request_) is None
    assert (await recalled(folder, request_, hasty=True)).provisional
    assert not (await recalled(folder, known, hasty=True)).provisional
    own = replace(request_, targets=(replace(TARGET, constructs=(Construct("Net(4)", "call"),)),))
    assert await recalled(folder, own, hasty=True) is None
