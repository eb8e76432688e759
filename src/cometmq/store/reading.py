"""Reading: by queue offset and tag hash, and by position; at once if hot, else in a thread."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from cometmq.kernel import entries, records
from cometmq.runtime import Signal
from cometmq.store.disk import File, StoreError, Trouble, close_quietly, logger
from cometmq.store.files import Chain
from cometmq.store.log import Jobs, Log, Watermark
from cometmq.store.queues import NO_RECORD, Queue
from cometmq.store.recovery import Recovered, sound_record

T = TypeVar("T")


class Status(enum.Enum):
    """How a read ended (spec 03 12.1); the name is the remark of a pull."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()


@dataclass(frozen=True, slots=True)
class Found:
    """What a read found, and where to go on."""

    status: Status
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    """Whole records as they lie in the log, one behind the other."""
    count: int = 0


class Cold(Signal[None], Generic[T]):
    """A read that waits for the disk: fires when it is done."""

    found: T | None = None
    """There when it is done, unless it failed."""
    error: StoreError | None = None
    done = False

    def end(self, found: T | None, error: StoreError | None = None) -> None:
        """The read is done."""
        self.found, self.error, self.done = found, error, True
        self.fire(None)


class _Wait(Exception):
    """These bytes are not in memory."""


Read = Callable[[Chain, int, int], bytes]
"""Reads so many bytes of one file from this place of the chain on."""


