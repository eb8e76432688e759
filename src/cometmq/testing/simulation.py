"""The simulated process: its clock, its threads, and a digest of all that happens.

Handed-over work begins, pauses and ends when the seed wants. Each piece runs in a real thread, of
which only one runs at a time and never beside the loop: at each call on the disk it may pause, and
the loop and the other lanes go on in the middle of it.
"""

import asyncio
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_S = 1_750_000_000.0
"""The wall time at which every simulation begins."""

TICK_S = 1e-7
"""Timers of one moment come in no certain order: a lane and a connection have one."""

PAUSES = 0.12
"""At how many of its calls work pauses."""


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's own loop, with a clock that jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.turns = 0
        """How often the loop has come round."""
        self._clock_resolution = 1e-9
        self._selector = self  # what BaseEventLoop waits in; here waiting is what moves the time

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._now

    def wall_time(self) -> float:
        """Seconds since 1970, as this loop's world has them."""
        return EPOCH_S + self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Lets the time pass that BaseEventLoop wants to wait for."""
        if timeout is None:
            raise RuntimeError("every task waits for something that cannot come any more")
        self.turns += 1
        self._now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are no sockets, so no events."""

    def _write_to_self(self) -> None:
        """Nobody outside of the loop's thread wakes it."""


def simulate(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine on a virtual clock of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


class Trace:
    """Digests events, in their order."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, *parts: object) -> None:
        """One more event; parts are texts, numbers, bytes or tuples of them."""
        for part in parts:
            self._digest.update(part if isinstance(part, bytes) else repr(part).encode())
            self._digest.update(b"\x00")

    def digest(self) -> str:
        """What all events come to."""
        return self._digest.hexdigest()


class _Work(threading.Thread):
    """One piece of work, which holds the baton only while it is resumed."""

    def __init__(self, work: Callable[[], Any], result: "asyncio.Future[Any]") -> None:
        super().__init__(name="simulated", daemon=True)
        self.pause_s = 0.0
        self.ended = False
        self._work = work
        self._result = result
        self._tell: Callable[[], None]
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)

    def run(self) -> None:
        self._go.acquire()
        try:
            self._tell = partial(self._result.set_result, self._work())
        except BaseException as error:  # whatever it is, the loop must get the baton back
            self._tell = partial(self._result.set_exception, error)
        self.ended = True
        self._back.release()

    def resume(self) -> None:
        """Lets it run until it pauses or has ended."""
        self._go.release()
        self._back.acquire()

    def pause(self, seconds: float) -> None:
        """In the thread: gives the baton back for so long."""
        self.pause_s = seconds
        self._back.release()
        self._go.acquire()

    def tell(self) -> None:
        """Hands its outcome over."""
        if not self._result.done():
            self._tell()


@dataclass(eq=False)
class SimulatedThreads:
    """Work of a lane is done in order; between its doing and its result, the loop goes on."""

    chance: Random
    _: KW_ONLY
    most_s: float = 0.003
    trace: Trace = field(default_factory=Trace)
    _lanes: dict[str, deque[_Work]] = field(default_factory=dict, init=False)
    _arrives: dict[str, float] = field(default_factory=dict, init=False)
    _running: _Work | None = field(default=None, init=False)

    def run(self, lane: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Does the work bit by bit, and hands its result back later still."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting = self._lanes.setdefault(lane, deque())
        waiting.append(_Work(work, result))
        if len(waiting) == 1:
            self._begin_next(lane)
        return result

    def pause(self, seconds: float) -> None:
        """In the middle of handed-over work: time passes for everybody else."""
        if self._running is not None and (seconds or self.chance.random() < PAUSES):
            self._running.pause(seconds + self._some_s())

    def close(self) -> None:
        """Nothing to do: a thread ends with its work."""

    def _some_s(self) -> float:
        return self.chance.uniform(0, self.most_s)

    def _begin_next(self, lane: str) -> None:
        asyncio.get_running_loop().call_later(self._some_s(), self._begin, lane)

    def _begin(self, lane: str) -> None:
        self.trace.add("thread", lane)
        self._lanes[lane][0].start()
        self._go_on(lane)

    def _go_on(self, lane: str) -> None:
        loop, waiting = asyncio.get_running_loop(), self._lanes[lane]
        self._running = work = waiting[0]
        work.resume()
        self._running = None
        if not work.ended:
            loop.call_later(work.pause_s, self._go_on, lane)
            return
        # The thread is free again; the loop hears of it a little later.
        waiting.popleft()
        soonest = loop.time() + self._some_s()
        at = self._arrives[lane] = max(self._arrives.get(lane, 0.0) + TICK_S, soonest)
        loop.call_at(at, work.tell)
        if waiting:
            self._begin_next(lane)
