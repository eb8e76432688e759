"""Reading: by queue offset and tag hash, and by position; at once if hot, else in a thread."""

import asyncio
import enum
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cometmq.kernel import entries, records
from cometmq.runtime.signal import Signal
from cometmq.store.disk import Disk, File
from cometmq.store.errors import StoreError, Trouble
from cometmq.store.jobs import Jobs
from cometmq.store.log import Log, logger, path_of
from cometmq.store.queues import Queue, is_filler
from cometmq.store.settings import StoreSettings
from cometmq.store.watermark import Watermark

T = TypeVar("T")

_RECORD = struct.Struct(">iI20xq")  # size, magic, recorded position
GUESS = 4096
"""Bytes read for a record whose length is not known: most fit."""


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
    """What a read found: whole records as they lie in the log, and where to go on."""

    status: Status
    next_offset: int
    min_offset: int
    max_offset: int
    chunks: tuple[bytes, ...] = ()
    count: int = 0

    @property
    def body(self) -> bytes:
        """All records, one behind the other."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)


class Cold(Generic[T]):
    """A read that waits for the disk. `found` is there once it is done, unless it failed."""

    def __init__(self) -> None:
        self.found: T | None = None
        self.error: StoreError | None = None
        self.done = False
        self._signal: Signal[object] = Signal()

    def watch(self, tell: Callable[[object], None]) -> Callable[[], None]:
        """Calls `tell` when the read is done."""
        if self.done:
            return asyncio.get_running_loop().call_soon(tell, None).cancel
        return self._signal.watch(tell)

    def end(self, found: T | None, error: StoreError | None) -> None:
        """The read is done."""
        self.found, self.error, self.done = found, error, True
        self._signal.fire(None)


class _Wait(Exception):
    """These bytes are not in memory."""


class Hot:
    """Reads what needs no waiting; raises _Wait at the first byte that does."""

    def __init__(self, disk: Disk, log: Log, most: int) -> None:
        self._disk = disk
        self._log = log
        self._most = most
        self._open: OrderedDict[str, File] = OrderedDict()

    def read(self, path: str, size: int, offset: int) -> bytes:
        """Bytes of a file."""
        file = self._open.get(path)
        if file is None:
            raise _Wait
        self._open.move_to_end(path)
        return self._now(file, size, offset)

    def read_log(self, position: int, size: int) -> bytes:
        """Bytes of the log."""
        file = self._log.file_at(position)
        start = self._log.start_of(position)
        if file is None:
            return self.read(path_of(start), size, position - start)
        return self._now(file, size, position - start)

    def _now(self, file: File, size: int, offset: int) -> bytes:
        found = file.pread_now(size, offset)
        if found is None:
            raise _Wait
        return found

    def keep(self, opened: dict[str, File]) -> None:
        """Takes over files that a thread had to open."""
        for path, file in opened.items():
            if path in self._open:
                _close(file)
            else:
                self._open[path] = file
        while len(self._open) > self._most:
            _close(self._open.popitem(last=False)[1])

    def close(self) -> None:
        """Gives all handles back."""
        while self._open:
            _close(self._open.popitem()[1])


class Blocking:
    """The same reads in a thread. It opens its own files, and leaves them to Hot when it is done:
    so nobody closes a file that another thread is reading."""

    def __init__(self, disk: Disk, file_size: int) -> None:
        self._disk = disk
        self._file_size = file_size
        self.opened: dict[str, File] = {}

    def read(self, path: str, size: int, offset: int) -> bytes:
        """Bytes of a file."""
        file = self.opened.get(path)
        if file is None:
            file = self.opened[path] = self._disk.open(path)
        found = file.pread(size, offset)
        if len(found) != size:
            raise StoreError(Trouble.BROKEN, "pread", path, f"{len(found)} of {size} bytes")
        return found

    def read_log(self, position: int, size: int) -> bytes:
        """Bytes of the log."""
        inside = position % self._file_size
        return self.read(path_of(position - inside), size, inside)


def _close(file: File) -> None:
    try:
        file.close()
    except StoreError as error:
        logger.error("%s", error)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Entries from `offset` to `filed` are in a file; those behind are here."""

    queue: Queue
    offset: int
    filed: int
    tail: bytes
    low: int
    high: int


