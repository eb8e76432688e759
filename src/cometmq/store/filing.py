"""Filing: entries of queues become visible and go to their files; the position file follows.

What `visible` has passed exists for readers, turn by turn. The order behind it is what recovery
rests on: entries, their sync, our position file, the checkpoint. An entry is filed only when its
record is on the disk and visible; P, the position behind which entries may be missing in files, is
the end of the last round.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from cometmq.kernel import entries
from cometmq.store.errors import StoreError
from cometmq.store.jobs import Jobs
from cometmq.store.log import Log, Turn
from cometmq.store.position import Mark
from cometmq.store.queues import Queue
from cometmq.store.recovery import Recovered
from cometmq.store.syncing import GroupCommit
from cometmq.store.watermark import Watermark

SLICE_QUEUES = 64
"""Queues of one job: making a log file must not wait for tens of thousands of them."""

Piece = tuple[Queue, int, bytes]
"""Queue, number of the first entry, entries."""


def _oldest(queue: Queue, count: int) -> Piece:
    return queue, queue.tail.first, bytes(queue.tail.data[: count * entries.SIZE])


class Filer:
    """Moves `visible` after the watermark that readers are promised. Empties the tails of all
    queues in rounds: by time, or by what a start would have to read."""

    def __init__(
        self,
        found: Recovered,
        log: Log,
        commit: GroupCommit,
        promised: Watermark,
        jobs: Jobs,
        on_failed: Callable[[str], None],
    ) -> None:
        self._settings = found.settings
        self._files = found.files
        self._position = found.position
        self._log = log
        self._commit = commit
        self._promised = promised
        self._jobs = jobs
        self._on_failed = on_failed
        self._hidden: deque[Turn] = deque()
        """Written, and not visible yet."""
        self.visible = Watermark(promised.position)
        self._shown = found.mark
        """The last record that is visible."""
        self._dirty: dict[Queue, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._goal: Mark | None = None
        """Up to where the running round goes."""
        self._todo: deque[Queue] = deque()
        self._has_failed = False
        self._stopped = False

    @property
    def unfiled(self) -> int:
        """How many bytes of the log a start would have to read."""
        return self._log.mark.end - self._position.last.mark.end

    def add(self, turn: Turn) -> None:
        """A turn was written: its entries have to be filed; new queues get their files at once."""
        self._hidden.append(turn)
        births: list[Piece] = []
        for queue, end in turn.added:
            self._dirty.setdefault(queue)
            if not queue.has_files:
                # Said before it is true: the next turn becomes visible after this one anyway.
                queue.has_files = True
                births.append(_oldest(queue, end - queue.tail.first))
        if births:
            turn.births += 1
            self._file(births, lambda: self._born(turn))
        self.want()

    def _born(self, turn: Turn) -> None:
        turn.births -= 1
        self.publish()

    def publish(self) -> None:
        """Shows what may be shown: promised, and each new queue's first file is there."""
        turns, limit = self._hidden, self._promised.position
        while turns and not self._stopped and turns[0].mark.end <= limit and not turns[0].births:
            turn = turns.popleft()
            self._shown = turn.mark
            for queue, end in turn.added:
                queue.publish(end)
        self.visible.advance(self._shown.end)

    def want(self) -> None:
        """Sees to it that a round begins in time."""
        if self.unfiled >= self._settings.unindexed_limit // 2:
            self._commit.begin()
            self.begin()
        is_over = self._has_failed or self._stopped
        if self.unfiled and not (self._timer or self._goal or is_over):
            interval_ms = self._settings.flush_interval_consume_queue
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(interval_ms / 1000, self._due)

    def _due(self) -> None:
        self._timer = None
        self.begin()
        self.want()

    def begin(self) -> None:
        """Starts a round over everything that is synced and visible now."""
        goal = min(self._commit.mark, self._shown, key=lambda mark: mark.end)
        if self._goal is None and not self._has_failed and goal.end > self._position.last.mark.end:
            self._goal = goal
            self._todo.extend(self._dirty)
            self._next_slice(goal)

    def _next_slice(self, goal: Mark) -> None:
        pieces: list[Piece] = []
        while self._todo and len(pieces) < SLICE_QUEUES:
            queue = self._todo.popleft()
            count = queue.entries_below(goal.end)
            if count:
                pieces.append(_oldest(queue, count))
        if pieces:
            self._file(pieces, lambda: self._sliced(goal, pieces))
        else:
            synced = self._commit.synced.position
            work = partial(self._position.advance, goal, synced)
            self._jobs.run("files", work, self._ended, self._fail)

    def _file(self, pieces: list[Piece], done: Callable[[], None]) -> None:
        def work() -> None:
            for queue, first, data in pieces:
                self._files.write(queue.folder, first, data)

        self._jobs.run("files", work, lambda _: done(), self._fail)

    def _sliced(self, goal: Mark, pieces: list[Piece]) -> None:
        for queue, _, data in pieces:
            queue.tail.drop(len(data) // entries.SIZE)
            del self._dirty[queue]
            if queue.tail.data:
                self._dirty[queue] = None
        self._next_slice(goal)

    def _ended(self, _: None) -> None:
        self._goal = None
        self.want()

    def _fail(self, error: StoreError) -> None:
        self._goal = None
        self._has_failed = True
        self._on_failed(f"the consume queues could not be written: {error}")

    def close(self) -> None:
        """Nothing more becomes visible, and no round begins by itself any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
