"""Several messages in one body (spec 02 ch. 9); the kernel takes such a body apart."""

import struct
from collections.abc import Iterable, Sequence

from cometmq.message.faults import BadMessage
from cometmq.message.message import LARGEST_BODY, Message
from cometmq.message.names import RETRY

_HEAD = struct.Struct(">iiiii")  # size, magic 0, check sum 0, flag, length of the body


def encode(members: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """The body of members as `records.members` gives them: (flag, body, property string)."""
    parts = []
    for flag, body, properties in members:
        size = _HEAD.size + len(body) + 2 + len(properties)
        length = struct.pack(">h", len(properties))
        parts += [_HEAD.pack(size, 0, 0, flag, len(body)), body, length, properties]
    return b"".join(parts)


def check(messages: Sequence[Message], largest_body: int = LARGEST_BODY) -> None:
    """BadMessage unless these can be sent as one batch."""
    if not messages:
        raise BadMessage("a batch needs at least one message")
    first = messages[0]
    for message in messages:
        if message.topic.startswith(RETRY):
            raise BadMessage("Retry Group is not supported for batching")
        if message.topic != first.topic:
            raise BadMessage("The topic of the messages in one batch should be the same")
        if message.wait_stored != first.wait_stored:
            raise BadMessage("The waitStoreMsgOK of the messages in one batch should the same")
        message.check(largest_body)


def check_size(body: bytes, largest_body: int = LARGEST_BODY) -> None:
    """BadMessage where the whole batch is larger than one message may be."""
    if len(body) > largest_body:
        raise BadMessage(f"the message body size over max value, MAX: {largest_body}", 13)
