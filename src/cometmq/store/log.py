"""The commit log: what is staged in a turn of the loop goes to its file in one write.

Positions are those of the whole log; a file is named by the position of its first byte.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from cometmq.kernel import headers, records
from cometmq.store.births import make_file
from cometmq.store.disk import Disk, File, write_all
from cometmq.store.errors import StoreError
from cometmq.store.jobs import Jobs
from cometmq.store.position import Mark
from cometmq.store.queues import Queue
from cometmq.store.settings import StoreSettings
from cometmq.store.watermark import Fault, Watermark

FOLDER = "commitlog"

logger = logging.getLogger("cometmq.store")


def path_of(start: int) -> str:
    """The file that begins at this position."""
    return f"{FOLDER}/{start:020d}"


def make_log_file(disk: Disk, settings: StoreSettings, start: int) -> File:
    """A new file of the log, full of zeros."""
    size = settings.mapped_file_size_commit_log

    def fill(file: File) -> None:
        if settings.allocate_commit_log:
            file.allocate(size)
        else:
            file.truncate(size)

    return make_file(disk, path_of(start), fill)


class Turn:
    """What was staged between two writes: records for one file or more, and whose they are."""

    __slots__ = ("begun", "births", "ends", "last", "mark", "segments", "store_ms", "touched")

    def __init__(self, segment: records.Segment, store_ms: int, begun: float) -> None:
        self.segments = [segment]
        self.store_ms = store_ms
        self.begun = begun
        self.touched: list[tuple[Queue, int]] = []
        """Each queue with the number that was its next one before this turn."""
        self.last: headers.Send | None = None
        self.ends: list[int] = []
        """The next numbers of the same queues behind this turn."""
        self.mark = Mark()
        """The last record, once the turn is over."""
        self.births = 0
        """Jobs that make files of new queues and have not ended."""

    @property
    def messages(self) -> int:
        """How many it has, once it is over."""
        return sum(self.ends) - sum(first for _, first in self.touched)


class Log:
    """Where the next record goes, and the way there."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        jobs: Jobs,
        mark: Mark,
        end: int,
        starts: list[int],
        on_written: Callable[[Turn], None],
        on_fault: Callable[[Fault, bool], None],
    ) -> None:
        self._disk = disk
        self._settings = settings
        self._jobs = jobs
        self._loop = asyncio.get_running_loop()
        self._on_written = on_written
        self._on_fault = on_fault
        self.file_size = settings.mapped_file_size_commit_log
        self.starts = starts
        self.written = Watermark(end)
        self.mark = mark
        """The last record written."""
        self.messages = 0
        """Messages written since the start."""
        self.turn: Turn | None = None
        self.segment = records.Segment(end, 0)
        self._staged = end
        self._unwritten: deque[Turn] = deque()
        self._making = False
        self._making_failed: str | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._files: dict[int, File] = {}
        """Open: those that still have to be written or synced."""
        if self.start_of(end) in starts:
            self._files[self.start_of(end)] = disk.open(path_of(self.start_of(end)))
        for start in starts:
            if start > end:
                self._files[start] = disk.open(path_of(start))
        self._make_ahead()

    def start_of(self, position: int) -> int:
        """The file that holds a position."""
        return position - position % self.file_size

    @property
    def unwritten_since(self) -> float | None:
        """When the oldest turn was begun that is still waiting for its file."""
        return self._unwritten[0].begun if self._unwritten else None

    @property
    def staged(self) -> int:
        """Where the log ends with everything that is staged."""
        return self.segment.end if self.turn is not None else self._staged

    # Staging

    def begin_turn(self, store_ms: int) -> str | None:
        """Starts to collect until the loop comes round; or says why there is no file for it."""
        if self._making_failed is not None and self.start_of(self._staged) not in self._files:
            self._make_ahead()
            return self._making_failed
        room = self.file_size - self._staged % self.file_size
        self.segment = records.Segment(self._staged, room)
        turn = self.turn = Turn(self.segment, store_ms, self._loop.time())
        self._loop.call_soon(self._end_turn, turn)
        return None

    def roll(self) -> str | None:
        """Goes on in the next file; why that cannot be, if the next file cannot be made."""
        assert self.turn is not None
        start = self.start_of(self.segment.end)
        if start + self.file_size not in self._files and self._making_failed is not None:
            self._make_ahead()  # perhaps there is space again; this one is refused all the same
            return self._making_failed
        self.segment.blank()
        self.segment = records.Segment(start + self.file_size, self.file_size)
        self.turn.segments.append(self.segment)
        self._make_ahead()
        return None

    def end_turn(self) -> None:
        """Writes what is staged now."""
        if self.turn is not None:
            self._end_turn(self.turn)

    def _end_turn(self, turn: Turn) -> None:
        if turn is not self.turn:
            return  # rejected, or ended early
        self.turn = None
        last = turn.last
        if last is None:
            return  # its sends were all refused
        self._staged = self.segment.end
        turn.mark = Mark(self._staged, last.position, last.size, turn.store_ms)
        turn.touched = [one for one in turn.touched if one[0].tail.next > one[1]]
        turn.ends = [queue.tail.next for queue, _ in turn.touched]
        self._unwritten.append(turn)
        self.write()

    # Writing

    def write(self) -> None:
        """Writes the turns whose files are there, in order."""
        while self._unwritten:
            turn = self._unwritten[0]
            if any(self.start_of(one.position) not in self._files for one in turn.segments):
                self._wait_for_file()
                return
            try:
                for one in turn.segments:
                    start = self.start_of(one.position)
                    write_all(self._files[start], one.data, one.position - start)
            except StoreError as error:
                self._unwrite(turn)
                self._reject(f"the commit log could not be written: {error}", for_good=True)
                return
            self._unwritten.popleft()
            self.mark = turn.mark
            self.messages += turn.messages
            self.written.advance(turn.mark.end)
            self._on_written(turn)

    def _unwrite(self, turn: Turn) -> None:
        # A part of the turn may be in the file. Without its first header nobody finds the rest.
        first = turn.segments[0]
        start = self.start_of(first.position)
        try:
            write_all(self._files[start], bytes(8), first.position - start)
        except StoreError as error:
            logger.error("the log has unwanted bytes from %d on: %s", first.position, error)

    def _reject(self, why: str, *, for_good: bool) -> None:
        """Nothing staged and not written was ever there: queue numbers go back."""
        turns = [*self._unwritten, *([self.turn] if self.turn is not None else [])]
        for turn in reversed(turns):
            for queue, first in turn.touched:
                queue.tail.cut(first)
        self._unwritten.clear()
        self.turn = None
        self._staged = self.written.position
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._on_fault(Fault(self.written.position, stored=False, why=why), for_good)

    # Files

    def _wait_for_file(self) -> None:
        if self._patience is None:
            timeout_ms = self._settings.create_file_timeout
            self._patience = self._loop.call_later(timeout_ms / 1000, self.give_up)
        self._make_ahead()

    def give_up(self) -> None:
        """Refuses what waits for a file that does not come."""
        why = self._making_failed or "making it takes too long"
        self._reject(f"the next file of the commit log is not there: {why}", for_good=False)

    def _make_ahead(self) -> None:
        """One file more than is needed is there, or on its way."""
        here = self.start_of(self.written.position)
        start = self.starts[-1] + self.file_size if self.starts else here
        if self._making or start > self.start_of(self.staged) + self.file_size:
            return
        self._making = True
        self._jobs.run(
            "files",
            lambda: make_log_file(self._disk, self._settings, start),
            lambda file: self._made(start, file),
            self._not_made,
        )

    def _made(self, start: int, file: File) -> None:
        self._making = False
        self._making_failed = None
        self.starts.append(start)
        self._files[start] = file
        self._make_ahead()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self.write()

    def _not_made(self, error: StoreError) -> None:
        self._making = False
        self._making_failed = f"it could not be made: {error}"
        logger.error("the next file of the commit log %s", self._making_failed)

    def files_between(self, start: int, end: int) -> list[File]:
        """The open files with bytes from `start` up to `end`, the oldest first."""
        first = self.start_of(start)
        return [file for at, file in sorted(self._files.items()) if first <= at < end]

    def file_at(self, position: int) -> File | None:
        """The file with this position, if it is open for writing."""
        return self._files.get(self.start_of(position))

    def retire(self, position: int) -> None:
        """Closes the files that end at or before a synced position: nothing is written there."""
        for start in [at for at in self._files if at + self.file_size <= position]:
            self._files.pop(start).close()

    def unused(self) -> list[int]:
        """The files that were made ahead and hold nothing."""
        return [start for start in self.starts if start >= self.written.position]

    def close(self) -> None:
        """Gives all handles back."""
        if self._patience is not None:
            self._patience.cancel()
        for file in self._files.values():
            try:
                file.close()
            except StoreError as error:
                logger.error("%s", error)
        self._files.clear()
