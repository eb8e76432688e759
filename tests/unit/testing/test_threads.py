"""Simulated threads: lanes in order, others in between, one run for one seed."""

import asyncio
import random
from itertools import pairwise

import pytest

from cometmq.testing import SimulatedThreads, Trace, simulate


def test_the_work_of_a_lane_is_done_and_told_in_order() -> None:
    async def main() -> tuple[list[int], list[int]]:
        threads = SimulatedThreads(random.Random(1))
        done: list[int] = []
        told: list[int] = []
        for number in range(50):
            future = threads.run("lane", lambda number=number: done.append(number))
            future.add_done_callback(lambda _, number=number: told.append(number))
        await future
        await asyncio.sleep(0)
        threads.close()
        return done, told

    done, told = simulate(main)
    assert done == told == list(range(50))


def test_other_lanes_and_the_loop_go_on_in_the_middle_of_a_thread_s_work() -> None:
    async def main() -> list[str]:
        threads = SimulatedThreads(random.Random(3))
        events: list[str] = []

        def work(name: str) -> None:
            for _ in range(20):
                events.append(name)
                threads.pause(0.001)

        await asyncio.gather(*(threads.run(lane, lambda lane=lane: work(lane)) for lane in "ab"))
        threads.close()
        return events

    def changes(events: list[str]) -> int:
        return sum(one != other for one, other in pairwise(events))

    found = [changes(simulate(main)) for _ in range(3)]
    assert found[0] == found[1] == found[2]


def test_a_failure_comes_back_as_it_was_raised() -> None:
    async def main() -> None:
        threads = SimulatedThreads(random.Random(1))
        for _ in range(10):
            with pytest.raises(KeyError, match="why"):
                await threads.run("lane", lambda: {}["why"])
        threads.close()

    simulate(main)


def test_one_seed_gives_one_order() -> None:
    def digest(seed: int) -> str:
        trace = Trace()

        async def main() -> None:
            threads = SimulatedThreads(random.Random(seed), trace=trace)

            def work(lane: str) -> None:
                for step in range(5):
                    trace.add(lane, step)
                    threads.pause(0)

            lanes = ["a", "b", "c"] * 4
            await asyncio.gather(
                *(threads.run(lane, lambda lane=lane: work(lane)) for lane in lanes)
            )
            threads.close()

        simulate(main)
        return trace.digest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)
