"""The files on disk: commit log, consume queues, JSON tables; what is written, synced, visible."""

# fmt: off
from cometmq.store.disk import Disk, File, LocalDisk, StoreError, StoreRefused, Trouble
from cometmq.store.files import Table
from cometmq.store.log import Fault, NotTaken, Watermark
from cometmq.store.memory import MemoryDisk
from cometmq.store.queues import Queue
from cometmq.store.reading import Cold, Found, Status
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import Store

__all__ = [
    "Cold", "Disk", "Fault", "File", "FlushDiskType", "Found", "LocalDisk", "MemoryDisk",
    "NotTaken", "Queue", "Status", "Store", "StoreError", "StoreRefused", "StoreSettings", "Table",
    "Trouble", "Watermark",
]
# fmt: on
