"""Simulated threads: handed-over work that begins and ends when the seed wants."""

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from cometmq.testing.trace import Trace

T = TypeVar("T")

TICK_S = 1e-7
"""Timers of one moment come in no certain order; a lane has one."""


class SimulatedThreads:
    """Work of a lane is done in order; between its doing and its result, the loop goes on."""

    def __init__(
        self, chance: random.Random, *, most_s: float = 0.003, trace: Trace | None = None
    ) -> None:
        self._random = chance
        self._most_s = most_s
        self._trace = trace or Trace()
        self._free: dict[str, float] = {}
        self.costs: dict[str, float] = {}
        """Seconds that each piece of work of a lane takes, where that is not left to the seed."""

    def run(self, lane: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Does the work at one moment, a little later, and hands its result back later still."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        cost = self.costs.get(lane)
        wait, takes = (
            (self._random.uniform(0, self._most_s), self._random.uniform(0, self._most_s))
            if cost is None
            else (0.0, cost)
        )
        begins = max(loop.time(), self._free.get(lane, 0.0) + TICK_S) + wait
        self._free[lane] = begins + takes

        def begin() -> None:
            self._trace.add("thread", lane)
            try:
                value = work()
            except Exception as error:
                loop.call_later(takes, _fail, result, error)
            else:
                loop.call_later(takes, _give, result, value)

        loop.call_at(begins, begin)
        return result

    def close(self) -> None:
        """There is nothing to end."""


def _give(result: "asyncio.Future[T]", value: T) -> None:
    if not result.done():
        result.set_result(value)


def _fail(result: "asyncio.Future[T]", error: Exception) -> None:
    if not result.done():
        result.set_exception(error)
