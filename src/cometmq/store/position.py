"""How far the store's other files follow the log: our position file, and the original's checkpoint.

The position file has two slots that are written in turn, so that a cut spoils at most the newer
one. The checkpoint is written after it and carries our checksum at its end: where the checksum no
longer fits, the original has worked on this directory since.
"""

import struct
import zlib
from dataclasses import dataclass, replace

from cometmq.store.births import NURSERY, write_file
from cometmq.store.disk import Disk, File, read_file, write_all

POSITION = f"{NURSERY}/position"
CHECKPOINT = "checkpoint"
SLOT_SIZE = CHECKPOINT_SIZE = 4096
VERSION = 1
NO_KEY_INDEX = 1
"""Flag: no index by key was kept; a version that keeps one has to build it."""

_SLOT = struct.Struct(">8sIIQqqqiqI")
_MAGIC = b"COMETPOS"
_SUM = struct.Struct(">I")
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
        data = _SLOT.pack(
            _MAGIC,
            VERSION,
            NO_KEY_INDEX,
            self.number,
            self.mark.end,
            self.synced,
            self.mark.offset,
            self.mark.size,
            self.mark.store_ms,
            self.crc,
        )
        return data + _SUM.pack(zlib.crc32(data))

    @classmethod
    def unpack(cls, data: bytes) -> "Position | None":
        """The slot in these bytes; None where it is not whole or of another version."""
        if len(data) < _SLOT.size + _SUM.size:
            return None
        magic, version, _, number, end, synced, offset, size, store_ms, crc = _SLOT.unpack_from(
            data
        )
        (checksum,) = _SUM.unpack_from(data, _SLOT.size)
        if (magic, version) != (_MAGIC, VERSION) or checksum != zlib.crc32(data[: _SLOT.size]):
            return None
        return cls(number, Mark(end, offset, size, store_ms), synced, crc)

    def after(self, mark: Mark, synced: int, crc: int) -> "Position":
        """What the next slot says."""
        return replace(self, number=self.number + 1, mark=mark, synced=synced, crc=crc)


FIRST = Position(1, Mark(), 0, 0)


class PositionFile:
    """The open position file; it and the checkpoint advance together."""

    def __init__(self, disk: Disk, file: File, last: Position) -> None:
        self._disk = disk
        self._file = file
        self.last = last

    @classmethod
    def open(cls, disk: Disk, last: Position) -> "PositionFile":
        """Goes on from the slot that was found."""
        file = disk.open(POSITION)
        # It may be in the page cache only, if the last process was killed or its sync failed: the
        # other slot is not given up for that.
        found = cls(disk, file, last)
        found._write(last)
        return found

    def advance(self, position: Position) -> None:
        """Writes the next slot and then the checkpoint; each is on the disk before the next."""
        self._write(position)
        self.last = position
        write_checkpoint(self._disk, position.mark)

    def _write(self, position: Position) -> None:
        write_all(self._file, position.pack(), position.number % 2 * SLOT_SIZE)
        self._file.sync()

    def close(self) -> None:
        """Gives the handle back."""
        self._file.close()


def create(disk: Disk) -> None:
    """Makes both files of an empty store: the checkpoint first, since a position file without one
    is taken for a directory that somebody else has changed."""
    write_checkpoint(disk, Mark())
    content = bytearray(2 * SLOT_SIZE)
    packed = FIRST.pack()
    start = FIRST.number % 2 * SLOT_SIZE
    content[start : start + len(packed)] = packed
    write_file(disk, POSITION, bytes(content))


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
    times = (mark.store_ms, mark.store_ms, 0, 0, max(0, mark.offset))
    content = bytearray(CHECKPOINT_SIZE)
    _CHECKPOINT.pack_into(content, 0, *times)
    _SUM.pack_into(content, CHECKPOINT_SIZE - _SUM.size, _checksum(content))
    write_file(disk, CHECKPOINT, bytes(content))


def checkpoint_is_ours(disk: Disk) -> bool:
    """Nobody else has written the checkpoint since."""
    content = read_file(disk, CHECKPOINT)
    if content is None or len(content) != CHECKPOINT_SIZE:
        return False
    return bool(_SUM.unpack_from(content, CHECKPOINT_SIZE - _SUM.size)[0] == _checksum(content))


def _checksum(content: bytes | bytearray) -> int:
    return zlib.crc32(content[: -_SUM.size])
