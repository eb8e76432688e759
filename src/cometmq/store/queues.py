"""Consume queues: the entries of one queue in memory and in its files (spec 03 ch. 7).

New entries live in a tail in memory and reach their file in batches; an idle queue holds no file.
"""

import struct
from collections.abc import Callable
from contextlib import closing

from cometmq.kernel import entries
from cometmq.runtime.signal import Signal
from cometmq.store.births import make_file, make_folders
from cometmq.store.disk import Disk, File, write_all

FOLDER = "consumequeue"
FILLER = entries.pack(0, 0x7FFFFFFF, 0)
"""Stands where a number has no record: before the first one kept, and for a damaged record."""

_PLACE = struct.Struct(">qi")


class Queue:
    """One queue of a topic. Made on first use; its folder is made with its first message."""

    __slots__ = (
        "arrivals",
        "first_position",
        "made",
        "max_offset",
        "min_offset",
        "queue_id",
        "tail",
        "topic",
        "topic_bytes",
        "turn",
    )

    def __init__(self, topic: str, queue_id: int, next_offset: int = 0) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.tail = entries.Tail(next_offset)
        """Entries that are in no file yet; its `next` is the number of the next message."""
        self.min_offset = 0
        self.max_offset = next_offset
        """The number behind the last visible message."""
        self.first_position: int | None = None
        """Where in the log message 0 lies, as long as it is there."""
        self.made = 0
        """The byte up to which its files have been made; 0 before the first one."""
        self.turn: object = None
        """The turn of the loop that touched it last."""
        self.arrivals: Signal[frozenset[int] | None] = Signal()
        """Fires when messages become visible, with the hashes of their tags."""

    @property
    def folder(self) -> str:
        """Where its files lie."""
        return f"{FOLDER}/{self.topic}/{self.queue_id}"

    def publish(self, next_offset: int) -> None:
        """Messages up to this number are visible now."""
        seen = self.max_offset
        self.max_offset = next_offset
        tail = self.tail
        if seen == 0:  # still in the tail: entries are filed after they are visible
            self.first_position = _PLACE.unpack_from(tail.data)[0]
        if self.arrivals:
            start = (seen - tail.first) * entries.SIZE
            new = tail.data[max(0, start) : (next_offset - tail.first) * entries.SIZE]
            self.arrivals.fire(frozenset(tag for _, _, tag in entries.unpack(new)))


def entries_below(queue: Queue, position: int) -> int:
    """How many entries of the tail belong to records before `position` of the log."""
    data = queue.tail.data
    low, high = 0, len(data) // entries.SIZE
    while low < high:
        middle = (low + high) // 2
        if _PLACE.unpack_from(data, middle * entries.SIZE)[0] < position:
            low = middle + 1
        else:
            high = middle
    return low


class QueueFiles:
    """The files of all queues. Blocking; used by one thread at a time."""

    def __init__(self, disk: Disk, file_size: int) -> None:
        self._disk = disk
        self.file_size = file_size
        self._known: set[str] = set()

    def end_of_first_file(self, first: int) -> int:
        """The byte at which the file with this entry ends."""
        return (first * entries.SIZE // self.file_size + 1) * self.file_size

    def write(self, folder: str, first: int, data: bytes, made: int) -> int:
        """Puts entries, the first with number `first`, into the files, and syncs them.

        `made` is the byte up to which files exist; the new such byte is returned.
        """
        at = first * entries.SIZE
        end = at + len(data)
        while at < end:
            start = at - at % self.file_size
            part = data[: min(end, start + self.file_size) - at]
            if start < made:
                self._add(f"{folder}/{start:020d}", at - start, part)
            else:
                self._make(folder, start, at - start, part)
                made = start + self.file_size
            data = data[len(part) :]
            at += len(part)
        return made

    def _add(self, path: str, at: int, data: bytes) -> None:
        with closing(self._disk.open(path)) as file:
            write_all(file, data, at)
            file.sync()

    def _make(self, folder: str, start: int, at: int, data: bytes) -> None:
        make_folders(self._disk, folder, self._known)

        def fill(file: File) -> None:
            file.truncate(self.file_size)
            write_all(file, FILLER * (at // entries.SIZE) + data, 0)

        make_file(self._disk, f"{folder}/{start:020d}", fill).close()

    def entry(self, file: File, number: int) -> tuple[int, int]:
        """(position, size) of an entry of an open file, by its number in that file."""
        position, size = _PLACE.unpack(file.pread(_PLACE.size, number * entries.SIZE))
        return position, size

    def search(self, file: File, low: int, holds: Callable[[int, int], bool]) -> int:
        """The first entry from `low` on for which `holds(position, size)` does not hold."""
        high = self.file_size // entries.SIZE
        while low < high:
            middle = (low + high) // 2
            if holds(*self.entry(file, middle)):
                low = middle + 1
            else:
                high = middle
        return low


def is_filler(position: int, size: int) -> bool:
    """The entry stands for no record."""
    return position == 0 and size == 0x7FFFFFFF
