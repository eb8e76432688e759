"""Sends whose header only the generic codec reads: they take the way of all others from here."""

from cometmq.broker.sending import Sends
from cometmq.kernel import headers
from cometmq.net import Connection
from cometmq.protocol import Command, RequestHeader, SendMessage, SendMessageV2
from cometmq.serving import Outcome, Pub, handles

LARGEST = 16 << 20
"""What a frame can carry; a body beyond the setting for messages is refused with its own code."""

SHARED = [one.attribute for one in SendMessage.table if one not in RequestHeader.table]
"""What the header says of the message; the kernel has the same names for it."""


@handles(SendMessage, needs=Pub.topic("topic"), largest_body=LARGEST)
def send_message(
    sends: Sends, ask: SendMessage, request: Command, connection: Connection
) -> Outcome:
    """Store this message, or these."""
    given = {name: getattr(ask, name) for name in SHARED}
    given["properties"] = (ask.properties or "").encode("utf-8", "replace")
    if ask.max_reconsume_times is None:
        del given["max_reconsume_times"]
    send = headers.Send(
        code=request.code,
        codec=request.codec,
        opaque=request.opaque,
        flag=request.flag,
        version=request.version,
        body=request.body,
        **given,
    )
    sends.take(connection, [send])
    return None


@handles(SendMessageV2, needs=Pub.topic("topic"), largest_body=LARGEST)
def send_message_v2(
    sends: Sends, ask: SendMessageV2, request: Command, connection: Connection
) -> Outcome:
    """The same, in short names."""
    return send_message(sends, ask, request, connection)
