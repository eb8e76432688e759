"""Recovery: the one way in which a store is opened, after a clean stop as after a power cut.

What the position file says is taken for granted and no more: entries of records before P are in
their files, log bytes below `synced` are on the disk. Everything else is made true again before
anybody sees it: entries from P on are written anew from the log, log bytes from `synced` to the
end are written and synced once more, and behind all ends there are zeros.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import replace

from cometmq.kernel import records
from cometmq.store.directory import Directory, Mark, Position, PositionFile, lock_directory, prepare
from cometmq.store.disk import Disk, File, find_data, logger, write_all
from cometmq.store.files import NURSERY, make_file
from cometmq.store.queues import QueueFiles, Rebuilding, Walked
from cometmq.store.settings import StoreSettings

CHUNK = 1 << 20
SECTOR = 512
GUESS = 4096
"""Bytes read for a record whose length is not known: most fit."""
_HEAD = struct.Struct(">i24xq")  # size, recorded position
_MAGIC_START = b"\xda\xa3\x20"


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
    # We end properties with 0x02, and a topic has no zeros. Zeros that a client put into its own
    # properties are taken for a loss only where they fill a whole sector.
    is_ended = not properties or properties[-1] == 2
    sectors = range(first_sector, len(properties), SECTOR)
    is_lost = any(not properties[at : at + SECTOR].strip(b"\0") for at in sectors)
    return is_ended and "\0" not in record.topic and not is_lost


def sound_record(read: Callable[[int, int], bytes], position: int, end: int) -> bytes | None:
    """The record that begins exactly there, sound and whole; None where none does. `read` takes a
    position and a size, `end` is that of the file or of what may be seen of it."""
    left = end - position
    if left < _HEAD.size:
        return None
    data = read(position, min(GUESS, left))
    size, recorded = _HEAD.unpack_from(data)
    if recorded != position or not 0 < size <= left:
        return None
    data = data[:size] if size <= len(data) else read(position, size)
    return data if records.walk(data, 0, position, end)[0] else None


def recover(disk: Disk, settings: StoreSettings) -> "Recovered":
    """Locks a directory and opens it; StoreRefused if it must not be opened. Blocking."""
    lock = lock_directory(disk, settings)
    try:
        return Recovered(disk, settings, lock, prepare(disk, settings, lock))
    except BaseException:
        lock.close()
        raise


class Recovered:
    """What a store begins with: all that a directory holds, made true again. Blocking."""

    def __init__(self, disk: Disk, settings: StoreSettings, lock: File, found: Directory) -> None:
        self.settings = settings
        self.lock = lock
        """Whoever closes it gives the directory back."""
        self.log, self.starts = found.log, found.starts
        self.files = files = QueueFiles(disk, settings.mapped_file_size_consume_queue)
        self._synced = found.synced
        for name in disk.list(NURSERY):
            if name.startswith("new-"):  # the last process ended before it was whole
                disk.remove(f"{NURSERY}/{name}")
        position = found.position
        start = written_again_from(position)
        rebuilding = Rebuilding(files, start)
        self.queues = rebuilding.queues
        for (topic, queue_id), starts in found.queues.items():
            rebuilding.open(topic, queue_id, starts)
        end = self._walk(start, rebuilding.note)
        self._mend(end)
        rebuilding.file()
        self.mark = replace(position.mark, end=end)
        if rebuilding.last is not None:
            where, length, *_, store_ms, _ = rebuilding.last
            self.mark = Mark(end, where, length, store_ms)
        self.position = PositionFile(self.log, position)
        self.position.advance(self.mark, end)

    def _walk(self, position: int, note: Callable[[Walked], None]) -> int:
        """Tells `note` of every sound record from `position` on; where the log ends."""
        while (start := self.log.start_of(position)) in self.starts:
            file_end = start + self.log.size
            position = self._walk_file(position, file_end, note)
            if position < file_end:
                end = truncation_point(position, self._synced)
                if end is not None:
                    return end
                damaged, position = position, self._next_sound(position + 1, file_end)
                logger.error("damage in the log: %d bytes from %d on", position - damaged, damaged)
        return position

    def _walk_file(self, position: int, end: int, note: Callable[[Walked], None]) -> int:
        """Where the sound records of a file stop; its end where its blank record follows them."""
        size = CHUNK
        while position < end:
            data = self.log.read(position, min(size, end - position))
            walked, at, stop = records.walk(data, 0, position, end)
            for one in walked:
                where, length = one[:2]
                if where + length > self._synced and not is_whole(data, where - position, where):
                    return where
                note(one)
            if stop == records.BLANK:
                return end
            if stop != records.MORE or position + len(data) >= end:
                return position + at
            position += at
            size = CHUNK if at else size * 2  # a record longer than what was read
        return end

    def _next_sound(self, position: int, end: int) -> int:
        """The next record behind damage whose recorded position fits. Where the file has none, the
        next file, unless the log is known to end in this one."""
        for at in range(position, end, CHUNK - 6):  # one may lie across the end of what was read
            data = self.log.read(at, min(CHUNK, end - at))
            for found in re.finditer(_MAGIC_START, data[4:]):
                if sound_record(self.log.read, at + found.start(), end):
                    return at + found.start()
        return min(end, self._synced)

    def _mend(self, end: int) -> None:
        """Makes everything behind the end zeros, after it was copied aside, and writes what may
        never have reached the disk once more: after a failed sync the page cache calls it clean."""
        log = self.log
        behind: list[tuple[int, bytes]] = []
        for start in self.starts:
            if start + log.size > end:
                with log.open(start) as file:
                    found = find_data(file, max(end - start, 0), log.size)
                behind += [(start + at, data) for at, data in found]
        self._keep_aside(end, behind)
        for start in self.starts:
            first, last = max(start, self._synced), min(start + log.size, end)
            cut = [(at, data) for at, data in behind if log.start_of(at) == start]
            if first < last or cut:
                with log.open(start) as file:
                    for at in range(first, last, CHUNK):
                        again = file.pread(min(CHUNK, last - at), at - start)
                        write_all(file, again, at - start)
                    for at, data in cut:
                        write_all(file, bytes(len(data)), at - start)
                    file.sync()

    def _keep_aside(self, end: int, behind: list[tuple[int, bytes]]) -> None:
        if not behind:
            return
        number = sum(name.startswith("cut-") for name in self.log.disk.list(NURSERY))
        path = f"{NURSERY}/cut-{number:06d}-{end:020d}"

        def fill(file: File) -> None:
            for at, data in behind:
                write_all(file, data, at - end)

        make_file(self.log.disk, path, fill).close()
        length = sum(len(data) for _, data in behind)
        logger.warning("the log ends at %d: %d bytes behind it are in %s", end, length, path)
