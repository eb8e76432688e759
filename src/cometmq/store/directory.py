"""The directory as a whole: looked at, taken for one process, prepared, and left behind (spec 03
ch. 9)."""

import zlib
from contextlib import closing
from itertools import pairwise

from cometmq.store.disk import Disk, File, StoreError, StoreRefused, Trouble, write_all
from cometmq.store.files import (
    CONFIG,
    LOG,
    NURSERY,
    QUEUES,
    keep_names,
    make_folder,
    path_of,
    remove_file,
    write_file,
)
from cometmq.store.position import (
    Position,
    checkpoint_is_ours,
    create_position,
    read_slots,
    record_before,
)
from cometmq.store.recovery import Directory, Recovered
from cometmq.store.settings import StoreSettings

ABORT = "abort"
LOCK = "lock"


def inspect(disk: Disk, settings: StoreSettings) -> Directory:
    """Looks at a directory; StoreRefused, with nothing changed, where it must not be opened."""
    log_size = settings.mapped_file_size_commit_log
    queue_size = settings.mapped_file_size_consume_queue
    starts = _starts(disk, LOG, log_size, "mappedFileSizeCommitLog")
    found = Directory(starts)
    for topic in disk.list(QUEUES):
        for name in disk.list(f"{QUEUES}/{topic}"):
            if name.isdigit():  # the original passes over all others
                folder = f"{QUEUES}/{topic}/{name}"
                files = _starts(disk, folder, queue_size, "mappedFileSizeConsumeQueue")
                found.queues[topic, int(name)] = files
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
    found.position = next((one for one in slots if _is_there(disk, log_size, starts, one)), None)
    if slots and not slots[0].mark.size:
        found.position = slots[0]  # nothing was filed yet
    if found.position is None or found.synced > end:
        raise StoreRefused(
            "the commit log is not the one that comet/position belongs to: the original may have "
            "changed it, or files are missing; put the directory back as it was"
        )
    found.is_newest = found.position is slots[0] and len(slots) == 2
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
    if slot.mark.offset - slot.mark.offset % log_size not in starts:
        return False
    data = record_before(disk, log_size, slot.mark)
    # One flipped bit in this very record must not lock the whole store. Its store time, behind a
    # born host of either length, tells it from any other record that could lie at the same place.
    time = slot.mark.store_ms.to_bytes(8, "big", signed=True)
    return zlib.crc32(data) == slot.crc or any(
        data[at : at + 8] == time or zlib.crc32(data[:at] + time + data[at + 8 :]) == slot.crc
        for at in (56, 68)
    )


def take(disk: Disk, settings: StoreSettings) -> tuple[File, Recovered]:
    """Locks a directory, which is ours until the lock is closed, and recovers what it holds.
    Blocking."""
    if disk.size(LOCK) is None:
        inspect(disk, settings)  # before the lock file is made: a refusal changes nothing
    try:
        lock = disk.lock(LOCK)
    except StoreError as error:
        if error.kind is not Trouble.LOCKED:
            raise
        raise StoreRefused(
            "Lock failed,MQ already started: another process uses this store directory"
        ) from None
    try:
        found = inspect(disk, settings)
        if lock.pread(5, 0) != b"lock":
            write_all(lock, b"lock", 0)
        for folder in (NURSERY, LOG, QUEUES, CONFIG):
            make_folder(disk, folder)
        was_in_use = disk.size(ABORT) is not None
        # From here on the directory needs recovery, whoever opens it next.
        write_file(disk, ABORT, str(disk.process_id).encode())
        if found.position is None:
            create_position(disk)
        if was_in_use:
            _keep_all_names(disk, found)
        return lock, Recovered(disk, settings, found)
    except BaseException:
        lock.close()
        raise


def leave(disk: Disk, lock: File, unused: list[int] | None) -> None:
    """Gives a directory back. Where all is stored, so that it needs no recovery, removes what says
    that it is in use: the log files in `unused`, which were made ahead, then `abort`. Blocking."""
    with closing(lock):
        if unused is not None:
            for start in unused:
                disk.remove(path_of(LOG, start))
            keep_names(disk, LOG)
            remove_file(disk, ABORT)


def _keep_all_names(disk: Disk, found: Directory) -> None:
    """A process that was killed may have named files and not made the names durable. They are
    there now, but a power cut would take them with all that is promised from here on."""
    topics = dict.fromkeys(f"{QUEUES}/{topic}" for topic, _ in found.queues)
    queues = [f"{QUEUES}/{topic}/{queue_id}" for topic, queue_id in found.queues]
    keep_names(disk, NURSERY, LOG, CONFIG, QUEUES, *topics, *queues)
