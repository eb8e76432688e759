"""Consume queues: the entries of one queue in memory and in its files (spec 03 ch. 7).

New entries live in a tail in memory and reach their file in batches; an idle queue holds no file.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from cometmq.kernel import entries
from cometmq.runtime.signal import Signal
from cometmq.store.disk import Disk, File, write_all
from cometmq.store.files import QUEUES, make_file, make_folder, path_of

FILLER = entries.pack(0, 0x7FFFFFFF, 0)
"""Stands where a number has no record: before the first one kept, and for a damaged record."""

_PLACE = struct.Struct(">qi")


@dataclass(eq=False, slots=True)
class Queue:
    """One queue of a topic. Made on first use; its folder is made with its first message."""

    topic: str
    queue_id: int
    topic_bytes: bytes = field(init=False)
    tail: entries.Tail = field(default_factory=lambda: entries.Tail(0))
    """Entries that are in no file yet; its `next` is the number of the next message."""
    min_offset: int = 0
    max_offset: int = 0
    """The number behind the last visible message."""
    first_position: int | None = None
    """Where in the log message 0 lies, as long as it is there."""
    has_files: bool = False
    """Its first file is there, or on its way."""
    turn: object = None
    """The turn of the loop that touched it last."""
    arrivals: Signal[frozenset[int] | None] = field(default_factory=Signal)
    """Fires when messages become visible, with the hashes of their tags."""

    def __post_init__(self) -> None:
        self.topic_bytes = self.topic.encode()

    @property
    def folder(self) -> str:
        """Where its files lie."""
        return f"{QUEUES}/{self.topic}/{self.queue_id}"

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

    def entries_below(self, position: int) -> int:
        """How many entries of the tail belong to records before `position` of the log."""
        data = self.tail.data
        numbers = range(len(data) // entries.SIZE)
        return bisect_left(
            numbers, position, key=lambda number: _PLACE.unpack_from(data, number * entries.SIZE)[0]
        )


class QueueFiles:
    """The files of all queues. Blocking; used by one thread at a time."""

    def __init__(self, disk: Disk, file_size: int) -> None:
        self._disk = disk
        self.file_size = file_size
        self._known: set[str] = set()
        """Folders that are there for certain."""

    def end_of_file(self, number: int) -> int:
        """The byte at which the file with this entry ends."""
        return (number * entries.SIZE // self.file_size + 1) * self.file_size

    def write(self, folder: str, first: int, data: bytes) -> None:
        """Puts entries, the first with number `first`, into the files, and syncs them. A file is
        made with its first entry."""
        at = first * entries.SIZE
        while data:
            inside = at % self.file_size
            part, data = data[: self.file_size - inside], data[self.file_size - inside :]
            path = path_of(folder, at - inside)
            if not inside and self._disk.size(path) is None:
                self._make_folders(folder.rpartition("/")[0], folder)
                self._make(path, part)
            else:
                with closing(self._disk.open(path)) as file:
                    write_all(file, part, inside)
                    file.sync()
            at += len(part)

    def _make_folders(self, *folders: str) -> None:
        for folder in folders:
            if folder not in self._known:
                make_folder(self._disk, folder)
                self._known.add(folder)

    def _make(self, path: str, data: bytes) -> None:
        def fill(file: File) -> None:
            file.truncate(self.file_size)
            write_all(file, data, 0)

        make_file(self._disk, path, fill).close()

    def entry(self, file: File, number: int) -> tuple[int, int]:
        """(position, size) of an entry of an open file, by its number in that file."""
        position, size = _PLACE.unpack(file.pread(_PLACE.size, number * entries.SIZE))
        return position, size

    def search(self, file: File, low: int, holds: Callable[[int, int], bool]) -> int:
        """The first entry from `low` on for which `holds(position, size)` does not hold."""
        numbers = range(self.file_size // entries.SIZE)
        return bisect_left(
            numbers, True, low, key=lambda number: not holds(*self.entry(file, number))
        )


def is_filler(position: int, size: int) -> bool:
    """The entry stands for no record."""
    return position == 0 and size == 0x7FFFFFFF
