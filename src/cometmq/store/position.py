"""How far the store's other files follow the log: our position file, and the original's checkpoint.

The position file has two slots that are written in turn, so that a cut spoils at most the newer
one. The checkpoint is written after it and carries our checksum at its end: where the checksum no
longer fits, the original has worked on this directory since.
"""

import struct
import zlib
from contextlib import closing
from dataclasses import dataclass

from cometmq.store.disk import Disk, read_file, write_all
from cometmq.store.files import LOG, NURSERY, path_of, write_file

POSITION = f"{NURSERY}/position"
CHECKPOINT = "checkpoint"
SLOT_SIZE = CHECKPOINT_SIZE = 4096
VERSION = 1
NO_KEY_INDEX = 1
"""Flag: no index by key was kept; a version that keeps one has to build it."""

_SLOT = struct.Struct(">8sIIQqqqiqI")
_MAGIC = b"COMETPOS"
_SUM_SIZE = 4
_CHECKPOINT = struct.Struct(">qqqqq")


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a record, and that record: where, how long, when it was stored."""

    end: int = 0
    offset: int = -1
    size: int = 0
    store_ms: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """What one slot says: all entries of records before `mark.end` are in their files."""

    number: int
    mark: Mark
    synced: int
    """The log was on the disk up to here; nothing below is ever cut off."""
    crc: int
    """CRC-32 of the record that ends at the mark."""

    def pack(self) -> bytes:
        """The slot's bytes."""
        mark = self.mark
        head = (_MAGIC, VERSION, NO_KEY_INDEX, self.number, mark.end, self.synced)
        return _sealed(_SLOT.pack(*head, mark.offset, mark.size, mark.store_ms, self.crc))

    @classmethod
    def unpack(cls, slot: bytes) -> "Position | None":
        """The slot in these bytes; None where it is not whole or of another version."""
        data = slot[: _SLOT.size]
        if len(data) < _SLOT.size or slot[: _SLOT.size + _SUM_SIZE] != _sealed(data):
            return None
        magic, version, _, number, end, synced, offset, size, store_ms, crc = _SLOT.unpack(data)
        if (magic, version) != (_MAGIC, VERSION):
            return None
        return cls(number, Mark(end, offset, size, store_ms), synced, crc)


FIRST = Position(1, Mark(), 0, 0)


class PositionFile:
    """The position file and the checkpoint, which advance together."""

    def __init__(self, disk: Disk, log_file_size: int, last: Position) -> None:
        self._disk = disk
        self._log_file_size = log_file_size
        self.last = last
        # It may be in the page cache only, if the last process was killed or its sync failed: the
        # other slot is not given up for that.
        self._write(last)

    def advance(self, mark: Mark, synced: int) -> None:
        """Writes the next slot and then the checkpoint; each is on the disk before the next."""
        crc = zlib.crc32(record_before(self._disk, self._log_file_size, mark))
        position = Position(self.last.number + 1, mark, synced, crc)
        self._write(position)
        self.last = position
        write_checkpoint(self._disk, mark)

    def _write(self, position: Position) -> None:
        with closing(self._disk.open(POSITION)) as file:
            write_all(file, position.pack(), position.number % 2 * SLOT_SIZE)
            file.sync()


def record_before(disk: Disk, log_file_size: int, mark: Mark) -> bytes:
    """The record that ends at a mark, as it lies in the log; no bytes where there was none yet."""
    if not mark.size:
        return b""
    inside = mark.offset % log_file_size
    with closing(disk.open(path_of(LOG, mark.offset - inside))) as file:
        return file.pread(mark.size, inside)


def create_position(disk: Disk) -> None:
    """Makes both files of an empty store: the checkpoint first, since a position file without one
    is taken for a directory that somebody else has changed."""
    write_checkpoint(disk, Mark())
    write_file(disk, POSITION, bytes(SLOT_SIZE) + FIRST.pack().ljust(SLOT_SIZE, b"\0"))


def read_slots(disk: Disk) -> list[Position] | None:
    """The whole slots, the newest first; None where there is no position file."""
    content = read_file(disk, POSITION)
    if content is None:
        return None
    slots = [Position.unpack(content[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
    return sorted((one for one in slots if one is not None), key=lambda one: -one.number)


def write_checkpoint(disk: Disk, mark: Mark) -> None:
    """Tells the original up to which store time log and queues are complete, never later than so:
    a time too new makes it skip records that are in no queue yet (spec 03 10.4)."""
    # Index 0: none is kept. The confirm offset is the start of the last record, as the original
    # sets it when it loads a store.
    data = _CHECKPOINT.pack(mark.store_ms, mark.store_ms, 0, 0, max(0, mark.offset))
    write_file(disk, CHECKPOINT, _sealed(data.ljust(CHECKPOINT_SIZE - _SUM_SIZE, b"\0")))


def checkpoint_is_ours(disk: Disk) -> bool:
    """Nobody else has written the checkpoint since."""
    content = read_file(disk, CHECKPOINT) or b""
    return len(content) == CHECKPOINT_SIZE and content == _sealed(content[:-_SUM_SIZE])


def _sealed(data: bytes) -> bytes:
    return data + zlib.crc32(data).to_bytes(_SUM_SIZE, "big")
