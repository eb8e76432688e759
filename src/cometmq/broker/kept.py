"""Kept: a JSON table that is on disk soon after it changed, and says when it is."""

import asyncio
import logging
from collections.abc import Callable

from cometmq.runtime import Signal, Threads
from cometmq.store import StoreError, Table

log = logging.getLogger("cometmq.broker")


class Kept:
    """Saves a table whenever it has changed; changes that come meanwhile share the next save."""

    def __init__(self, table: Table, threads: Threads, write: Callable[[], bytes]) -> None:
        self._table = table
        self._threads = threads
        self._write = write
        self._changed = 0
        self._saving = False
        self.saved = 0
        self.failure: str | None = None
        self.saves: Signal[object] = Signal()

    def touch(self) -> int:
        """The table has changed: saves it, and returns the number that `saved` will reach."""
        self._changed += 1
        if not self._saving:
            self._start()
        return self._changed

    def is_saved(self, change: int) -> bool:
        """The change with this number is on disk."""
        return self.saved >= change

    def _start(self) -> None:
        self._saving = True
        change, content = self._changed, self._write()
        done = self._threads.run("files", lambda: self._table.save(content))
        done.add_done_callback(lambda future: self._done(change, future))

    def _done(self, change: int, future: "asyncio.Future[None]") -> None:
        self._saving = False
        error = None if future.cancelled() else future.exception()
        if isinstance(error, StoreError):
            self.failure = f"{self._table.name} could not be saved: {error}"
            log.error("%s", self.failure)
        elif error is not None:
            raise error
        elif not future.cancelled():
            self.failure = None
            self.saved = change
        self.saves.fire(None)
        if self.failure is None and self._changed > change:
            self._start()

    async def close(self) -> None:
        """Saves what has changed since the last save."""
        while self.failure is None and (self._saving or self.saved < self._changed):
            if not self._saving:
                self._start()
            await self.saves.next()
