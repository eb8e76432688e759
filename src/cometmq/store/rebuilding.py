"""Rebuilding: the queues as their files have them, and what the log says of them from P on."""

from contextlib import closing

from cometmq.kernel import entries
from cometmq.store.disk import Disk, File, logger, write_all
from cometmq.store.files import path_of, remove_file
from cometmq.store.queues import FILLER, Queue, QueueFiles, is_filler

SMALLEST_RECORD = 91
BLOCK = 1 << 18

Walked = tuple[int, int, str, int, int, int, int, int]


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
        self.queues: dict[tuple[str, int], Queue] = {}
        self._held: dict[tuple[str, int], Walked] = {}
        """The last record of each queue, until the next one says whether its number is right."""

    # From the files

    def open(self, topic: str, queue_id: int, starts: list[int]) -> None:
        """Finds where a queue ends, and makes everything behind that zeros."""
        queue = Queue(topic, queue_id)
        while starts and not self._find_end(queue, starts[-1]):
            # The file would hold nothing: its entries come again from the log.
            remove_file(self._disk, path_of(queue.folder, starts.pop()))
        if starts:
            self._find_begin(queue, starts[0])
            self.queues[topic, queue_id] = queue

    def _find_end(self, queue: Queue, start: int) -> bool:
        with closing(self._disk.open(path_of(queue.folder, start))) as file:
            count = self._count(file)
            if not count:
                return False
            behind = find_data(file, count * entries.SIZE, self._files.file_size)
            for at, block in behind:
                write_all(file, bytes(len(block)), at)
            if behind:
                file.sync()
        queue.has_files = True
        queue.max_offset = start // entries.SIZE + count
        queue.tail = entries.Tail(queue.max_offset)
        return True

    def _find_begin(self, queue: Queue, start: int) -> None:
        with closing(self._disk.open(path_of(queue.folder, start))) as file:
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

    # From the log

    def note(self, walked: Walked) -> None:
        """A sound record from the start on, in the order of the log."""
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
        queue.tail.data.extend(FILLER * (number - queue.tail.next))
        if number == 0:
            queue.first_position = position
        queue.tail.append(position, size, tag_hash)

    def file(self) -> bool:
        """No more records: brings all entries to their files; whether there were any."""
        for held in self._held.values():
            self._settle(held, None)
        self._held.clear()
        unfiled = [queue for queue in self.queues.values() if queue.tail.data]
        for queue in unfiled:
            tail = queue.tail
            queue.max_offset = tail.next
            queue.has_files = True
            self._files.write(queue.folder, tail.first, bytes(tail.data))
            tail.drop(queue.max_offset - tail.first)
        return bool(unfiled)
