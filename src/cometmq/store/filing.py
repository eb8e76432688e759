"""Filing: entries of queues become visible and go to their files; the position file follows.

What `visible` has passed exists for readers, turn by turn. The order behind it is what recovery
rests on: entries, their sync, our position file, the checkpoint. An entry is filed only when its
record is on the disk and visible; P, the position behind which entries may be missing in files, is
the end of the last round.
"""

from collections import deque

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
        self.visible = Watermark(found.mark)
        self._dirty: dict[Queue, None] = {}
        self._timer = Timer(self.begin)
        self._is_filing = False
        self._stopped = False
        log.synced.watch(lambda _: self._show())
        log.synced.faults.watch(self._fault)

    @property
    def _may_begin(self) -> bool:
        return not self._is_filing and self._log.read_only is None

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
            self._jobs.start(self._bear(turn, births), self._fail)
        self._show()

    async def _bear(self, turn: Turn, births: list[Piece]) -> None:
        await self._write(births)
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
        if self.unfiled and self._may_begin:
            self._timer.start(self._found.settings.flush_interval_consume_queue / 1000)

    def begin(self) -> None:
        """Starts a round over everything that is synced and visible now."""
        goal = min(self._log.synced.mark, self.visible.mark, key=lambda mark: mark.end)
        if self._may_begin and goal.end > self._found.position.last.mark.end:
            self._is_filing = True
            self._jobs.start(self._round(goal), self._fail)

    async def _round(self, goal: Mark) -> None:
        dirty = tuple(self._dirty)
        for at in range(0, len(dirty), SLICE_QUEUES):
            queues = dirty[at : at + SLICE_QUEUES]
            counts = [(queue, queue.entries_below(goal.end)) for queue in queues]
            pieces = [_oldest(queue, count) for queue, count in counts if count]
            await self._write(pieces)
            for queue, _, data in pieces:
                queue.tail.drop(len(data) // entries.SIZE)
                if not queue.tail.data:
                    del self._dirty[queue]
        position, synced = self._found.position, self._log.synced.position
        await self._jobs.run("files", lambda: position.advance(goal, synced))
        self._is_filing = False
        self._want()

    async def _write(self, pieces: list[Piece]) -> None:
        def work() -> None:
            for queue, first, data in pieces:
                self._found.files.write(queue, first, data)

        await self._jobs.run("files", work)

    def _fail(self, error: StoreError) -> None:
        self._log.stop(f"the consume queues could not be written: {error}")

    def close(self) -> None:
        """Nothing more becomes visible, and no round begins by itself any more."""
        self._stopped = True
        self._timer.stop()
