"""Headers of reading messages: by queue and offset, and by place in the log."""

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.fields import Int, Long, RequestHeader, ResponseHeader


class PullAnswer(ResponseHeader):
    """Where to go on; the records are the body."""

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


class PullMessage(
    RequestHeader,
    code=RequestCode.PULL_MESSAGE,
    also=(RequestCode.LITE_PULL_MESSAGE,),
    answer=PullAnswer,
):
    """Give me messages of this queue from this offset on; the order is that of the kernel's
    Pull.fields.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long
    suspend_timeout_millis: Long
    subscription: str | None
    sub_version: Long
    expression_type: str | None = None
    max_msg_bytes: Int | None = None
    request_source: Int | None = None
    proxy_froward_client_id: str | None = None  # spelled so on the wire


class ViewMessageById(RequestHeader, code=RequestCode.VIEW_MESSAGE_BY_ID):
    """Give me the record at this place of the commit log."""

    offset: Long
    topic: str | None = None
