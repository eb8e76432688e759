"""What can be set about a store: the original's keys (spec 03 ch. 17) and a few limits of ours."""

import enum
import os
from dataclasses import dataclass


class FlushDiskType(enum.Enum):
    """What a reply promises: the record is on the disk, or in the page cache."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


@dataclass(frozen=True)
class StoreSettings:
    """Sizes in bytes, times in milliseconds, names as the original's keys."""

    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 6_000_000
    flush_disk_type: FlushDiskType = FlushDiskType.SYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_interval_consume_queue: int = 1000
    sync_flush_timeout: int = 5000
    max_message_size: int = 4 << 20
    os_page_cache_busy_time_out_mills: int = 1000
    access_message_in_memory_max_ratio: int = 40
    max_transfer_bytes_on_message_in_memory: int = 262144
    max_transfer_count_on_message_in_memory: int = 32
    max_filter_message_size: int = 16000

    create_file_timeout: int = 5000
    """How long sends wait for the next log file (the original's is fixed)."""
    max_unsynced_bytes: int = 64 << 20
    """Half of it starts a sync early; all of it answers sends with "busy"."""
    max_unindexed_bytes: int = 64 << 20
    """The same for what a start would have to read: log bytes whose entries are in no file yet."""
    max_open_files: int = 512
    """Files that readers hold open."""
    physical_memory: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    """What accessMessageInMemoryMaxRatio is a part of."""

    def __post_init__(self) -> None:
        # As the original: whole entries, 20 bytes each.
        size = -(-self.mapped_file_size_consume_queue // 20) * 20
        object.__setattr__(self, "mapped_file_size_consume_queue", size)

    @property
    def is_sync(self) -> bool:
        """Readers and senders are promised what is on the disk."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def hot_distance(self) -> int:
        """How far behind the end of the log a record still counts as in memory."""
        return self.physical_memory * self.access_message_in_memory_max_ratio // 100

    @property
    def unindexed_limit(self) -> int:
        """At most one log file, so that a start reads no more than the last two."""
        return min(self.max_unindexed_bytes, max(self.mapped_file_size_commit_log, 4 << 20))