@dataclass(eq=False)
class Reader:
    """Answers reads of one store."""

    _found: Recovered
    _log: Log
    _visible: Watermark
    _jobs: Jobs
    _open: dict[str, File] = field(default_factory=dict, init=False)
    """Files that threads have opened; the oldest give way to new ones."""

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        most: int = 32,
        hashes: frozenset[int] | None = None,
    ) -> Found | Cold[Found]:
        """Visible messages of a queue from `offset` on, those with one of these tag hashes."""
        queue = self._found.queues.get((topic, queue_id))
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if queue is None or high == 0:
            return Found(Status.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return Found(Status.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return Found(Status.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return Found(Status.OFFSET_OVERFLOW_BADLY, high, low, high)
        filed, tail = self._entries(queue, offset, most)

        def work(read: Read) -> Found:
            data = tail
            if filed:
                data = read(self._found.files.of(queue), offset * entries.SIZE, filed) + tail
            return self._find(read, queue, offset, data, hashes, most)

        return self._soon(work)

    def message_at(self, position: int) -> bytes | Cold[bytes | None] | None:
        """The visible record that begins exactly there; None where none does."""
        starts = self._log.starts
        if not starts or position < starts[0]:
            return None
        log = self._found.log
        end = min(log.start_of(position) + log.size, self._visible.position)
        return self._soon(lambda read: sound_record(partial(read, log), position, end))

    def _soon(self, work: Callable[[Read], T]) -> T | Cold[T]:
        try:
            return work(self._read_now)
        except _Wait:
            pass
        cold: Cold[T] = Cold()
        self._jobs.start(self._read_cold(work, cold), lambda error: cold.end(None, error))
        return cold

    async def _read_cold(self, work: Callable[[Read], T], cold: Cold[T]) -> None:
        # The thread opens files of its own and leaves them to us when it is done: so nobody closes
        # a file that another thread is reading.
        opened: dict[str, File] = {}
        read = partial(self._read_there, opened)
        try:
            found = await self._jobs.run("reads", lambda: work(read))
        finally:
            self._keep(opened)
        cold.end(found)

    def _read_now(self, chain: Chain, place: int, size: int) -> bytes:
        """On the loop: _Wait at the first byte that is not in memory."""
        path = chain.path_at(place)
        file = self._log.files.get(path) or self._open.get(path)
        found = None if file is None else file.pread_now(size, place % chain.size)
        if found is None:
            raise _Wait
        return found

    def _read_there(self, opened: dict[str, File], chain: Chain, place: int, size: int) -> bytes:
        """In a thread."""
        path = chain.path_at(place)
        if path not in opened:
            opened[path] = chain.disk.open(path)
        found = opened[path].pread(size, place % chain.size)
        if len(found) != size:
            raise StoreError(Trouble.BROKEN, "pread", path, f"{len(found)} of {size} bytes")
        return found

    def _keep(self, opened: dict[str, File]) -> None:
        for path, file in opened.items():
            if path in self._open:
                close_quietly(file)
            else:
                self._open[path] = file
        while len(self._open) > self._found.settings.max_open_files:
            close_quietly(self._open.pop(next(iter(self._open))))

    def close(self) -> None:
        """Gives all handles back."""
        while self._open:
            close_quietly(self._open.popitem()[1])

    def _entries(self, queue: Queue, offset: int, most: int) -> tuple[int, bytes]:
        """The entries from `offset` on, up to the scan limit, the end of a file and the visible
        end: how many bytes of them are in the file, and those behind."""
        tail, count = queue.tail, self._found.files.file_size // entries.SIZE
        limit = max(1, most, self._found.settings.max_filter_message_size // entries.SIZE)
        end = min(offset + limit, queue.max_offset, (offset // count + 1) * count)
        # The tail is copied here, on the loop: what leaves it later is in the file by then.
        start, stop = (max(one - tail.first, 0) * entries.SIZE for one in (offset, end))
        filed = max(min(end, tail.first) - offset, 0) * entries.SIZE
        return filed, bytes(tail.data[start:stop])

    def _find(
        self,
        read: Read,
        queue: Queue,
        offset: int,
        data: bytes,
        hashes: frozenset[int] | None,
        most: int,
    ) -> Found:
        """Among the entries in `data`, the first of which has the number `offset`."""
        settings = self._found.settings
        most = max(1, min(most, settings.max_transfer_count_on_message_in_memory))
        limits = most, settings.max_transfer_bytes_on_message_in_memory
        found, examined = entries.scan(data, hashes, *limits)
        while found and found[0] == NO_RECORD:  # a number without a record never ends a read
            data = data[examined * entries.SIZE :]
            offset += examined
            found, examined = entries.scan(data, hashes, *limits)
        body, count = self._records(read, queue, found, range(offset, offset + examined))
        status = Status.NO_MATCHED_MESSAGE
        if found:
            status = Status.FOUND if count else Status.MESSAGE_WAS_REMOVING
        elif data and not examined:
            logger.error("no entry %d in %s, passed over", offset, queue.folder)
            examined = 1
        ends = queue.min_offset, queue.max_offset
        return Found(status, offset + examined, *ends, body, count)

    def _records(
        self, read: Read, queue: Queue, found: list[tuple[int, int]], numbers: range
    ) -> tuple[bytes, int]:
        """The bytes of these records, neighbours in the log in one read, and how many are sound."""
        log = self._found.log
        chunks: list[bytes] = []
        count = at = 0
        while at < len(found):
            start = end = found[at][0]
            limit = min(log.start_of(start) + log.size, self._log.written.position)
            run: list[tuple[int, int]] = []
            while at < len(found) and found[at][0] == end <= limit - found[at][1]:
                run.append(found[at])
                end += found[at][1]
                at += 1
            if not run:
                logger.error("an entry points at %d, %d bytes: not served", *found[at])
                at += 1
                continue
            chunk = read(log, start, end - start)
            if not self._is_sound(chunk, run, queue, numbers):
                logger.error("damage in the log between %d and %d: not served", start, end)
                parts = [(chunk[one[0] - start :][: one[1]], [one]) for one in run]
                sound = [part for part, one in parts if self._is_sound(part, one, queue, numbers)]
                chunk, run = b"".join(sound), run[: len(sound)]
            chunks.append(chunk)
            count += len(run)
        return b"".join(chunks), count

    def _is_sound(
        self, chunk: bytes, run: list[tuple[int, int]], queue: Queue, numbers: range
    ) -> bool:
        # The CRC costs a fraction of a microsecond a message. Without it a flipped bit reaches the
        # Java client, which then drops everything behind it in the same answer.
        start = run[0][0]
        walked, _, _ = records.walk(chunk, 0, start, start + self._found.log.size)
        own = (queue.topic, queue.queue_id)
        return [one[:2] for one in walked if one[2:4] == own and one[4] in numbers] == run
