"""The commit log: what is staged in a turn of the loop goes to its file in one write.

Positions are those of the whole log; a file is named by the position of its first byte.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cometmq.kernel import headers, records
from cometmq.store.births import LOG, make_file, path_of
from cometmq.store.disk import File, close_quietly, write_all
from cometmq.store.errors import StoreError, logger
from cometmq.store.jobs import Jobs
from cometmq.store.position import Mark
from cometmq.store.queues import Queue
from cometmq.store.recovery import Recovered
from cometmq.store.watermark import Fault, Watermark


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
    births: int = 0
    """Jobs that make files of new queues and have not ended."""


class Log:
    """Where the next record goes, and the way there."""

    def __init__(
        self,
        found: Recovered,
        jobs: Jobs,
        on_written: Callable[[Turn], None],
        on_fault: Callable[[Fault, bool], None],
    ) -> None:
        self._disk = found.disk
        self._settings = found.settings
        self._jobs = jobs
        self._loop = asyncio.get_running_loop()
        self._on_written = on_written
        self._on_fault = on_fault
        self.file_size = found.settings.mapped_file_size_commit_log
        self.starts = found.starts
        self.written = Watermark(found.end)
        self.mark = found.mark
        """The last record written."""
        self.turn: Turn | None = None
        self.segment = records.Segment(found.end, 0)
        """The newest one; its `end` is that of the log with everything that is staged."""
        self.trouble: str | None = None
        """Why the next file could not be made; None once it could."""
        self._unwritten: deque[Turn] = deque()
        self._making = False
        self._patience: asyncio.TimerHandle | None = None
        here = self.start_of(found.end)
        self.files = {
            path_of(LOG, start): self._disk.open(path_of(LOG, start))
            for start in found.starts
            if start >= here
        }
        """Open: those that still have to be written or synced, by their paths."""
        self._make_ahead()

    def start_of(self, position: int) -> int:
        """Where the file begins that holds a position."""
        return position - position % self.file_size

    def path_at(self, position: int) -> str:
        """The path of that file."""
        return path_of(LOG, self.start_of(position))

    @property
    def unwritten_since(self) -> float | None:
        """When the oldest turn was begun that is still waiting for its file."""
        return self._unwritten[0].begun if self._unwritten else None

    # Staging

    def begin_turn(self, store_ms: int) -> bool:
        """Starts to collect until the loop comes round; False where there is no file for it."""
        end = self.segment.end
        if self._is_hopeless(end):
            return False
        self.segment = records.Segment(end, self.file_size - end % self.file_size)
        self.turn = Turn([self.segment], store_ms, self._loop.time())
        self._loop.call_soon(self.end_turn)
        return True

    def roll(self) -> bool:
        """Goes on in the next file; False where that cannot be made."""
        assert self.turn is not None
        start = self.start_of(self.segment.end) + self.file_size
        if self._is_hopeless(start):
            return False
        self.segment.blank()
        self.segment = records.Segment(start, self.file_size)
        self.turn.segments.append(self.segment)
        self._make_ahead()
        return True

    def _is_hopeless(self, position: int) -> bool:
        if self.trouble is None or self.path_at(position) in self.files:
            return False
        self._make_ahead()  # perhaps there is space again; this one is refused all the same
        return True

    def end_turn(self) -> None:
        """Writes what is staged now."""
        turn = self.turn
        if turn is None:
            return  # rejected, or ended early
        self.turn = None
        last = turn.last
        if last is None:  # its sends were all refused
            self.segment = records.Segment(turn.segments[0].position, 0)
            return
        turn.mark = Mark(self.segment.end, last.position, last.size, turn.store_ms)
        turn.added = [(one, one.tail.next) for one, first in turn.touched if one.tail.next > first]
        self._unwritten.append(turn)
        self._write()

    # Writing

    def _write(self) -> None:
        """Writes the turns whose files are there, in order."""
        while self._unwritten:
            turn = self._unwritten[0]
            paths = [self.path_at(one.position) for one in turn.segments]
            if any(path not in self.files for path in paths):
                self._wait_for_file()
                return
            try:
                for one, path in zip(turn.segments, paths, strict=True):
                    write_all(self.files[path], one.data, one.position % self.file_size)
            except StoreError as error:
                self._unwrite(turn)
                self._reject(f"the commit log could not be written: {error}", for_good=True)
                return
            self._unwritten.popleft()
            self.mark = turn.mark
            self.written.advance(turn.mark.end)
            self._on_written(turn)

    def _unwrite(self, turn: Turn) -> None:
        # A part of the turn may be in the file. Without its first header nobody finds the rest.
        at = turn.segments[0].position
        try:
            write_all(self.files[self.path_at(at)], bytes(8), at % self.file_size)
        except StoreError as error:
            logger.error("the log has unwanted bytes from %d on: %s", at, error)

    def _reject(self, why: str, *, for_good: bool) -> None:
        """Nothing staged and not written was ever there: queue numbers go back."""
        turns = [*self._unwritten, *([self.turn] if self.turn is not None else [])]
        for turn in reversed(turns):
            for queue, first in turn.touched:
                queue.tail.cut(first)
        self._unwritten.clear()
        self.turn = None
        self.segment = records.Segment(self.written.position, 0)
        self._stop_waiting()
        self._on_fault(Fault(self.written.position, stored=False, why=why), for_good)

    # Files

    def _wait_for_file(self) -> None:
        if self._patience is None:
            timeout_ms = self._settings.create_file_timeout
            self._patience = self._loop.call_later(timeout_ms / 1000, self.give_up)
        self._make_ahead()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def give_up(self) -> None:
        """Refuses what waits for a file that does not come."""
        why = self.trouble or "making it takes too long"
        self._reject(f"the next file of the commit log is not there: {why}", for_good=False)

    def _make_ahead(self) -> None:
        """One file more than is needed is there, or on its way."""
        here = self.start_of(self.written.position)
        start = self.starts[-1] + self.file_size if self.starts else here
        if not self._making and start <= self.start_of(self.segment.end) + self.file_size:
            self._making = True
            self._jobs.run(
                "files",
                lambda: make_file(self._disk, path_of(LOG, start), self._fill),
                lambda file: self._made(start, file),
                self._not_made,
            )

    def _fill(self, file: File) -> None:
        if self._settings.allocate_commit_log:
            file.allocate(self.file_size)
        else:
            file.truncate(self.file_size)

    def _made(self, start: int, file: File) -> None:
        self._making = False
        self.trouble = None
        self.starts.append(start)
        self.files[path_of(LOG, start)] = file
        self._make_ahead()
        self._stop_waiting()
        self._write()

    def _not_made(self, error: StoreError) -> None:
        self._making = False
        self.trouble = f"it could not be made: {error}"
        logger.error("the next file of the commit log %s", self.trouble)

    def files_between(self, start: int, end: int) -> list[File]:
        """The files with bytes from `start` up to `end`, all of them open, the oldest first."""
        places = range(self.start_of(start), end, self.file_size)
        return [self.files[self.path_at(place)] for place in places]

    def retire(self, position: int) -> None:
        """Closes the files that end at or before a synced position: nothing is written there."""
        here = self.path_at(position)
        for path in [path for path in self.files if path < here]:
            self.files.pop(path).close()

    def unused(self) -> list[int]:
        """The files that were made ahead and hold nothing."""
        return [start for start in self.starts if start >= self.written.position]

    def close(self) -> None:
        """Gives all handles back."""
        self._stop_waiting()
        for file in self.files.values():
            close_quietly(file)
        self.files.clear()
