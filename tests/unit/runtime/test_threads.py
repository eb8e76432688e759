"""Threads: one lane does one thing at a time, in order; lanes do not wait for each other."""

import asyncio
import threading

import pytest

from cometmq.runtime import LocalThreads


@pytest.fixture
def threads():
    made = LocalThreads()
    yield made
    made.close()


def run(work):
    return asyncio.run(asyncio.wait_for(work, 5))


def test_what_a_lane_is_given_is_done_in_its_order_and_off_the_loop(threads):
    async def work():
        done = []
        results = [threads.run("a", lambda n=n: (done.append(n), n)[1]) for n in range(50)]
        assert [await one for one in results] == list(range(50)) == done
        name = await threads.run("a", lambda: threading.current_thread().name)
        assert name.startswith("comet-a")
        assert name != threading.current_thread().name

    run(work())


def test_a_lane_that_is_busy_keeps_no_other_waiting(threads):
    async def work():
        go = threading.Event()
        busy = threads.run("a", lambda: go.wait(5))
        assert await threads.run("b", lambda: 7) == 7
        assert not busy.done()
        go.set()
        assert await busy

    run(work())


def test_an_error_of_the_work_comes_back(threads):
    async def work():
        with pytest.raises(ZeroDivisionError):
            await threads.run("a", lambda: 1 // 0)
        assert await threads.run("a", lambda: 7) == 7

    run(work())


def test_closing_waits_for_what_was_handed_over(threads):
    async def work():
        done = []
        pending = [threads.run("a", lambda n=n: done.append(n)) for n in range(50)]
        threads.close()
        assert len(done) == 50
        await asyncio.gather(*pending)

    run(work())
