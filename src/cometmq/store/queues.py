"""Consume queues: the entries of one queue in memory and in its files (spec 03 ch. 7).

New entries live in a tail in memory and reach their file in batches; an idle queue holds no file.
At a start, queues are what their files have before P, and what the log says from there on.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from cometmq.kernel import entries
from cometmq.runtime import Signal
from cometmq.store.disk import Disk, File, find_data, logger, write_all
from cometmq.store.files import QUEUES, Chain, make_file, make_folder, remove_file

NO_RECORD = (0, 0x7FFFFFFF)
"""Position and size where a number has no record: before the first kept one, and for damage."""

SMALLEST_RECORD = 91

Walked = tuple[int, int, str, int, int, int, int, int]

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
    arrivals: Signal[frozenset[int]] = field(default_factory=Signal)
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


@dataclass(eq=False)
class QueueFiles:
    """The files of all queues. Blocking; used by one thread at a time."""

    disk: Disk
    file_size: int
    _known: set[str] = field(default_factory=set, init=False)
    """Folders that are there for certain."""

    def of(self, queue: Queue) -> Chain:
        """Those of one queue; a place in them is one of bytes."""
        return Chain(self.disk, queue.folder, self.file_size)

    def write(self, queue: Queue, first: int, data: bytes) -> None:
        """Puts entries, the first with number `first`, into the files, and syncs them. A file is
        made with its first entry."""
        chain, at = self.of(queue), first * entries.SIZE
        while data:
            inside = at % chain.size
            part, data = data[: chain.size - inside], data[chain.size - inside :]
            if not inside and self.disk.size(chain.path_at(at)) is None:
                self._make(chain, at, part)
            else:
                with chain.open(at) as file:
                    write_all(file, part, inside)
                    file.sync()
            at += len(part)

    def _make(self, chain: Chain, start: int, data: bytes) -> None:
        for folder in (chain.folder.rpartition("/")[0], chain.folder):
            if folder not in self._known:
                make_folder(self.disk, folder)
                self._known.add(folder)

        def fill(file: File) -> None:
            file.truncate(chain.size)
            write_all(file, data, 0)

        make_file(self.disk, chain.path_at(start), fill).close()


def _entry(file: File, number: int) -> tuple[int, int]:
    """(position, size) of an entry, by its number in its file."""
    position, size = _PLACE.unpack(file.pread(_PLACE.size, number * entries.SIZE))
    return position, size


class Rebuilding:
    """Queues on their way back: first from their files, then from the log."""

    def __init__(self, files: QueueFiles, start: int) -> None:
        self._files = files
        self._start = start
        """Entries of records from here on are written anew."""
        self.queues: dict[tuple[str, int], Queue] = {}
        self.last: Walked | None = None
        """The last record of the log."""
        self._held: dict[tuple[str, int], Walked] = {}
        """The last record of each queue, until the next one says whether its number is right."""

    # From the files

    def open(self, topic: str, queue_id: int, starts: list[int]) -> None:
        """Finds where a queue ends, and makes everything behind that zeros."""
        queue = Queue(topic, queue_id, has_files=True)
        chain = self._files.of(queue)
        while starts and not (count := self._trusted(chain, starts[-1])):
            # The file would hold nothing: its entries come again from the log.
            remove_file(chain.disk, chain.path_at(starts.pop()))
        if not starts:
            return
        queue.max_offset = starts[-1] // entries.SIZE + count
        queue.tail = entries.Tail(queue.max_offset)
        with chain.open(starts[0]) as file:
            fillers = self._search(file, 0, lambda *entry: entry == NO_RECORD)
            queue.min_offset = min(starts[0] // entries.SIZE + fillers, queue.max_offset)
            if queue.min_offset == 0:
                queue.first_position = _entry(file, 0)[0]
        self.queues[topic, queue_id] = queue

    def _trusted(self, chain: Chain, start: int) -> int:
        """How many entries of a file are kept; if any, there are zeros behind them."""
        with chain.open(start) as file:
            count = self._count(file)
            behind = find_data(file, count * entries.SIZE, chain.size) if count else []
            for at, block in behind:
                write_all(file, bytes(len(block)), at)
            if behind:
                file.sync()
        return count

    def _count(self, file: File) -> int:
        """How many entries of a file belong to records before the start."""
        low, total = 0, self._files.file_size // entries.SIZE
        while True:
            low = self._search(file, low, self._is_trusted)
            # A damaged entry in the middle looks like the end until one looks behind it.
            if low + 1 >= total or not self._is_trusted(*_entry(file, low + 1)):
                return low
            low += 2

    def _search(self, file: File, low: int, holds: Callable[[int, int], bool]) -> int:
        """The first entry from `low` on for which `holds(position, size)` does not hold."""
        numbers = range(self._files.file_size // entries.SIZE)
        return bisect_left(numbers, True, low, key=lambda number: not holds(*_entry(file, number)))

    def _is_trusted(self, position: int, size: int) -> bool:
        """An entry is taken as it stands in its file only where its record lies before P."""
        return size > 0 and 0 <= position < self._start

    # From the log

    def note(self, walked: Walked) -> None:
        """A sound record from the start on, in the order of the log."""
        self.last = walked
        position, _, topic, queue_id, number, _, _, sys_flag = walked
        if sys_flag & 4:  # prepared and rolled back messages are in no queue
            return
        if topic in ("", ".", "..") or "/" in topic or "\0" in topic or queue_id < 0:
            logger.error("the record at %d has a damaged topic or queue: in no queue", position)
            return
        held = self._held.get((topic, queue_id))
        if held is not None:
            self._settle(held, number)
        self._held[topic, queue_id] = walked

    def _settle(self, walked: Walked, follower: int | None) -> None:
        position, size, topic, queue_id, number, tag_hash, _, _ = walked
        queue = self.queues.get((topic, queue_id))
        gap = 0 if queue is None else number - queue.tail.next
        # Where numbers are missing before a record, their records are damaged, or its own number
        # is. It is right if so many records had room before it, and its queue's next one goes on.
        has_room = 0 <= gap * SMALLEST_RECORD <= position - self._start
        goes_on = follower is None or follower > number or (gap == number == 0)
        if not (has_room and goes_on):
            logger.error("the record at %d has a damaged queue offset: %d", position, number)
            return
        if queue is None:
            file_begin = number - number % (self._files.file_size // entries.SIZE)
            queue = Queue(topic, queue_id, entries.Tail(file_begin), number, number)
            self.queues[topic, queue_id] = queue
        elif gap:
            logger.error("%s has no records for %d numbers before %d", queue.folder, gap, number)
        queue.tail.data.extend(entries.pack(*NO_RECORD, 0) * (number - queue.tail.next))
        if number == 0:
            queue.first_position = position
        queue.tail.append(position, size, tag_hash)

    def file(self) -> None:
        """No more records: brings all entries to their files."""
        for held in self._held.values():
            self._settle(held, None)
        self._held.clear()
        for queue in self.queues.values():
            tail = queue.tail
            if tail.data:
                queue.max_offset = tail.next
                queue.has_files = True
                self._files.write(queue, tail.first, bytes(tail.data))
                tail.drop(queue.max_offset - tail.first)
