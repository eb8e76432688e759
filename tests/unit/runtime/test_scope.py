"""Scopes: no task outlives its owner, and everything ends in an order that repeats."""

import asyncio

import pytest

from cometmq.runtime import Scope
from cometmq.testing import simulate


def run(main):
    return asyncio.run(asyncio.wait_for(main(), 5))


def test_tasks_end_newest_first_when_the_block_ends():
    ended = []

    async def work(name):
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(name)

    async def main():
        async with Scope() as scope:
            for name in "abc":
                scope.start(work(name), name)
            await asyncio.sleep(0)

    run(main)
    assert ended == ["c", "b", "a"]


def test_a_task_that_fails_interrupts_the_block_and_is_what_the_block_raises():
    async def fail():
        raise ValueError("the reason")

    async def main():
        async with Scope() as scope:
            scope.start(fail(), "fails")
            await asyncio.sleep(100)

    with pytest.raises(ValueError, match="the reason"):
        run(main)


def test_after_a_failure_the_owner_can_go_on_waiting():
    async def fail():
        raise ValueError

    async def main():
        with pytest.raises(ValueError):
            async with Scope() as scope:
                scope.start(fail(), "fails")
                await asyncio.sleep(100)
        await asyncio.sleep(0)  # would raise if a cancellation were left over
        return asyncio.current_task().cancelling()

    assert run(main) == 0


def test_an_error_of_the_block_itself_is_not_hidden():
    async def main():
        async with Scope() as scope:
            scope.start(asyncio.sleep(100), "sleeps")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(main)


def test_cancellation_from_outside_ends_the_tasks_and_goes_on_outwards():
    ended = []

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def main():
        async def owner():
            async with Scope() as scope:
                scope.start(work(), "works")
                await asyncio.sleep(100)

        task = asyncio.ensure_future(owner())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert ended == [True]


def test_a_task_that_is_done_is_forgotten():
    async def main():
        async with Scope() as scope:
            task = scope.start(asyncio.sleep(0, "value"), "short")
            assert await task == "value"
            await asyncio.sleep(0)
            assert scope._tasks == {}

    run(main)


def test_of_two_tasks_that_fail_the_first_is_what_the_block_raises():
    async def fail(text):
        raise ValueError(text)

    async def main():
        async with Scope() as scope:
            scope.start(fail("one"), "one")
            scope.start(fail("two"), "two")
            await asyncio.sleep(100)

    with pytest.raises(ValueError, match="one"):
        run(main)


def test_a_task_that_fails_while_the_block_ends_is_not_passed_over():
    async def fail_at_the_end():
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("at the end")

    async def main():
        async with Scope() as scope:
            scope.start(fail_at_the_end(), "fails")
            await asyncio.sleep(0)

    with pytest.raises(ValueError, match="at the end"):
        run(main)


def test_a_task_that_ends_by_being_cancelled_is_no_failure():
    async def main():
        async with Scope() as scope:
            scope.start(asyncio.sleep(100), "sleeps").cancel()
            await asyncio.sleep(0)
        return "fine"

    assert run(main) == "fine"


def test_who_is_cancelled_while_closing_is_told_so_once_the_tasks_have_ended():
    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)

    async def main():
        scope = await Scope().__aenter__()
        task = scope.start(work(), "works")
        await asyncio.sleep(1)
        closing = asyncio.ensure_future(scope.close())
        await asyncio.sleep(0.5)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert task.done()

    simulate(main)


def test_who_is_cancelled_while_closing_lets_its_tasks_end_first():
    ended = []

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append("work")

    async def main():
        async def close():
            async with Scope() as scope:
                scope.start(work(), "works")
                await asyncio.sleep(1)

        closing = asyncio.ensure_future(close())
        await asyncio.sleep(1.5)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    simulate(main)
    assert ended == ["work"]


def test_a_scope_without_a_block_is_closed_by_hand_and_interrupts_nobody():
    async def fail():
        raise ValueError

    async def main():
        scope = await Scope().__aenter__()
        scope.start(asyncio.sleep(100), "sleeps")
        await scope.close()
        scope.start(fail(), "fails late")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "not interrupted"

    assert run(main) == "not interrupted"
