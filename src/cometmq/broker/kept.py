"""Kept: a table that is on disk soon after it changed, and says when it is."""

import asyncio
import logging
from typing import Generic, TypeVar

from cometmq.protocol import (
    ConsumerOffsetWrapper,
    DataVersion,
    SubscriptionGroupWrapper,
    TopicConfigWrapper,
)
from cometmq.runtime import Clock, Signal, Threads
from cometmq.store import StoreError, Table

log = logging.getLogger("cometmq.broker")

W = TypeVar("W", TopicConfigWrapper, SubscriptionGroupWrapper, ConsumerOffsetWrapper)


class Kept(Generic[W]):
    """The base of the broker's tables; changes that come during a save share the next one."""

    def __init__(self, table: Table, threads: Threads, clock: Clock, kind: type[W]) -> None:
        self._file = table
        self._threads = threads
        self._clock = clock
        found = table.load()
        # What an original stored beside our table is kept for it, though nothing here sets it.
        self._loaded: W = kind.read(found) if found else kind()
        self._version: DataVersion = self._loaded.data_version or DataVersion()  # type: ignore[truthy-bool]
        self._changes = 0
        self._wanted = 0
        self._saving = False
        self.saved = 0
        """The changes that are on disk, by their number."""
        self.failure: str | None = None
        """Why the last save failed; None where it did not, and while another one is under way."""
        self.saves: Signal[object] = Signal()

    def wrapper(self) -> W:
        """The table as it is stored."""
        return self._loaded.but(data_version=self._version)

    def _change(self) -> int:
        """Something is other than on disk now: the number that `saved` will reach."""
        self._changes += 1
        return self._changes

    def _next_version(self) -> None:
        self._version = self._version.next(self._clock.now_ms())

    def save(self) -> None:
        """Saves what is not on disk yet, once more where that has failed before."""
        self._wanted = self._changes
        if self._saving or self.saved == self._changes:
            return
        self._saving = True
        self.failure = None
        change, content = self._changes, self.wrapper().write(pretty=True)
        done = self._threads.run("files", lambda: self._file.save(content))
        done.add_done_callback(lambda future: self._done(change, future))

    def _done(self, change: int, future: "asyncio.Future[None]") -> None:
        self._saving = False
        try:
            future.result()
            self.saved = change
        except (StoreError, asyncio.CancelledError) as error:
            self.failure = f"{self._file.name} could not be saved: {error}"
            log.error("%s", self.failure)
        finally:
            self.saves.fire(None)
        if self.failure is None and self._wanted > change:
            self.save()

    async def close(self) -> None:
        """Saves what is not on disk yet; what cannot be saved is in the log."""
        self.save()
        while self._saving:
            await self.saves.next()
