"""The message without I/O: its properties, ids, flags, compression, batches and names."""

# fmt: off
from cometmq.message import names, properties
from cometmq.message.compression import BadCompression, SysFlag, compress, decompress
from cometmq.message.ids import UniqueIds, host_text, offset_id
from cometmq.message.message import LARGEST_BODY, BadMessage, Message, check_batch, encode_batch

__all__ = [
    "LARGEST_BODY", "BadCompression", "BadMessage", "Message", "SysFlag", "UniqueIds",
    "check_batch", "compress", "decompress", "encode_batch", "host_text", "names", "offset_id",
    "properties",
]
