"""Headers of queue offsets: how far a group is, and where a queue begins and ends."""

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.fields import Int, Long, RequestHeader, ResponseHeader


class OffsetAnswer(ResponseHeader):
    """A queue offset."""

    offset: Long


class QueryConsumerOffset(
    RequestHeader, code=RequestCode.QUERY_CONSUMER_OFFSET, answer=OffsetAnswer
):
    """How far has this group consumed this queue?"""

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool = True


class UpdateConsumerOffset(RequestHeader, code=RequestCode.UPDATE_CONSUMER_OFFSET):
    """This group has consumed this queue up to here."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long | None = None


class GetMaxOffset(RequestHeader, code=RequestCode.GET_MAX_OFFSET, answer=OffsetAnswer):
    """Which offset will the next message of this queue have?"""

    topic: str
    queue_id: Int
    committed: bool = True


class GetMinOffset(RequestHeader, code=RequestCode.GET_MIN_OFFSET, answer=OffsetAnswer):
    """Which is the first offset of this queue that is still there?"""

    topic: str
    queue_id: Int
