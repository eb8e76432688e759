"""The files on disk: commit log, consume queues, JSON tables; what is written, synced, visible."""

from cometmq.store.disk import Disk, File, LocalDisk
from cometmq.store.errors import StoreError, StoreRefused, Trouble
from cometmq.store.memory import MemoryDisk
from cometmq.store.queues import Queue
from cometmq.store.reading import Cold, Found, Status
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import Cause, Store
from cometmq.store.tables import Table
from cometmq.store.watermark import Fault, Watcher, Watermark

__all__ = [
    "Cause",
    "Cold",
    "Disk",
    "Fault",
    "File",
    "FlushDiskType",
    "Found",
    "LocalDisk",
    "MemoryDisk",
    "Queue",
    "Status",
    "Store",
    "StoreError",
    "StoreRefused",
    "StoreSettings",
    "Table",
    "Trouble",
    "Watcher",
    "Watermark",
]
