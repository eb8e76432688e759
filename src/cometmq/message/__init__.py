"""The message without I/O: its properties, ids, flags, compression, batches and names."""

# fmt: off
from cometmq.message import batches, names, properties
from cometmq.message.compression import BadCompression, Compression, SysFlag, compress, decompress
from cometmq.message.faults import BadId, BadMessage
from cometmq.message.ids import OffsetId, UniqueIds, host_text, offset_id
from cometmq.message.message import LARGEST_BODY, Message

__all__ = [
    "LARGEST_BODY", "BadCompression", "BadId", "BadMessage", "Compression", "Message", "OffsetId",
    "SysFlag", "UniqueIds", "batches", "compress", "decompress", "host_text", "names",
    "offset_id", "properties",
]
