"""The directory as a whole: looked at, taken by one process, prepared, left (spec 03 ch. 9).

How far its other files follow the log is said by our position file and the original's checkpoint.
The position file has two slots that are written in turn, so that a cut spoils at most the newer
one. The checkpoint is written after it and carries our checksum at its end: where the checksum no
longer fits, the original has worked on this directory since.
"""

import struct
import zlib
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

from cometmq.store.disk import Disk, File, StoreError, StoreRefused, Trouble, read_file, write_all
from cometmq.store.files import (
    CONFIG,
    LOG,
    NURSERY,
    QUEUES,
    Chain,
    keep_names,
    make_folder,
    remove_file,
    write_file,
)
from cometmq.store.settings import StoreSettings

ABORT = "abort"
LOCK = "lock"
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
    """A place behind a record, and that record: where, how long, when it was stored."""

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

    def __init__(self, log: Chain, last: Position) -> None:
        self._log = log
        self.last = last
        # It may be in the page cache only, if the last process was killed or its sync failed: the
        # other slot is not given up for that.
        self._write(last)

    def advance(self, mark: Mark, synced: int) -> None:
        """Writes the next slot and then the checkpoint; each is on the disk before the next."""
        crc = zlib.crc32(self._log.read(mark.offset, mark.size)) if mark.size else 0
        position = Position(self.last.number + 1, mark, synced, crc)
        self._write(position)
        self.last = position
        write_checkpoint(self._log.disk, mark)

    def _write(self, position: Position) -> None:
        with closing(self._log.disk.open(POSITION)) as file:
            write_all(file, position.pack(), position.number % 2 * SLOT_SIZE)
            file.sync()


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


def _sealed(data: bytes) -> bytes:
    return data + zlib.crc32(data).to_bytes(_SUM_SIZE, "big")


@dataclass
class Directory:
    """A directory that may be opened."""

    log: Chain
    starts: list[int]
    """Where the files of the log begin."""
    queues: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Where the files of each queue begin, in bytes of the queue."""
    position: Position = FIRST
    """The slot to go on from."""
    synced: int = 0
    """The highest position recorded as synced."""


def inspect(disk: Disk, settings: StoreSettings) -> Directory:
    """Looks at a directory; StoreRefused, with nothing changed, where it must not be opened."""
    log = Chain(disk, LOG, settings.mapped_file_size_commit_log)
    starts = _starts(log, "mappedFileSizeCommitLog")
    found = Directory(log, starts)
    for topic in disk.list(QUEUES):
        for name in disk.list(f"{QUEUES}/{topic}"):
            if name.isdigit():  # the original passes over all others
                size = settings.mapped_file_size_consume_queue
                queue = Chain(disk, f"{QUEUES}/{topic}/{name}", size)
                found.queues[topic, int(name)] = _starts(queue, "mappedFileSizeConsumeQueue")
    slots = read_slots(disk)
    if slots is None:
        if starts or found.queues:
            raise StoreRefused(
                "this store was not written by CometMQ (it has no comet/position): opening a "
                "store of the original comes with a later version; choose another directory"
            )
        return found
    checkpoint = read_file(disk, CHECKPOINT) or b""
    if len(checkpoint) != CHECKPOINT_SIZE or checkpoint != _sealed(checkpoint[:-_SUM_SIZE]):
        raise StoreRefused(
            "the original has opened this store since CometMQ did (the checkpoint is not ours): "
            "taking such a store back comes with a later version"
        )
    found.synced = max((slot.synced for slot in slots), default=0)
    end = starts[-1] + log.size if starts else 0
    position = next((one for one in slots if _is_there(log, starts, one)), None)
    if slots and not slots[0].mark.size:
        position = slots[0]  # nothing was filed yet
    if position is None or found.synced > end:
        raise StoreRefused(
            "the commit log is not the one that comet/position belongs to: the original may have "
            "changed it, or files are missing; put the directory back as it was"
        )
    found.position = position
    return found


def _starts(chain: Chain, key: str) -> list[int]:
    disk, folder, size = chain.disk, chain.folder, chain.size
    names = disk.list(folder)
    for name in names:
        path = f"{folder}/{name}"
        if not (len(name) == 20 and name.isdigit()):
            raise StoreRefused(f"{path!r} is no file of a store, which the original refuses too")
        found = disk.size(path)
        if found != size or int(name) % size:
            raise StoreRefused(
                f"{path!r} has {found} bytes, but {key} is {size}: set it to what the store was "
                "made with"
            )
    starts = [int(name) for name in names]
    for before, after in pairwise(starts):
        if after - before != size:
            raise StoreRefused(f"files between {before} and {after} are missing in {folder!r}")
    return starts


def _is_there(log: Chain, starts: list[int], slot: Position) -> bool:
    """The record before the mark lies where the slot says."""
    if log.start_of(slot.mark.offset) not in starts:
        return False
    data = log.read(slot.mark.offset, slot.mark.size)
    # One flipped bit in this very record must not lock the whole store. Its store time, behind a
    # born host of either length, tells it from any other record that could lie at the same place.
    time = slot.mark.store_ms.to_bytes(8, "big", signed=True)
    return zlib.crc32(data) == slot.crc or any(
        data[at : at + 8] == time or zlib.crc32(data[:at] + time + data[at + 8 :]) == slot.crc
        for at in (56, 68)
    )


def lock_directory(disk: Disk, settings: StoreSettings) -> File:
    """Locks a directory, which is ours until the lock is closed."""
    if disk.size(LOCK) is None:
        inspect(disk, settings)  # before the lock file is made: a refusal changes nothing
    try:
        return disk.lock(LOCK)
    except StoreError as error:
        if error.kind is not Trouble.LOCKED:
            raise
        raise StoreRefused(
            "Lock failed,MQ already started: another process uses this store directory"
        ) from None


def prepare(disk: Disk, settings: StoreSettings, lock: File) -> Directory:
    """Inspects a directory that is ours, and says in it that it is in use."""
    found = inspect(disk, settings)
    write_all(lock, b"lock", 0)
    for folder in (NURSERY, LOG, QUEUES, CONFIG):
        make_folder(disk, folder)
    was_in_use = disk.size(ABORT) is not None
    # From here on the directory needs recovery, whoever opens it next.
    write_file(disk, ABORT, str(disk.process_id).encode())
    if disk.size(POSITION) is None:
        create_position(disk)
    if was_in_use:
        # The process that was killed may have named files and not made the names durable. They
        # are there now, but a power cut would take them with all that is promised from here on.
        topics = dict.fromkeys(f"{QUEUES}/{topic}" for topic, _ in found.queues)
        queues = [f"{QUEUES}/{topic}/{queue_id}" for topic, queue_id in found.queues]
        keep_names(disk, NURSERY, LOG, CONFIG, QUEUES, *topics, *queues)
    return found


def leave(log: Chain, unused: list[int]) -> None:
    """Removes what says that the directory is in use: log files made ahead, then `abort`."""
    for start in unused:
        log.disk.remove(log.path_at(start))
    keep_names(log.disk, LOG)
    remove_file(log.disk, ABORT)
