"""Rebuilding: the queues as their files have them, and what the log says of them from P on."""

from contextlib import closing

from cometmq.kernel import entries
from cometmq.store import births
from cometmq.store.disk import Disk, File, write_all
from cometmq.store.log import logger
from cometmq.store.queues import FILLER, Queue, QueueFiles, is_filler

SMALLEST_RECORD = 91
BLOCK = 1 << 18

Walked = tuple[int, int, str, int, int, int, int, int]
_Item = tuple[int, int, int, int]
"""Number in its queue, position, size, tag hash."""


def find_data(file: File, start: int, end: int) -> list[tuple[int, bytes]]:
    """(place, content) of the blocks between two places of a file that are not zeros."""
    found = []
    at = file.next_data(start)
    while at is not None and at < end:
        block = file.pread(min(BLOCK, end - at), at)
        if block.count(0) != len(block):
            found.append((at, block))
        at = file.next_data(at + len(block)) if block else None
    return found


class Rebuilding:
    """Queues on their way back: first from their files, then from the log."""

    def __init__(self, disk: Disk, files: QueueFiles, start: int) -> None:
        self._disk = disk
        self._files = files
        self._start = start
        """Entries of records from here on are written anew."""
        self.queues: dict[str, dict[int, Queue]] = {}
        self._held: dict[tuple[str, int], _Item] = {}
        """The last record of each queue, until the next one says whether its number is right."""

    # From the files

    def open(self, topic: str, queue_id: int, starts: list[int]) -> None:
        """Finds where a queue ends, and makes everything behind that zeros."""
        queue = Queue(topic, queue_id)
        while starts and not self._find_end(queue, starts[-1]):
            # The file would hold nothing: its entries come again from the log.
            self._disk.remove(f"{queue.folder}/{starts.pop():020d}")
            births.keep_names(self._disk, queue.folder)
        if starts:
            self._find_begin(queue, starts[0])
            self.queues.setdefault(topic, {})[queue_id] = queue

    def _find_end(self, queue: Queue, start: int) -> bool:
        with closing(self._disk.open(f"{queue.folder}/{start:020d}")) as file:
            count = self._count(file)
            if count:
                self._clear(file, count * entries.SIZE)
                queue.made = start + self._files.file_size
                queue.max_offset = start // entries.SIZE + count
                queue.tail = entries.Tail(queue.max_offset)
            return count > 0

    def _find_begin(self, queue: Queue, start: int) -> None:
        with closing(self._disk.open(f"{queue.folder}/{start:020d}")) as file:
            fillers = self._files.search(file, 0, is_filler)
            queue.min_offset = min(start // entries.SIZE + fillers, queue.max_offset)
            if queue.min_offset == 0:
                queue.first_position = self._files.entry(file, 0)[0]

    def _count(self, file: File) -> int:
        """How many entries of a file belong to records before the start."""
        low, total = 0, self._files.file_size // entries.SIZE
        while True:
            low = self._files.search(file, low, self.is_trusted)
            # A damaged entry in the middle looks like the end until one looks behind it.
            if low + 1 >= total or not self.is_trusted(*self._files.entry(file, low + 1)):
                return low
            low += 2

    def is_trusted(self, position: int, size: int) -> bool:
        """An entry is taken as it stands in its file only where its record lies before P."""
        return size > 0 and 0 <= position < self._start

    def _clear(self, file: File, end: int) -> None:
        found = find_data(file, end, self._files.file_size)
        for at, block in found:
            write_all(file, bytes(len(block)), at)
        if found:
            file.sync()

    # From the log

    def note(self, walked: Walked) -> None:
        """A sound record from the start on, in the order of the log."""
        position, size, topic, queue_id, number, tag_hash, _, sys_flag = walked
        if sys_flag & 4:  # prepared and rolled back messages are in no queue
            return
        if topic in ("", ".", "..") or "/" in topic or "\0" in topic or queue_id < 0:
            logger.error("the record at %d has a damaged topic or queue: in no queue", position)
            return
        held = self._held.get((topic, queue_id))
        if held is not None:
            self._settle(topic, queue_id, held, number)
        self._held[topic, queue_id] = (number, position, size, tag_hash)

    def end(self) -> None:
        """No more records."""
        for (topic, queue_id), held in self._held.items():
            self._settle(topic, queue_id, held, None)
        self._held.clear()

    def _settle(self, topic: str, queue_id: int, item: _Item, follower: int | None) -> None:
        number, position, size, tag_hash = item
        queue = self.queues.get(topic, {}).get(queue_id)
        gap = 0 if queue is None else number - queue.tail.next
        if gap < 0 or not _is_right(number, gap, follower, position - self._start):
            logger.error("the record at %d has a damaged queue offset: %d", position, number)
            return
        if queue is None:
            queue = Queue(topic, queue_id, number)
            queue.min_offset = number
            self.queues.setdefault(topic, {})[queue_id] = queue
        if gap:
            logger.error("%s has no records for %d numbers before %d", queue.folder, gap, number)
            queue.tail.data += FILLER * gap
        if number == 0:
            queue.first_position = position
        queue.tail.append(position, size, tag_hash)

    def file(self) -> bool:
        """Brings all entries to their files; whether there were any."""
        any_filed = False
        for queues in self.queues.values():
            for queue in queues.values():
                tail = queue.tail
                if tail.data:
                    made = queue.made
                    queue.made = self._files.write(queue.folder, tail.first, bytes(tail.data), made)
                    tail.drop(len(tail.data) // entries.SIZE)
                    any_filed = True
                queue.max_offset = tail.next
        return any_filed


def _is_right(number: int, gap: int, follower: int | None, walked: int) -> bool:
    """Where numbers are missing before a record, their records are damaged, or its own number is.
    It is right if so many records had room before it, and the next one of its queue goes on."""
    if follower is not None and follower <= number and (gap or number):
        return False
    return gap * SMALLEST_RECORD <= walked
