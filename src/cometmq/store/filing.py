"""Filing: entries of queues go from memory to their files, and the position file follows.

The order is what recovery rests on: entries, their sync, our position file, the checkpoint. An
entry is filed only when its record is on the disk and visible; P, the position behind which
entries may be missing in files, is the end of the last round.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import closing

from cometmq.kernel import entries
from cometmq.store.disk import Disk
from cometmq.store.errors import StoreError
from cometmq.store.jobs import Jobs
from cometmq.store.log import Log, Turn, path_of
from cometmq.store.position import Mark, PositionFile
from cometmq.store.publishing import Publisher
from cometmq.store.queues import Queue, QueueFiles, entries_below
from cometmq.store.settings import StoreSettings
from cometmq.store.syncing import GroupCommit

SLICE_QUEUES = 64
"""Queues of one job: making a log file must not wait for tens of thousands of them."""

Piece = tuple[str, int, bytes, int]
"""Folder, number of the first entry, entries, byte up to which files exist."""


def crc_of(disk: Disk, file_size: int, mark: Mark) -> int:
    """CRC-32 of the record at a mark, as it lies in the log."""
    if not mark.size:
        return 0
    with closing(disk.open(path_of(mark.offset - mark.offset % file_size))) as file:
        return zlib.crc32(file.pread(mark.size, mark.offset % file_size))


class Filer:
    """Empties the tails of all queues in rounds: by time, or by what a start would have to read."""

    def __init__(
        self,
        disk: Disk,
        log: Log,
        commit: GroupCommit,
        publisher: Publisher,
        files: QueueFiles,
        position: PositionFile,
        jobs: Jobs,
        settings: StoreSettings,
        on_failed: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._log = log
        self._commit = commit
        self._publisher = publisher
        self._files = files
        self._position = position
        self._jobs = jobs
        self._loop = asyncio.get_running_loop()
        self._interval_s = settings.flush_interval_consume_queue / 1000
        self._early = settings.unindexed_limit // 2
        self._on_failed = on_failed
        self._dirty: dict[Queue, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._goal: Mark | None = None
        self._todo: deque[Queue] = deque()
        self._has_failed = False
        self._stopped = False

    @property
    def unfiled(self) -> int:
        """How many bytes of the log a start would have to read."""
        return self._log.mark.end - self._position.last.mark.end

    def add(self, turn: Turn) -> None:
        """A turn was written: its entries have to be filed; new queues get their files at once."""
        births: list[tuple[Queue, Piece]] = []
        for (queue, first), end in zip(turn.touched, turn.ends, strict=True):
            self._dirty.setdefault(queue)
            if not queue.made:
                # Said before it is true, so that the next turn does not make the file again; that
                # turn becomes visible after this one anyway.
                queue.made = self._files.end_of_first_file(first)
                data = bytes(queue.tail.data[: (end - queue.tail.first) * entries.SIZE])
                births.append((queue, (queue.folder, queue.tail.first, data, 0)))
        if births:
            turn.births += 1
            self._file(births, lambda: self._born(turn))
        self.want()

    def _born(self, turn: Turn) -> None:
        turn.births -= 1
        self._publisher.publish()

    def want(self) -> None:
        """Sees to it that a round begins in time."""
        if self.unfiled >= self._early:
            self._commit.begin()
            self.begin()
        if self._timer is None and self._goal is None and not self._stopped:
            self._timer = self._loop.call_later(self._interval_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self.begin()
        if self._goal is None and self.unfiled:
            self.want()

    def begin(self) -> None:
        """Starts a round over everything that is synced and visible now."""
        goal = min(self._commit.mark, self._publisher.mark, key=lambda mark: mark.end)
        if self._goal is None and not self._has_failed and goal.end > self._position.last.mark.end:
            self._goal = goal
            self._todo.extend(self._dirty)
            self._next_slice(goal)

    def _next_slice(self, goal: Mark) -> None:
        pieces: list[tuple[Queue, Piece]] = []
        while self._todo and len(pieces) < SLICE_QUEUES:
            queue = self._todo.popleft()
            count = entries_below(queue, goal.end)
            if count:
                data = bytes(queue.tail.data[: count * entries.SIZE])
                pieces.append((queue, (queue.folder, queue.tail.first, data, queue.made)))
        if pieces:
            self._file(pieces, lambda: self._sliced(goal, pieces))
        else:
            synced = self._commit.synced.position
            self._jobs.run(
                "files", lambda: self._advance(goal, synced), lambda _: self._ended(), self._fail
            )

    def _file(self, pieces: list[tuple[Queue, Piece]], done: Callable[[], None]) -> None:
        def work() -> list[int]:
            return [self._files.write(*piece) for _, piece in pieces]

        def filed(made: list[int]) -> None:
            for (queue, _), end in zip(pieces, made, strict=True):
                queue.made = max(queue.made, end)
            done()

        self._jobs.run("files", work, filed, self._fail)

    def _sliced(self, goal: Mark, pieces: list[tuple[Queue, Piece]]) -> None:
        for queue, (_, _, data, _) in pieces:
            queue.tail.drop(len(data) // entries.SIZE)
            del self._dirty[queue]
            if queue.tail.data:
                self._dirty[queue] = None
        self._next_slice(goal)

    def _advance(self, goal: Mark, synced: int) -> None:
        crc = crc_of(self._disk, self._log.file_size, goal)
        self._position.advance(self._position.last.after(goal, synced, crc))

    def _ended(self) -> None:
        self._goal = None
        if self.unfiled:
            self.want()

    def _fail(self, error: StoreError) -> None:
        self._goal = None
        self._has_failed = self._stopped = True
        self._on_failed(f"the consume queues could not be written: {error}")

    def close(self) -> None:
        """No round begins by itself any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
