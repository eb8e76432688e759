"""Group commit: one sync covers everything that was written when it began."""

import asyncio
from collections.abc import Callable

from cometmq.store.disk import File
from cometmq.store.errors import StoreError
from cometmq.store.jobs import Jobs
from cometmq.store.log import Log
from cometmq.store.position import Mark
from cometmq.store.settings import StoreSettings
from cometmq.store.watermark import Watermark


def sync_log_file(file: File) -> None:
    """Brings one file of the log to the disk."""
    file.sync()


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
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._timer: asyncio.TimerHandle | None = None
        self.synced = Watermark(log.written.position)
        self.mark = log.mark
        """The last record synced."""
        self.running_since: float | None = None
        self.has_failed = False

    @property
    def unsynced(self) -> int:
        """How many bytes are written and not synced."""
        return self._log.written.position - self.synced.position

    def want(self) -> None:
        """Something was written: sees to it that it is synced in time."""
        settings = self._settings
        if settings.is_sync or self.unsynced >= settings.max_unsynced_bytes // 2:
            self.begin()
        elif self._timer is None and not self.has_failed:
            interval_ms = settings.flush_interval_commit_log
            self._timer = self._loop.call_later(interval_ms / 1000, self._due)

    def _due(self) -> None:
        self._timer = None
        self.begin()

    def begin(self) -> None:
        """Syncs now, unless a sync is running: then the next one follows it."""
        if self.running_since is not None or self.has_failed or not self.unsynced:
            return
        begun = self._log.mark
        files = self._log.files_between(self.synced.position, begun.end)

        def work() -> None:
            for file in files:
                sync_log_file(file)

        self.running_since = self._loop.time()
        self._jobs.run("sync", work, lambda _: self._ended(begun), self.fail)

    def covered(self, begun: Mark) -> Mark:
        """How far a sync reaches that ends now: what was written when it began, not what came
        while it ran."""
        return begun

    def _ended(self, begun: Mark) -> None:
        self.running_since = None
        self.mark = self.covered(begun)
        self.synced.advance(self.mark.end)
        self._log.retire(self.mark.end)
        self._on_synced()
        if self._timer is None:  # what came meanwhile is due, or nothing came
            self.begin()
        else:
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