class Reader:
    """Answers reads of one store."""

    def __init__(
        self, disk: Disk, log: Log, visible: Watermark, jobs: Jobs, settings: StoreSettings
    ) -> None:
        self._disk = disk
        self._log = log
        self._visible = visible
        self._jobs = jobs
        self._settings = settings
        self._queue_file = settings.mapped_file_size_consume_queue
        self.hot = Hot(disk, log, settings.max_open_files)

    def read(
        self, queue: Queue, offset: int, most: int, hashes: frozenset[int] | None, most_bytes: int
    ) -> Found | Cold[Found]:
        """Messages of a queue from `offset` on; `hashes` are those of the tags wanted."""
        low, high = queue.min_offset, queue.max_offset
        if low <= offset < high:
            wanted = self._want(queue, offset, max(1, most))
            return self._soon(lambda by: self._read(by, wanted, most, hashes, most_bytes))
        if high == 0:
            return Found(Status.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return Found(Status.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return Found(Status.OFFSET_OVERFLOW_ONE, offset, low, high)
        return Found(Status.OFFSET_OVERFLOW_BADLY, high, low, high)

    def message_at(self, position: int) -> bytes | Cold[bytes | None] | None:
        """The record that begins exactly there, sound and whole; None where none does."""
        end = self._visible.position
        return self._soon(lambda by: self._message_at(by, position, end))

    def _soon(self, work: Callable[[Hot | Blocking], T]) -> T | Cold[T]:
        try:
            return work(self.hot)
        except _Wait:
            pass
        cold: Cold[T] = Cold()
        by = Blocking(self._disk, self._log.file_size)

        def done(found: T) -> None:
            self.hot.keep(by.opened)
            cold.end(found, None)

        def failed(error: StoreError) -> None:
            self.hot.keep(by.opened)
            cold.end(None, error)

        self._jobs.run("reads", lambda: work(by), done, failed)
        return cold

    def _want(self, queue: Queue, offset: int, most: int) -> "_Wanted":
        """Entries from `offset` on: up to the scan limit, the end of a file, the visible end."""
        per_file = self._queue_file // entries.SIZE
        limit = max(self._settings.max_filter_message_size // entries.SIZE, most)
        end = min(offset + limit, queue.max_offset, (offset // per_file + 1) * per_file)
        # The tail is copied here, on the loop: what leaves it later is in the file by then.
        first = queue.tail.first
        start = max(offset, first) - first
        stop = max(end, first) - first
        tail = bytes(queue.tail.data[start * entries.SIZE : stop * entries.SIZE])
        return _Wanted(queue, offset, min(end, first), tail, queue.min_offset, queue.max_offset)

    def _read(
        self,
        by: Hot | Blocking,
        wanted: "_Wanted",
        most: int,
        hashes: frozenset[int] | None,
        most_bytes: int,
    ) -> Found:
        low, high, offset = wanted.low, wanted.high, wanted.offset
        data = self._entries(by, wanted)
        most, most_bytes = self._limits(data, most, most_bytes)
        found, examined = entries.scan(data, hashes, most, most_bytes)
        while found and is_filler(*found[0]):  # a number without a record never ends a read
            data = data[examined * entries.SIZE :]
            offset += examined
            found, examined = entries.scan(data, hashes, most, most_bytes)
        if not found:
            if data and not examined:
                logger.error("no entry %d in %s, passed over", offset, wanted.queue.folder)
                examined = 1
            return Found(Status.NO_MATCHED_MESSAGE, offset + examined, low, high)
        numbers = range(offset, offset + examined)
        chunks, count = self._records(by, wanted.queue, found, numbers)
        status = Status.FOUND if count else Status.MESSAGE_WAS_REMOVING
        return Found(status, offset + examined, low, high, chunks, count)

    def _entries(self, by: Hot | Blocking, wanted: "_Wanted") -> bytes:
        if wanted.offset >= wanted.filed:
            return wanted.tail
        start = wanted.offset * entries.SIZE
        inside = start % self._queue_file
        size = wanted.filed * entries.SIZE - start
        path = f"{wanted.queue.folder}/{start - inside:020d}"
        return by.read(path, size, inside) + wanted.tail

    def _limits(self, data: bytes, most: int, most_bytes: int) -> tuple[int, int]:
        settings = self._settings
        (position,) = struct.unpack_from(">q", data)
        hot = self._log.written.position - position <= settings.hot_distance
        if hot:
            count = settings.max_transfer_count_on_message_in_memory
            size = settings.max_transfer_bytes_on_message_in_memory
        else:
            count = settings.max_transfer_count_on_message_in_disk
            size = settings.max_transfer_bytes_on_message_in_disk
        return max(1, min(most, count)), min(max(100, most_bytes), size)

    def _records(
        self, by: Hot | Blocking, queue: Queue, found: list[tuple[int, int]], numbers: range
    ) -> tuple[tuple[bytes, ...], int]:
        """The bytes of these records, neighbours in the log in one read, and how many are sound."""
        chunks: list[bytes] = []
        count = at = 0
        while at < len(found):
            start = end = found[at][0]
            limit = min(self._log.start_of(start) + self._log.file_size, self._log.written.position)
            run: list[tuple[int, int]] = []
            while at < len(found) and found[at][0] == end <= limit - found[at][1]:
                run.append(found[at])
                end += found[at][1]
                at += 1
            if not run:
                logger.error("an entry points at %d, %d bytes: not served", *found[at])
                at += 1
                continue
            chunk = by.read_log(start, end - start)
            if not self._is_sound(chunk, run, queue, numbers):
                logger.error("damage in the log between %d and %d: not served", start, end)
                parts = [(chunk[one[0] - start :][: one[1]], [one]) for one in run]
                sound = [part for part, one in parts if self._is_sound(part, one, queue, numbers)]
                chunk, run = b"".join(sound), run[: len(sound)]
            chunks.append(chunk)
            count += len(run)
        return tuple(chunks), count

    def _is_sound(
        self, chunk: bytes, run: list[tuple[int, int]], queue: Queue, numbers: range
    ) -> bool:
        # The CRC costs a fraction of a microsecond a message. Without it a flipped bit reaches the
        # Java client, which then drops everything behind it in the same answer.
        start = run[0][0]
        walked, _, _ = records.walk(chunk, 0, start, start + self._log.file_size)
        own = (queue.topic, queue.queue_id)
        return [one[:2] for one in walked if one[2:4] == own and one[4] in numbers] == run

    def _message_at(self, by: Hot | Blocking, position: int, end: int) -> bytes | None:
        file_end = self._log.start_of(position) + self._log.file_size
        left = min(file_end, end) - position
        if not self._log.starts or position < self._log.starts[0] or left < _RECORD.size:
            return None
        data = by.read_log(position, min(GUESS, left))
        size, magic, recorded = _RECORD.unpack_from(data)
        if magic not in (0xDAA320A7, 0xDAA320AB) or recorded != position or not 0 < size <= left:
            return None
        data = data[:size] if size <= len(data) else by.read_log(position, size)
        return data if records.walk(data, 0, position, file_end)[0] else None
