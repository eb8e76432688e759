"""The directory as a whole: taken for one process, prepared, and left behind (spec 03 ch. 9)."""

from dataclasses import dataclass

from cometmq.store import births, position
from cometmq.store.disk import Disk, File, write_all
from cometmq.store.errors import StoreError, StoreRefused, Trouble
from cometmq.store.inspection import Directory, inspect
from cometmq.store.log import FOLDER as LOG
from cometmq.store.log import path_of
from cometmq.store.queues import FOLDER as QUEUES
from cometmq.store.recovery import Recovered, recover
from cometmq.store.settings import StoreSettings

ABORT = "abort"
LOCK = "lock"
CONFIG = "config"


@dataclass
class Opened:
    """A directory that is ours until the lock is closed."""

    recovered: Recovered
    lock: File


def take(disk: Disk, settings: StoreSettings) -> Opened:
    """Locks a directory and recovers what it holds. Blocking."""
    if disk.size(LOCK) is None:
        inspect(disk, settings)  # before the lock file is made: a refusal changes nothing
    lock = _lock(disk)
    try:
        found = inspect(disk, settings)
        if lock.pread(5, 0) != b"lock":
            write_all(lock, b"lock", 0)
        births.make_folders(disk, births.NURSERY, set())
        was_in_use = disk.size(ABORT) is not None
        # From here on the directory needs recovery, whoever opens it next.
        births.write_file(disk, ABORT, str(disk.process_id).encode())
        if found.position is None:
            for folder in (LOG, QUEUES, CONFIG):
                births.make_folders(disk, folder, set())
            position.create(disk)
        if was_in_use:
            _keep_all_names(disk, found)
        return Opened(recover(disk, settings, found), lock)
    except BaseException:
        lock.close()
        raise


def leave(disk: Disk, unused: list[int]) -> None:
    """Removes what says that the directory is in use: files made ahead, then `abort`. Blocking."""
    for start in unused:
        disk.remove(path_of(start))
    births.keep_names(disk, LOG)
    disk.remove(ABORT)
    births.keep_names(disk, "")


def _keep_all_names(disk: Disk, found: Directory) -> None:
    """A process that was killed may have named files and not made the names durable. They are
    there now, but a power cut would take them with all that is promised from here on."""
    topics = [f"{QUEUES}/{topic}" for topic in found.queues]
    queues = [f"{QUEUES}/{topic}/{one}" for topic, ids in found.queues.items() for one in ids]
    for folder in (births.NURSERY, LOG, CONFIG, QUEUES, *topics, *queues):
        births.keep_names(disk, folder)


def _lock(disk: Disk) -> File:
    try:
        return disk.lock(LOCK)
    except StoreError as error:
        if error.kind is Trouble.LOCKED:
            raise StoreRefused(
                "Lock failed,MQ already started: another process uses this store directory"
            ) from None
        raise
