"""Jobs: blocking work of the store in threads, and the wait until none is left."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from cometmq.runtime.signal import Signal
from cometmq.runtime.threads import Threads
from cometmq.store.errors import StoreError, Trouble

T = TypeVar("T")
Failed = Callable[[StoreError], None]


class Jobs:
    """Hands work over and calls one of two functions on the loop when it is done or has failed."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._running = 0
        self._idle: Signal[None] = Signal()

    def run(
        self, lane: str, work: Callable[[], T], done: Callable[[T], None], failed: Failed
    ) -> None:
        """Does `work` in the thread of its lane."""
        self._running += 1
        self._threads.run(lane, work).add_done_callback(partial(self._ended, done, failed))

    def _ended(
        self, done: Callable[[Any], None], failed: Failed, future: "asyncio.Future[Any]"
    ) -> None:
        self._running -= 1
        try:
            error = asyncio.CancelledError() if future.cancelled() else future.exception()
            if error is None:
                done(future.result())
            elif isinstance(error, StoreError):
                failed(error)
            else:  # a bug of ours must not leave anybody waiting, nor be hidden
                failed(StoreError(Trouble.BROKEN, "a job", "the store", repr(error)))
                raise error
        finally:
            if not self._running:
                self._idle.fire(None)

    async def idle(self) -> None:
        """Returns when no job is running, at once if none is."""
        while self._running:
            await self._idle.next()
