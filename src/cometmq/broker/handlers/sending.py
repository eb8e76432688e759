"""Sends whose header only the generic codec reads: they take the way of all others from here."""

from cometmq.broker.sending import Sends
from cometmq.kernel import headers
from cometmq.protocol import SendMessage, SendMessageV2
from cometmq.serving import Elsewhere, Outcome, Pub, Request, handles

LARGEST = 16 << 20
"""What a frame can carry; a body beyond the setting for messages is refused with its own code."""


@handles(SendMessage, needs=Pub.topic("topic"), largest_body=LARGEST)
def send_message(sends: Sends, ask: SendMessage, request: Request) -> Outcome:
    """Store this message, or these."""
    send = headers.Send(
        code=request.code,
        codec=request.codec,
        opaque=request.opaque,
        flag=2 if request.oneway else 0,
        version=request.version,
        group=ask.group,
        topic=ask.topic,
        default_topic=ask.default_topic,
        default_topic_queues=ask.default_topic_queues,
        queue_id=ask.queue_id,
        sys_flag=ask.sys_flag,
        born_ms=ask.born_ms,
        message_flag=ask.message_flag,
        properties=(ask.properties or "").encode("utf-8", "replace"),
        reconsume_times=ask.reconsume_times,
        unit_mode=ask.unit_mode,
        max_reconsume_times=-1 if ask.max_reconsume_times is None else ask.max_reconsume_times,
        batch=ask.batch,
        body=request.body,
    )
    sends.take(request.connection, [send])
    return Elsewhere()


@handles(SendMessageV2, needs=Pub.topic("topic"), largest_body=LARGEST)
def send_message_v2(sends: Sends, ask: SendMessageV2, request: Request) -> Outcome:
    """The same, in short names."""
    return send_message(sends, ask, request)
