"""Signals: those who watch are told in order, until they stop; timers that run once."""

import asyncio

import pytest

from cometmq.runtime import Signal, Timer
from cometmq.testing import simulate


def test_watchers_are_told_in_the_order_of_their_coming():
    told = []
    signal = Signal()
    for name in "abc":
        signal.watch(lambda value, name=name: told.append((name, value)))
    signal.fire(1)
    assert told == [("a", 1), ("b", 1), ("c", 1)]


def test_who_stopped_watching_is_not_told_even_by_the_firing_that_stopped_it():
    told = []
    signal = Signal()
    unwatch = []
    signal.watch(lambda _: unwatch[0]())
    unwatch.append(signal.watch(told.append))
    signal.fire(1)
    assert told == []
    assert bool(signal)


def test_the_next_value_can_be_waited_for_and_leaves_no_watcher():
    async def main():
        signal = Signal()
        waiting = [asyncio.ensure_future(signal.next()) for _ in range(2)]
        await asyncio.sleep(1)
        signal.fire(1)
        signal.fire(2)
        assert [await one for one in waiting] == [1, 1]
        assert not signal

    simulate(main)


def test_who_is_cancelled_while_waiting_watches_no_more():
    async def main():
        signal = Signal()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await signal.next()
        assert not signal

    simulate(main)


def test_a_timer_runs_once_at_the_time_it_was_started_with_first():
    async def main():
        loop = asyncio.get_running_loop()
        ran = []
        timer = Timer(lambda: ran.append(loop.time()))
        assert not timer
        timer.start(2)
        timer.start(1)
        timer.start(3)
        assert timer
        await asyncio.sleep(10)
        assert ran == pytest.approx([2])
        assert not timer
        timer.start(5)
        await asyncio.sleep(10)
        assert ran == pytest.approx([2, 15])

    simulate(main)


def test_a_timer_that_was_stopped_runs_when_it_is_started_again():
    async def main():
        ran = []
        timer = Timer(lambda: ran.append(True))
        timer.stop()
        timer.start(1)
        timer.stop()
        assert not timer
        await asyncio.sleep(5)
        assert ran == []
        timer.start(1)
        await asyncio.sleep(5)
        assert ran == [True]

    simulate(main)


def test_a_timer_may_start_itself_again():
    async def main():
        ran = []

        def work():
            ran.append(True)
            timer.start(1)

        timer = Timer(work)
        timer.start(1)
        await asyncio.sleep(3.5)
        timer.stop()
        assert len(ran) == 3

    simulate(main)
