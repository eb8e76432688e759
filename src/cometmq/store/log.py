"""The commit log: its files are written turn by turn, synced by group commit, and made ahead.

Positions are those of the whole log; a file is named by the position of its first byte.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from types import coroutine
from typing import Any, TypeVar

from cometmq.kernel import headers, records
from cometmq.protocol import ResponseCode
from cometmq.runtime import Refused, Signal, Threads, Timer
from cometmq.store.directory import Mark
from cometmq.store.disk import File, StoreError, Trouble, close_quietly, logger, write_all
from cometmq.store.files import make_file
from cometmq.store.queues import Queue
from cometmq.store.recovery import Recovered

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

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.position, self.mark = mark.end, mark
        self.faults: Signal[Fault] = Signal()
        """What lies beyond a fault at this moment will not come."""

    def advance(self, mark: Mark) -> None:
        """Moves on to the end of a record, and tells so; one that is not ahead changes nothing."""
        if mark.end > self.position:
            self.position, self.mark = mark.end, mark
            self.fire(mark.end)


class Jobs:
    """Coroutines that wait for blocking work in threads, and for nothing else."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._running = 0
        self._ended: Signal[None] = Signal()

    def start(
        self,
        job: Coroutine["asyncio.Future[Any]", None, None],
        failed: Callable[[StoreError], None],
    ) -> None:
        """Begins a job, at once: as a task it would begin a turn of the loop later. `failed` is
        called where its work has failed."""

        def go_on(_: object) -> None:
            try:
                job.send(None).add_done_callback(go_on)
            except StopIteration:
                pass  # it has come to its end
            except StoreError as error:
                failed(error)

        go_on(None)

    @coroutine
    def run(self, lane: str, work: Callable[[], T]) -> Generator["asyncio.Future[T]", None, T]:
        """For a job: does `work` in the thread of its lane."""
        future = self._threads.run(lane, work)
        self._running += 1
        yield future
        self._running -= 1
        self._ended.fire(None)
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, StoreError):
            # A bug of ours must not leave anybody waiting, nor be hidden.
            logger.error("a job of the store has failed", exc_info=error)
            raise StoreError(Trouble.BROKEN, "a job", "the store", repr(error)) from error
        return future.result()

    async def idle(self) -> None:
        """Returns when no job is running, at once if none is."""
        while self._running:  # what ended may have been followed by more
            await self._ended.next()


@dataclass(eq=False, slots=True)
class Turn:
    """What was staged between two writes: records for one file or more, and whose they are."""

    segments: list[records.Segment]
    store_ms: int
    begun: float
    touched: list[tuple[Queue, int]] = field(default_factory=list)
    """Each queue with the number that was its next one before this turn."""
    last: headers.Send | None = None
    mark: Mark = field(init=False)
    """The last record, once the turn is over."""
    added: Sequence[tuple[Queue, int]] = ()
    """Known then, too: the queues that got messages, and their next number behind this turn."""
    has_births: bool = False
    """The first files of new queues are still on their way."""


def sync_log_file(file: File) -> None:
    """Brings one file of the log to the disk."""
    file.sync()


