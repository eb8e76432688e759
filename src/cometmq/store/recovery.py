"""Recovery: the one way in which a store is opened, after a clean stop as after a power cut.

What the position file says is taken for granted and no more: entries of records before P are in
their files, log bytes below `synced` are on the disk. Everything else is made true again before
anybody sees it: entries from P on are written anew from the log, log bytes from `synced` to the
end are written and synced once more, and behind all ends there are zeros.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from cometmq.kernel import records
from cometmq.store import births
from cometmq.store.disk import Disk, File, write_all
from cometmq.store.filing import crc_of
from cometmq.store.inspection import Directory
from cometmq.store.log import logger, path_of
from cometmq.store.position import FIRST, Mark, Position, PositionFile
from cometmq.store.queues import Queue, QueueFiles
from cometmq.store.rebuilding import Rebuilding, Walked, find_data
from cometmq.store.settings import StoreSettings

CHUNK = 1 << 20
SECTOR = 512
_MAGICS = b"\xda\xa3\x20"
"""How the magic of a record of either version begins."""


@dataclass
class Recovered:
    """What a store begins with."""

    starts: list[int]
    end: int
    mark: Mark
    queues: dict[str, dict[int, Queue]]
    files: QueueFiles
    position: PositionFile


def written_again_from(position: Position) -> int:
    """Entries of records from here on are never taken as already there: P. A file may have some of
    them, or pages of some, in whatever order the disk chose."""
    return position.mark.end


def truncation_point(stopped: int, synced: int) -> int | None:
    """Where the log ends, if its sound records end at `stopped`. None: that is damage below what
    was on the disk for certain; nothing is cut there, the log goes on behind it."""
    return stopped if stopped >= synced else None


def is_whole(data: bytes, at: int, position: int) -> bool:
    """A record that was perhaps never synced has all its bytes. The CRC is only of its body: where
    the power cut took sectors of topic or properties, zeros are left, as were there before."""
    record = records.decode(data, at)
    properties = record.properties
    first_sector = -(position + record.size - len(properties)) % SECTOR
    # We end properties with 0x02, and a topic has no zeros. A zero that a client put into its own
    # properties would have to lie at the very start of a sector to be taken for a loss.
    is_ended = not properties or properties[-1] == 2
    return is_ended and "\0" not in record.topic and 0 not in properties[first_sector::SECTOR]


def recover(disk: Disk, settings: StoreSettings, found: Directory) -> Recovered:
    """Opens a directory that `inspect` has found fit. Blocking."""
    births.clear(disk)
    files = QueueFiles(disk, settings.mapped_file_size_consume_queue)
    position = found.position or FIRST
    start = written_again_from(position)
    rebuilding = Rebuilding(disk, files, start)
    for topic, queues in found.queues.items():
        for queue_id, starts in queues.items():
            rebuilding.open(topic, queue_id, starts)
    log = _Log(disk, settings.mapped_file_size_commit_log, found)
    end = log.walk(start, rebuilding.note)
    rebuilding.end()
    log.cut(end)
    log.write_again(end)
    has_filed = rebuilding.file()
    mark = log.last or position.mark
    file = PositionFile.open(disk, position)
    if has_filed or (mark, end) != (position.mark, position.synced) or not found.is_newest:
        file.advance(position.after(mark, end, crc_of(disk, log.size, mark)))
    return Recovered(found.starts, end, mark, rebuilding.queues, files, file)


class _Log:
    """The files of the log while they are walked, cut and written again."""

    def __init__(self, disk: Disk, size: int, found: Directory) -> None:
        self._disk = disk
        self._starts = found.starts
        self._synced = found.synced
        self.size = size
        self._last: Walked | None = None
        self._zeroed: set[int] = set()
        """Files that were changed and not synced yet."""

    @property
    def last(self) -> Mark | None:
        """The last sound record that was walked."""
        if self._last is None:
            return None
        where, length, *_, store_ms, _ = self._last
        return Mark(where + length, where, length, store_ms)

    def walk(self, position: int, note: Callable[[Walked], None]) -> int:
        """Tells `note` of every sound record from `position` on; where the log ends."""
        while position - position % self.size in self._starts:
            start = position - position % self.size
            with closing(self._disk.open(path_of(start))) as file:
                position, is_closed = self._walk_file(file, position, start, note)
                if is_closed:
                    continue
                end = truncation_point(position, self._synced)
                if end is not None:
                    return end
                damaged, position = position, self._next_sound(file, position + 1, start)
            logger.error("damage in the log: %d bytes from %d on", position - damaged, damaged)
        return position

    def _walk_file(
        self, file: File, position: int, start: int, note: Callable[[Walked], None]
    ) -> tuple[int, bool]:
        """Where the sound records of a file stop, and whether its blank record stands there."""
        end = start + self.size
        size = CHUNK
        while position < end:
            data = file.pread(min(size, end - position), position - start)
            walked, at, stop = records.walk(data, 0, position, end)
            for one in walked:
                where, length = one[:2]
                if where + length > self._synced and not is_whole(data, where - position, where):
                    return where, False
                note(one)
                self._last = one
            position += at
            if stop == records.BLANK:
                return end, True
            if stop != records.MORE or position + len(data) - at >= end:
                return position, False
            size = CHUNK if at else size * 2  # a record longer than what was read
        return end, True

    def _next_sound(self, file: File, position: int, start: int) -> int:
        """The next record behind damage whose recorded position fits. Where the file has none, the
        next file, unless the log is known to end in this one."""
        end = start + self.size
        at = position
        while at < end:
            data = file.pread(min(CHUNK, end - at), at - start)
            place = data.find(_MAGICS, 4)
            while place >= 0:
                candidate = at + place - 4
                if self._is_sound(file, candidate, start):
                    return candidate
                place = data.find(_MAGICS, place + 1)
            at += max(1, len(data) - 7) if at + len(data) < end else len(data)
        return min(end, self._synced)

    def _is_sound(self, file: File, position: int, start: int) -> bool:
        end = start + self.size
        size = int.from_bytes(file.pread(4, position - start), "big")
        if not 0 < size <= end - position:
            return False
        return bool(records.walk(file.pread(size, position - start), 0, position, end)[0])

    def cut(self, end: int) -> None:
        """Makes everything behind the end zeros, after it was copied aside."""
        found: list[tuple[int, bytes]] = []
        for start in self._starts:
            if start + self.size > end:
                first = max(end - start, 0)
                with closing(self._disk.open(path_of(start))) as file:
                    data = find_data(file, first, self.size)
                found += [(start + at, block) for at, block in data]
        if not found:
            return
        length = sum(len(block) for _, block in found)
        aside = self._keep_aside(end, found)
        logger.warning("the log ends at %d: %d bytes behind it are in %s", end, length, aside)
        for at, block in found:
            self._write(at, bytes(len(block)))

    def _keep_aside(self, end: int, found: list[tuple[int, bytes]]) -> str:
        names = self._disk.list(births.NURSERY)
        number = sum(name.startswith("cut-") for name in names)
        path = f"{births.NURSERY}/cut-{number:06d}-{end:020d}"

        def fill(file: File) -> None:
            for at, block in found:
                write_all(file, block, at - end)

        births.make_file(self._disk, path, fill).close()
        return path

    def write_again(self, end: int) -> None:
        """Writes what may never have reached the disk once more (after a failed sync the page cache
        calls it clean), and syncs it together with what was cut."""
        at = self._synced
        while at < end:
            start = at - at % self.size
            count = min(CHUNK, end - at, start + self.size - at)
            with closing(self._disk.open(path_of(start))) as file:
                data = file.pread(count, at - start)
            self._write(at, data)
            at += count
        for start in sorted(self._zeroed):
            with closing(self._disk.open(path_of(start))) as file:
                file.sync()

    def _write(self, at: int, data: bytes) -> None:
        start = at - at % self.size
        with closing(self._disk.open(path_of(start))) as file:
            write_all(file, data, at - start)
        self._zeroed.add(start)
