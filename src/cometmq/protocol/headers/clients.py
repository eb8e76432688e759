"""Headers between a broker and its clients: heartbeats, members of a group, sending back."""

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.fields import Int, Long, RequestHeader, ResponseHeader


class HeartBeatAnswer(
    ResponseHeader,
    names={"knows_fingerprints": "IS_SUPPORT_HEART_BEAT_V2", "changed": "IS_SUB_CHANGE"},
):
    """Whether the next heartbeat may leave its subscriptions out."""

    knows_fingerprints: bool | None = None
    changed: bool | None = None


class HeartBeat(RequestHeader, code=RequestCode.HEART_BEAT, answer=HeartBeatAnswer):
    """Here I am, with these groups (in the body)."""


class UnregisterClient(
    RequestHeader, code=RequestCode.UNREGISTER_CLIENT, names={"client_id": "clientID"}
):
    """This client leaves these groups."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerSendMsgBack(RequestHeader, code=RequestCode.CONSUMER_SEND_MSG_BACK):
    """Deliver this message once more, later."""

    offset: Long
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None


class GetConsumerListByGroup(RequestHeader, code=RequestCode.GET_CONSUMER_LIST_BY_GROUP):
    """Which clients are in this group?"""

    consumer_group: str


class NotifyConsumerIdsChanged(RequestHeader, code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED):
    """A member of this group came or went: the broker tells the others, oneway."""

    consumer_group: str
