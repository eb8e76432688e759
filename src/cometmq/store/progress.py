"""Progress: how far into the log something has come, and the jobs in threads on its way."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cometmq.runtime import Signal, Threads
from cometmq.store.directory import Mark
from cometmq.store.disk import StoreError, Trouble

T = TypeVar("T")


@dataclass(frozen=True)
class Fault:
    """A watermark will not pass `beyond` with what was staged so far.

    `stored`: the records are in the log and may have been promised to somebody (a failed sync);
    if not, they are gone and their senders can be told so.
    """

    beyond: int
    stored: bool
    why: str


class Watermark(Signal[int]):
    """A position of the log that only grows: everything before it has come so far. Fires with
    each move."""

    def __init__(self, position: int, mark: Mark) -> None:
        super().__init__()
        self.position = position
        self.mark = mark
        """The last record before it."""
        self.faults: Signal[Fault] = Signal()
        """What lies beyond a fault at this moment will not come."""

    def advance(self, mark: Mark) -> None:
        """Moves on to the end of a record, and tells so; one that is not ahead changes nothing."""
        if mark.end > self.position:
            self.position, self.mark = mark.end, mark
            self.fire(mark.end)


class Jobs:
    """Blocking work in threads: one of two functions is called on the loop when it is over."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._running = 0
        self._ended: Signal[None] = Signal()

    def run(
        self,
        lane: str,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        """Does `work` in the thread of its lane."""

        def ended(future: "asyncio.Future[T]") -> None:
            self._running -= 1
            self._ended.fire(None)
            error = future.exception()
            if error is None:
                done(future.result())
            elif isinstance(error, StoreError):
                failed(error)
            else:  # a bug of ours must not leave anybody waiting, nor be hidden
                failed(StoreError(Trouble.BROKEN, "a job", "the store", repr(error)))
                raise error

        self._running += 1
        self._threads.run(lane, work).add_done_callback(ended)

    async def idle(self) -> None:
        """Returns when no job is running, at once if none is."""
        while self._running:  # the one that ended may have been followed by others
            await self._ended.next()
