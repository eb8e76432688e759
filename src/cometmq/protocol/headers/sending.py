"""Headers of sending: 10 in long names, 310 and 320 in one-letter names, and the receipt."""

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.fields import Int, Long, RequestHeader, ResponseHeader


class SendAnswer(ResponseHeader, names={"region": "MSG_REGION", "trace_on": "TRACE_ON"}):
    """Where the message is now; answers 0, 10, 11 and 12 carry it."""

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = None
    trace_on: bool | None = None


class SendMessage(
    RequestHeader,
    code=RequestCode.SEND_MESSAGE,
    answer=SendAnswer,
    names={
        "group": "producerGroup",
        "default_topic_queues": "defaultTopicQueueNums",
        "born_ms": "bornTimestamp",
        "message_flag": "flag",
    },
):
    """Store this message; attributes are named as in the kernel's Send, which most sends become
    directly.
    """

    group: str
    topic: str
    default_topic: str
    default_topic_queues: Int
    queue_id: Int
    sys_flag: Int
    born_ms: Long
    message_flag: Int
    properties: str | None = None
    reconsume_times: Int = 0
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
    batch: bool = False


_SHORT = (
    "group topic default_topic default_topic_queues queue_id sys_flag born_ms message_flag "
    "properties reconsume_times unit_mode max_reconsume_times batch broker"
)


class SendMessageV2(
    SendMessage,
    code=RequestCode.SEND_MESSAGE_V2,
    also=(RequestCode.SEND_BATCH_MESSAGE,),
    answer=SendAnswer,
    names=dict(zip(_SHORT.split(), "abcdefghijklmn", strict=True)),
):
    """The same in short names. Whether it is a batch is said by `batch`, not by the code (spec 01
    ch. 7).
    """
