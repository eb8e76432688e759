"""What lies in a directory before it is opened: ours, empty, or to be left alone. Reads only."""

import struct
import zlib
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

from cometmq.store import log, queues
from cometmq.store.disk import Disk
from cometmq.store.errors import StoreRefused
from cometmq.store.position import Position, checkpoint_is_ours, read_slots
from cometmq.store.settings import StoreSettings

_LONG = struct.Struct(">q")


@dataclass
class Directory:
    """A directory that may be opened."""

    starts: list[int]
    """Where the files of the log begin."""
    queues: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    """Where the files of each queue begin, in bytes of the queue."""
    position: Position | None = None
    """The slot to go on from; None in an empty directory."""
    is_newest: bool = True
    """That slot is the last one that was written."""
    synced: int = 0
    """The highest position recorded as synced."""


def inspect(disk: Disk, settings: StoreSettings) -> Directory:
    """Looks at a directory; StoreRefused, with nothing changed, where it must not be opened."""
    log_size = settings.mapped_file_size_commit_log
    queue_size = settings.mapped_file_size_consume_queue
    starts = _starts(disk, log.FOLDER, log_size, "mappedFileSizeCommitLog")
    found = Directory(starts)
    for topic in disk.list(queues.FOLDER):
        for name in disk.list(f"{queues.FOLDER}/{topic}"):
            if name.isdigit():  # the original passes over all others
                folder = f"{queues.FOLDER}/{topic}/{name}"
                files = _starts(disk, folder, queue_size, "mappedFileSizeConsumeQueue")
                found.queues.setdefault(topic, {})[int(name)] = files
    slots = read_slots(disk)
    if slots is None:
        if starts or found.queues:
            raise StoreRefused(
                "this store was not written by CometMQ (it has no comet/position): opening a "
                "store of the original comes with a later version; choose another directory"
            )
        return found
    if not checkpoint_is_ours(disk):
        raise StoreRefused(
            "the original has opened this store since CometMQ did (the checkpoint is not ours): "
            "taking such a store back comes with a later version"
        )
    found.synced = max((slot.synced for slot in slots), default=0)
    end = starts[-1] + log_size if starts else 0
    position = next((one for one in slots if _is_there(disk, log_size, starts, one)), None)
    if slots and not slots[0].mark.size:
        position = slots[0]  # nothing was filed yet
    if position is None or found.synced > end:
        raise StoreRefused(
            "the commit log is not the one that comet/position belongs to: the original may have "
            "changed it, or files are missing; put the directory back as it was"
        )
    found.position = position
    found.is_newest = position is slots[0] and len(slots) == 2
    return found


def _starts(disk: Disk, folder: str, size: int, key: str) -> list[int]:
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


def _is_there(disk: Disk, log_size: int, starts: list[int], slot: Position) -> bool:
    """The record before the mark lies where the slot says."""
    mark = slot.mark
    start = mark.offset - mark.offset % log_size
    if start not in starts:
        return False
    with closing(disk.open(log.path_of(start))) as file:
        data = file.pread(mark.size, mark.offset - start)
    # One flipped bit in this very record must not lock the whole store. Its store time, behind a
    # born host of either length, tells it from any other record that could lie at the same place.
    time = _LONG.pack(mark.store_ms)
    return zlib.crc32(data) == slot.crc or any(
        data[at : at + 8] == time or zlib.crc32(data[:at] + time + data[at + 8 :]) == slot.crc
        for at in (56, 68)
    )