class Log:
    """Moves `written` with each turn, and `synced` after it: at once under SYNC_FLUSH, else every
    interval."""

    def __init__(self, found: Recovered, jobs: Jobs, on_file: Callable[[], None]) -> None:
        self._settings = found.settings
        self._jobs = jobs
        self._on_file = on_file
        self.chain, self.starts = found.log, found.starts
        self.written, self.synced = Watermark(found.mark), Watermark(found.mark)
        self.read_only: str | None = None
        """Why nothing can be stored any more."""
        self.trouble: str | None = None
        """Why the next file could not be made; None once it could."""
        self._making = False
        self.syncing_since: float | None = None
        """When the sync was begun that is running, or has failed: no other one begins."""
        self._timer = Timer(self.sync)
        paths = [self.chain.path_at(start) for start in found.starts]
        here = self.chain.path_at(found.mark.end)
        self.files = {path: self.chain.disk.open(path) for path in paths if path >= here}
        """Open: those that still have to be written or synced, by their paths."""

    def stop(self, why: str) -> None:
        """Nothing can be stored any more."""
        if self.read_only is None:
            self.read_only = why
            logger.error("the store is read-only from now on: %s", why)

    # Files

    def expect_file(self, position: int) -> None:
        """Refused where there is no file for this position, and it could not be made."""
        if self.trouble is not None and self.chain.path_at(position) not in self.files:
            self.make_ahead(position)  # perhaps there is space again; this send is refused still
            why = f"the commit log has no file for it: {self.trouble}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)

    def make_ahead(self, end: int) -> None:
        """One file more than a log that ends there needs is there, or on its way."""
        here = self.chain.start_of(self.written.position)
        start = self.starts[-1] + self.chain.size if self.starts else here
        if not self._making and start <= self.chain.start_of(end) + self.chain.size:
            self._making = True
            self._jobs.start(self._make(start), self._not_made)

    async def _make(self, start: int) -> None:
        disk, path = self.chain.disk, self.chain.path_at(start)

        def fill(file: File) -> None:
            file.allocate(self.chain.size)  # so that a full disk is found early

        file = await self._jobs.run("files", lambda: make_file(disk, path, fill))
        self.files[path] = file
        self.starts.append(start)
        self._making = False
        self.trouble = None
        self._on_file()

    def _not_made(self, error: StoreError) -> None:
        self._making = False
        self.trouble = f"it could not be made: {error}"
        logger.error("the next file of the commit log %s", self.trouble)

    # Writing

    def has_files(self, turn: Turn) -> bool:
        """All files that it belongs to are there."""
        return all(self.chain.path_at(one.position) in self.files for one in turn.segments)

    def write(self, turn: Turn) -> None:
        """Writes all of a turn, or nothing."""
        try:
            for one in turn.segments:
                self._write(one.data, one.position)
        except StoreError:
            # A part may be in the file. Without its first header nobody finds the rest.
            at = turn.segments[0].position
            try:
                self._write(bytes(8), at)
            except StoreError as error:
                logger.error("the log has unwanted bytes from %d on: %s", at, error)
            raise

    def _write(self, data: bytes | bytearray, position: int) -> None:
        write_all(self.files[self.chain.path_at(position)], data, position % self.chain.size)

    def advance(self, mark: Mark) -> None:
        """Everything up to there is written: sees to it that it is synced in time."""
        self.written.advance(mark)
        self._want_sync()

    # Syncing

    def _want_sync(self) -> None:
        settings = self._settings
        unsynced = self.written.position - self.synced.position
        if settings.is_sync or unsynced >= settings.max_unsynced_bytes // 2:
            self.sync()
        else:
            self._timer.start(settings.flush_interval_commit_log / 1000)

    def sync(self) -> None:
        """Syncs now, unless a sync is running: then the next one follows it."""
        begun, start = self.written.mark, self.synced.position
        if self.syncing_since is not None or begun.end <= start:
            return
        places = range(self.chain.start_of(start), begun.end, self.chain.size)
        files = [self.files[self.chain.path_at(place)] for place in places]
        self.syncing_since = asyncio.get_running_loop().time()
        self._jobs.start(self._sync(files, begun), self.sync_failed)

    async def _sync(self, files: list[File], begun: Mark) -> None:
        def work() -> None:
            for file in files:
                sync_log_file(file)

        await self._jobs.run("sync", work)
        self.syncing_since = None
        self.synced.advance(self.covered(begun))
        here = self.chain.path_at(self.synced.position)
        for path in [path for path in self.files if path < here]:  # nothing more is written there
            close_quietly(self.files.pop(path))
        if self._timer:
            self._want_sync()
        else:  # what came meanwhile is due, or nothing came
            self.sync()

    def covered(self, begun: Mark) -> Mark:
        """How far a sync reaches that ends now: what was written when it began, not what came
        while it ran."""
        return begun

    def sync_failed(self, error: StoreError) -> None:
        """After a failed sync nobody knows what the disk has, and the page cache may call it clean:
        nothing is tried again, and nothing that was promised is taken back."""
        why = f"the commit log could not be synced: {error}"
        self.stop(why)
        self.synced.faults.fire(Fault(self.synced.position, stored=True, why=why))

    def close(self) -> None:
        """No sync begins by itself any more, and all handles are given back."""
        self._timer.stop()
        for file in self.files.values():
            close_quietly(file)
        self.files.clear()
