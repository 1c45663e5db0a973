"""The pool: every request is answered, whatever happens to the process that worked on it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from fxls.workers import pool as pool_module
from fxls.workers.pool import PooledWorker, WorkerPool
from fxls.workers.python_env import PythonEnv
from fxworker.texts import digest
from fxworker.wire import Limits, ProfileRequest, Span, TraceRequest, TraceTarget

FAKE = str(Path(__file__).with_name("fake_worker.py"))
TARGET = TraceTarget("Net", "class", Span(1, 6, 1, 9))


def request(text, seconds=10.0):
    return TraceRequest(0, "/project/net.py", text, (TARGET,), limits=Limits(seconds=seconds))


def profile_request(text):
    return ProfileRequest(0, "/project/net.py", text, TARGET, "cpu")


class Log:
    def __init__(self, path):
        self.path = path

    def events(self, name):
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["event"] == name]

    async def wait_for(self, name, count=1):
        async with asyncio.timeout(10):
            while len(self.events(name)) < count:
                await asyncio.sleep(0.01)
        return self.events(name)


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "fake.log"
    monkeypatch.setenv("FXLS_FAKE_LOG", str(path))
    return Log(path)


@pytest.fixture
async def worker(log):
    worker = PooledWorker(PythonEnv((sys.executable, FAKE), "test"))
    yield worker
    await worker.close()


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().split()[2] == "Z"


@pytest.mark.parametrize(("unfinished", "asked"), [(0, 1), (1, 2), (9, 3)])
async def test_what_there_was_no_time_for_is_asked_for_again(worker, log, unfinished, asked):
    report = await worker.trace(request(f"# fake: unfinished {unfinished}"))

    assert report.unfinished is (unfinished > 2)
    assert len(await log.wait_for("trace", asked)) == asked


async def test_the_environment_is_what_the_worker_says(worker):
    report = await worker.environment()
    assert (report.torch, report.devices, report.problem) == ("2.13.0", ("cpu",), "")


async def test_a_trace_names_the_text_that_it_was_asked_about(worker):
    reports = await asyncio.gather(*(worker.trace(request(f"x = {number}")) for number in range(20)))
    assert [report.digest for report in reports] == [digest(f"x = {number}") for number in range(20)]


async def test_one_process_serves_all_traces(worker, log):
    for number in range(3):
        await worker.trace(request(f"x = {number}"))
    assert len(log.events("start")) == 1


async def test_a_dead_worker_is_an_answer_and_the_next_request_finds_a_new_one(worker, log):
    report = await worker.trace(request("# fake: die"))
    assert (report.status, report.digest) == ("not traced", digest("# fake: die"))
    assert [(each.code, each.message) for each in report.problems] == [
        ("FX105", "nothing could be traced: the worker died (exit code 3)")
    ]
    assert (await worker.trace(request("x = 1"))).status == "complete"
    assert len(log.events("start")) == 2


async def test_all_requests_in_flight_are_answered_when_the_worker_is_killed(worker, log):
    asking = [asyncio.create_task(worker.trace(request("# fake: sleep 60"))) for _ in range(5)]
    await log.wait_for("trace", 5)
    os.kill(log.events("start")[0]["pid"], signal.SIGKILL)
    reports = await asyncio.wait_for(asyncio.gather(*asking), 5)
    assert {each.code for report in reports for each in report.problems} == {"FX105"}
    assert "SIGKILL" in reports[0].problems[0].message


async def test_a_worker_that_writes_garbage_is_ended_and_replaced(worker):
    report = await worker.trace(request("# fake: garbage\n# fake: sleep 60"))
    assert report.problems[0].code == "FX105"
    assert (await worker.trace(request("x = 1"))).status == "complete"


async def test_cancelling_a_trace_tells_the_worker_at_once(worker, log):
    asking = asyncio.create_task(worker.trace(request("# fake: sleep 60")))
    (traced,) = await log.wait_for("trace")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (cancelled,) = await log.wait_for("cancel")
    assert cancelled["id"] == traced["id"]
    assert (await worker.trace(request("x = 1"))).status == "complete"


async def test_whoever_is_cancelled_while_the_worker_starts_spoils_it_for_nobody(log):
    worker = PooledWorker(PythonEnv((sys.executable, FAKE), "test"))
    asking = [asyncio.create_task(worker.environment()), asyncio.create_task(worker.trace(request("x = 1")))]
    while worker._template is None or not worker._template.alive:
        await asyncio.sleep(0)
    for each in asking:
        each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await each
    assert (await worker.trace(request("x = 2"))).status == "complete"
    await worker.close()


async def test_a_worker_that_does_not_keep_the_limit_is_ended(worker, log, monkeypatch):
    monkeypatch.setattr(pool_module, "_PATIENCE", 0.3)
    await worker.environment()
    report = await asyncio.wait_for(worker.trace(request("# fake: sleep 60", seconds=0.2)), 5)
    assert [each.code for each in report.problems] == ["FX104"]
    assert (await worker.trace(request("x = 1"))).status == "complete"


async def test_an_interpreter_without_torch_is_a_problem_and_is_started_once(log):
    worker = PooledWorker(PythonEnv((sys.executable, FAKE, "--no-torch"), "test"))
    assert (await worker.environment()).problem == "the interpreter has no torch"
    for _ in range(3):
        assert (await worker.trace(request("x = 1"))).status == "not traced"
    assert len(log.events("start")) == 1
    await worker.close()


async def test_an_interpreter_that_ends_says_why(log):
    worker = PooledWorker(PythonEnv((sys.executable, FAKE, "--dead"), "test"))
    problem = (await worker.environment()).problem
    assert problem == "the interpreter ended before torch was loaded (exit code 1): no such thing as torch"
    await worker.close()


async def test_a_command_that_does_not_exist_is_a_problem(tmp_path):
    worker = PooledWorker(PythonEnv((str(tmp_path / "python"),), "test"))
    assert "cannot be started: No such file or directory" in (await worker.environment()).problem
    assert (await worker.trace(request("x = 1"))).problems[0].code == "FX105"
    await worker.close()


async def test_a_worker_that_keeps_dying_is_started_ever_more_slowly(log):
    worker = PooledWorker(PythonEnv((sys.executable, FAKE), "test"))
    loop = asyncio.get_running_loop()
    took = []
    for _ in range(3):
        start = loop.time()
        await worker.trace(request("# fake: die"))
        took.append(loop.time() - start)
    assert took[2] > took[0] + 0.5
    await worker.close()


async def test_a_profile_runs_in_a_process_of_its_own_that_ends(worker, log):
    await worker.environment()
    shown = []
    report = await worker.profile(profile_request("x = 1"), shown.append)
    assert (report.status, report.digest) == ("complete", digest("x = 1"))
    assert [each.percentage for each in shown] == list(range(0, 101, 10))
    starts = await log.wait_for("start", 2)
    async with asyncio.timeout(5):
        while not gone(starts[1]["pid"]):
            await asyncio.sleep(0.01)
    assert not gone(starts[0]["pid"])


async def test_cancelling_a_profile_ends_its_process(worker, log):
    shown = asyncio.Event()
    asking = asyncio.create_task(worker.profile(profile_request("# fake: sluggish"), lambda _: shown.set()))
    await asyncio.wait_for(shown.wait(), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with asyncio.timeout(5):
        while not gone(log.events("start")[0]["pid"]):
            await asyncio.sleep(0.01)


async def test_closing_answers_what_is_in_flight_and_leaves_no_process(log):
    pool = WorkerPool()
    worker = pool.client(PythonEnv((sys.executable, FAKE), "test"))
    asking = asyncio.create_task(worker.trace(request("# fake: sleep 60")))
    await log.wait_for("trace")
    await pool.close()
    assert (await asyncio.wait_for(asking, 1)).problems[0].code == "FX105"
    assert gone(log.events("start")[0]["pid"])


async def test_closing_while_the_worker_starts_answers_too(log):
    pool = WorkerPool()
    worker = pool.client(PythonEnv((sys.executable, FAKE), "test"))
    asking = asyncio.create_task(worker.trace(request("x = 1")))
    await asyncio.sleep(0)
    await pool.close()
    report = await asyncio.wait_for(asking, 5)
    assert report.digest == digest("x = 1")
    assert all(gone(entry["pid"]) for entry in log.events("start"))
