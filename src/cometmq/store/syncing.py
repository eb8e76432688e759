"""Group commit: one sync covers everything that was written when it began."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from cometmq.store.disk import File
from cometmq.store.errors import StoreError
from cometmq.store.jobs import Jobs
from cometmq.store.log import Log
from cometmq.store.position import Mark
from cometmq.store.settings import StoreSettings
from cometmq.store.watermark import Watermark

logger = logging.getLogger("cometmq.store")


def sync_log_file(file: File) -> None:
    """Brings one file of the log to the disk."""
    file.sync()


def sync_log_files(files: list[File]) -> None:
    """The same for several, the oldest first."""
    for file in files:
        sync_log_file(file)


class GroupCommit:
    """Moves `synced` after `written`: at once under SYNC_FLUSH, else every interval."""

    def __init__(
        self,
        log: Log,
        jobs: Jobs,
        settings: StoreSettings,
        on_synced: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._log = log
        self._jobs = jobs
        self._loop = asyncio.get_running_loop()
        self._is_sync = settings.is_sync
        self._interval_s = settings.flush_interval_commit_log / 1000
        self._early = settings.max_unsynced_bytes // 2
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        """The interval ended while a sync was running: the next one follows at once."""
        self.synced = Watermark(log.written.position)
        self.mark = log.mark
        """The last record synced."""
        self.messages = 0
        """Messages synced since the start."""
        self.running_since: float | None = None
        self.has_failed = False

    @property
    def unsynced(self) -> int:
        """How many bytes are written and not synced."""
        return self._log.written.position - self.synced.position

    def want(self) -> None:
        """Something was written: sees to it that it is synced in time."""
        if self._is_sync or self.unsynced >= self._early:
            self.begin()
        elif self._timer is None and not self.has_failed:
            self._timer = self._loop.call_later(self._interval_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._is_due = self.running_since is not None
        self.begin()

    def begin(self) -> None:
        """Syncs now, unless a sync is running: then the next one follows it."""
        if self.running_since is not None or self.has_failed or not self.unsynced:
            return
        begun, messages = self._log.mark, self._log.messages
        files = self._log.files_between(self.synced.position, begun.end)
        self.running_since = self._loop.time()
        work = partial(sync_log_files, files)
        self._jobs.run("sync", work, lambda _: self._ended(begun, messages), self.fail)

    def covered(self, begun: Mark) -> Mark:
        """How far a sync reaches that ends now: what was written when it began, not what came
        while it ran."""
        return begun

    def _ended(self, begun: Mark, messages: int) -> None:
        self.running_since = None
        self.messages = messages
        self.mark = self.covered(begun)
        self.synced.advance(self.mark.end)
        self._log.retire(self.mark.end)
        self._on_synced()
        if self.unsynced and self._is_due:
            self._is_due = False
            self.begin()
        elif self.unsynced:
            self.want()

    def fail(self, error: StoreError) -> None:
        """After a failed sync nobody knows what the disk has, and the page cache may call it clean:
        nothing is tried again, and nothing that was promised is taken back."""
        self.running_since = None
        self.has_failed = True
        self._on_failed(f"the commit log could not be synced: {error}")

    def close(self) -> None:
        """No sync begins by itself any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
