"""Simulated threads: handed-over work that begins, pauses and ends when the seed wants.

Some of it runs in a real thread, of which only one runs at a time and never beside the loop: at
each call on the disk it may pause, and the loop and the other lanes go on in the middle of it.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from cometmq.testing.trace import Trace

T = TypeVar("T")

TICK_S = 1e-7
"""Timers of one moment come in no certain order; a lane has one."""

IN_A_THREAD = 0.4
"""How much of the work can pause; the rest is done in one moment, which is cheaper."""

PAUSES = 0.3
"""At how many of its calls it does."""

Outcome = tuple[Any, BaseException | None]


class _Worker(threading.Thread):
    """A real thread that holds the baton only while it is resumed."""

    def __init__(self) -> None:
        super().__init__(name="simulated", daemon=True)
        self.work: Callable[[], Any] | None = None
        self.outcome: Outcome | None = None
        self.pause_s = 0.0
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self.start()

    def run(self) -> None:
        while True:
            self._go.acquire()
            if self.work is None:
                return
            try:
                self.outcome = self.work(), None
            except BaseException as error:  # whatever it is, the loop must get the baton back
                self.outcome = None, error
            self._back.release()

    def resume(self) -> None:
        """Lets it run until it pauses or has an outcome."""
        self._go.release()
        self._back.acquire()

    def pause(self, seconds: float) -> None:
        """In the thread: gives the baton back for so long."""
        self.pause_s = seconds
        self._back.release()
        self._go.acquire()

    def end(self) -> None:
        """Ends an idle one."""
        self.work = None
        self._go.release()
        self.join()


class SimulatedThreads:
    """Work of a lane is done in order; between its doing and its result, the loop goes on."""

    def __init__(
        self, chance: random.Random, *, most_s: float = 0.003, trace: Trace | None = None
    ) -> None:
        self._random = chance
        self._most_s = most_s
        self._trace = trace or Trace()
        self._lanes: dict[str, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = {}
        self._arrives: dict[str, float] = {}
        self._idle: list[_Worker] = []
        self._running: _Worker | None = None
        self._debt_s: float | None = None
        self._closed = False

    def run(self, lane: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Does the work at one moment, or bit by bit, and hands its result back later still."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting = self._lanes.setdefault(lane, deque())
        waiting.append((result, work))
        if len(waiting) == 1:
            self._begin_next(lane)
        return result

    def pause(self, seconds: float) -> None:
        """In the middle of handed-over work: time passes for everybody else."""
        if self._running is not None:
            if seconds or self._random.random() < PAUSES:
                self._running.pause(seconds + self._random.uniform(0, self._most_s))
        elif self._debt_s is not None:
            self._debt_s += seconds

    def close(self) -> None:
        """Ends its threads; one that is in the middle of work ends with it."""
        self._closed = True
        while self._idle:
            self._idle.pop().end()

    def _begin_next(self, lane: str) -> None:
        wait = self._random.uniform(0, self._most_s)
        asyncio.get_running_loop().call_later(wait, self._begin, lane)

    def _begin(self, lane: str) -> None:
        self._trace.add("thread", lane)
        _, work = self._lanes[lane][0]
        if self._random.random() < IN_A_THREAD:
            worker = self._idle.pop() if self._idle else _Worker()
            worker.work, worker.outcome = work, None
            self._go_on(lane, worker)
            return
        self._debt_s = 0.0
        try:
            outcome: Outcome = work(), None
        except Exception as error:
            outcome = None, error
        debt_s, self._debt_s = self._debt_s, None
        asyncio.get_running_loop().call_later(debt_s, self._end, lane, outcome)

    def _go_on(self, lane: str, worker: _Worker) -> None:
        self._running = worker
        worker.resume()
        self._running = None
        if worker.outcome is None:
            asyncio.get_running_loop().call_later(worker.pause_s, self._go_on, lane, worker)
            return
        outcome = worker.outcome
        if self._closed:
            worker.end()
        else:
            self._idle.append(worker)
        self._end(lane, outcome)

    def _end(self, lane: str, outcome: Outcome) -> None:
        """The thread is free again; the loop hears of it a little later."""
        loop = asyncio.get_running_loop()
        result, _ = self._lanes[lane].popleft()
        soonest = loop.time() + self._random.uniform(0, self._most_s)
        at = self._arrives[lane] = max(self._arrives.get(lane, 0.0) + TICK_S, soonest)
        loop.call_at(at, _give, result, outcome)
        if self._lanes[lane]:
            self._begin_next(lane)


def _give(result: "asyncio.Future[Any]", outcome: Outcome) -> None:
    value, error = outcome
    if result.done():
        return
    if error is None:
        result.set_result(value)
    else:
        result.set_exception(error)
