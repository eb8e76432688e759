"""Filing: entries of queues become visible and go to their files; the position file follows.

What `visible` has passed exists for readers, turn by turn. The order behind it is what recovery
rests on: entries, their sync, our position file, the checkpoint. An entry is filed only when its
record is on the disk and visible; P, the position behind which entries may be missing in files, is
the end of the last round.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from cometmq.kernel import entries
from cometmq.runtime import Timer
from cometmq.store.directory import Mark
from cometmq.store.disk import StoreError, logger
from cometmq.store.log import Fault, Jobs, Log, Turn, Watermark
from cometmq.store.queues import Queue
from cometmq.store.recovery import Recovered

SLICE_QUEUES = 64
"""Queues of one job: making a log file must not wait for tens of thousands of them."""

Piece = tuple[Queue, int, bytes]
"""Queue, number of the first entry, entries."""


def _oldest(queue: Queue, count: int) -> Piece:
    return queue, queue.tail.first, bytes(queue.tail.data[: count * entries.SIZE])


class Filer:
    """Moves `visible` after the watermark that readers are promised. Empties the tails of all
    queues in rounds: by time, or by what a start would have to read."""

    def __init__(self, found: Recovered, log: Log, jobs: Jobs) -> None:
        self._found = found
        self._log = log
        self._jobs = jobs
        self.promised = log.synced if found.settings.is_sync else log.written
        self._hidden: deque[Turn] = deque()
        """Written, and not visible yet."""
        self.visible = Watermark(found.end, found.mark)
        self._dirty: dict[Queue, None] = {}
        self._timer = Timer(self._due)
        self._is_filing = False
        self._has_failed = False
        self._stopped = False
        log.synced.watch(lambda _: self._show())
        log.synced.faults.watch(self._fault)

    @property
    def unfiled(self) -> int:
        """How many bytes of the log a start would have to read."""
        return self._log.written.mark.end - self._found.position.last.mark.end

    # Showing

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
            turn.has_births = True
            self._write(births, lambda: self._born(turn))
        self._show()

    def _born(self, turn: Turn) -> None:
        turn.has_births = False
        self._show()

    def _show(self) -> None:
        """Shows what may be shown: promised, and each new queue's first file is there."""
        turns, limit = self._hidden, self.promised.position
        while (
            turns and not self._stopped and turns[0].mark.end <= limit and not turns[0].has_births
        ):
            turn = turns.popleft()
            for queue, end in turn.added:
                queue.publish(end)
            self.visible.advance(turn.mark)
        self._want()

    def _fault(self, fault: Fault) -> None:
        """After a failed sync nothing more becomes visible."""
        if fault.stored:
            start, end = fault.beyond, self._log.written.position
            # Entries of what is not synced are in no file yet.
            counts = [one.entries_below(end) - one.entries_below(start) for one in self._dirty]
            logger.error(
                "%d messages between %d and %d are written and perhaps not on the disk; those of "
                "them that were promised may be lost in a power cut",
                sum(counts),
                start,
                end,
            )
            self.close()

    # Filing

    def _want(self) -> None:
        """Sees to it that a round begins in time."""
        if self.unfiled >= self._found.settings.unindexed_limit // 2:
            self._log.sync()
            self.begin()
        if self.unfiled and not (self._is_filing or self._has_failed or self._stopped):
            self._timer.start(self._found.settings.flush_interval_consume_queue / 1000)

    def _due(self) -> None:
        self.begin()
        self._want()

    def begin(self) -> None:
        """Starts a round over everything that is synced and visible now."""
        goal = min(self._log.synced.mark, self.visible.mark, key=lambda mark: mark.end)
        may_begin = not (self._is_filing or self._has_failed)
        if may_begin and goal.end > self._found.position.last.mark.end:
            self._is_filing = True
            self._next_slice(goal, iter(tuple(self._dirty)))

    def _next_slice(self, goal: Mark, todo: Iterator[Queue]) -> None:
        queues = list(islice(todo, SLICE_QUEUES))
        if queues:
            counts = [(queue, queue.entries_below(goal.end)) for queue in queues]
            pieces = [_oldest(queue, count) for queue, count in counts if count]
            self._write(pieces, lambda: self._sliced(goal, todo, pieces))
        else:
            work = partial(self._found.position.advance, goal, self._log.synced.position)
            self._jobs.run("files", work, self._ended, self._fail)

    def _sliced(self, goal: Mark, todo: Iterator[Queue], pieces: list[Piece]) -> None:
        for queue, _, data in pieces:
            queue.tail.drop(len(data) // entries.SIZE)
            if not queue.tail.data:
                del self._dirty[queue]
        self._next_slice(goal, todo)

    def _ended(self, _: None) -> None:
        self._is_filing = False
        self._want()

    def _write(self, pieces: list[Piece], done: Callable[[], None]) -> None:
        def work() -> None:
            for queue, first, data in pieces:
                self._found.files.write(queue.folder, first, data)

        self._jobs.run("files", work, lambda _: done(), self._fail)

    def _fail(self, error: StoreError) -> None:
        self._has_failed = True
        self._log.stop(f"the consume queues could not be written: {error}")

    def close(self) -> None:
        """Nothing more becomes visible, and no round begins by itself any more."""
        self._stopped = True
        self._timer.stop()
