"""The scheduler: the newest job of a document wins, the document touched last goes first."""

import asyncio

import pytest

from fxls.scheduler import Scheduler


class Work:
    """Jobs that note what becomes of them and end when they are told."""

    def __init__(self):
        self.events = []
        self.gates = {}

    def job(self, name):
        gate = self.gates[name] = asyncio.Event()

        async def run():
            self.events.append(f"start {name}")
            try:
                await gate.wait()
            except asyncio.CancelledError:
                self.events.append(f"cancel {name}")
                raise
            self.events.append(f"end {name}")

        return run


@pytest.fixture
def work():
    return Work()


async def test_a_newer_job_ends_the_older_at_once(work):
    scheduler = Scheduler()
    scheduler.submit("a", work.job("a1"))
    await asyncio.sleep(0)
    scheduler.submit("a", work.job("a2"))
    work.gates["a2"].set()
    await scheduler.settled("a")
    assert work.events == ["start a1", "cancel a1", "start a2", "end a2"]
    assert scheduler.idle


async def test_a_job_that_was_superseded_before_it_started_never_runs(work):
    scheduler = Scheduler(parallel=1)
    for number in range(100):
        scheduler.submit("a", work.job(f"a{number}"))
    work.gates["a99"].set()
    await scheduler.settled("a")
    assert work.events == ["start a99", "end a99"]


async def test_the_document_touched_last_goes_first(work):
    scheduler = Scheduler(parallel=1)
    for key in "abc":
        scheduler.submit(key, work.job(key))
        scheduler.touch(key)
    scheduler.touch("b")
    for key in "acb":
        work.gates[key].set()
    for key in "abc":
        await scheduler.settled(key)
    assert [event for event in work.events if event.startswith("start")] == ["start a", "start b", "start c"]


async def test_the_document_that_the_person_is_at_does_not_wait_for_others(work):
    scheduler = Scheduler(parallel=1)
    scheduler.submit("a", work.job("a"))
    scheduler.submit("b", work.job("b"))
    scheduler.touch("c")
    scheduler.submit("c", work.job("c"))
    await asyncio.sleep(0)
    assert work.events == ["start a", "start c"]
    await scheduler.close()


async def test_no_more_run_than_may(work):
    scheduler = Scheduler(parallel=2)
    for key in "abcd":
        scheduler.submit(key, work.job(key))
    await asyncio.sleep(0)
    assert sum(event.startswith("start") for event in work.events) == 2
    await scheduler.close()


async def test_a_failing_job_is_logged_and_others_run(work, caplog):
    scheduler = Scheduler(parallel=1)

    async def fail():
        raise RuntimeError("ours")

    scheduler.submit("a", fail)
    scheduler.submit("b", work.job("b"))
    work.gates["b"].set()
    await scheduler.settled("a")
    await scheduler.settled("b")
    assert "a job of a failed" in caplog.text
    assert work.events == ["start b", "end b"]


async def test_waiting_for_a_document_waits_for_its_newest_job(work):
    scheduler = Scheduler()
    scheduler.submit("a", work.job("a1"))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(scheduler.settled("a"))
    await asyncio.sleep(0)
    scheduler.submit("a", work.job("a2"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    work.gates["a2"].set()
    await asyncio.wait_for(waiting, 1)


async def test_cancelling_wakes_who_waits(work):
    scheduler = Scheduler()
    scheduler.submit("a", work.job("a1"))
    waiting = asyncio.create_task(scheduler.settled("a"))
    await asyncio.sleep(0)
    scheduler.cancel("a")
    await asyncio.wait_for(waiting, 1)
    assert scheduler.idle


async def test_close_ends_everything(work):
    scheduler = Scheduler(parallel=1)
    scheduler.submit("a", work.job("a"))
    scheduler.submit("b", work.job("b"))
    await asyncio.sleep(0)
    await scheduler.close()
    await asyncio.sleep(0)
    assert work.events == ["start a", "cancel a"]
    assert scheduler.idle


async def typed(scheduler, work, count, pause):
    """Submit jobs as a person types who does not stop; return how many were begun."""
    before = len(work.events)
    for number in range(count):
        scheduler.submit("a", work.job(f"{before}.{number}"))
        await asyncio.sleep(pause)
    return sum(event.startswith("start") for event in work.events[before:])


async def test_who_types_without_a_pause_has_no_job_begun_in_vain_but_for_the_first_ones(work):
    scheduler = Scheduler()
    assert await typed(scheduler, work, 50, 0.005) <= 10
    await asyncio.sleep(0.15)
    assert work.events[-1] == "start 0.49", "as soon as they pause it begins"
    work.gates["0.49"].set()
    await scheduler.settled("a")
    scheduler.submit("a", work.job("next"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.events[-1] == "start next", "what came to its end is forgotten"
    await scheduler.close()


async def test_a_job_that_the_person_has_something_of_is_not_in_vain(work):
    scheduler = Scheduler()

    async def useful():
        work.events.append("start")
        scheduler.progressed("a")
        await asyncio.sleep(60)

    for _ in range(30):
        scheduler.submit("a", useful)
        await asyncio.sleep(0.005)
    assert len(work.events) == 30
    await scheduler.close()


async def test_a_document_that_was_closed_begins_anew(work):
    scheduler = Scheduler()
    await typed(scheduler, work, 20, 0.002)
    scheduler.forget("a")
    assert await typed(scheduler, work, 1, 0.002) == 1
    await scheduler.close()
