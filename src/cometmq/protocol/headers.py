"""One class a request code and one an answer: what is on the wire, and nothing else.

A code stands here and nowhere else; one that says the same in the same fields stands in `also`.
"""

from enum import StrEnum

from cometmq.protocol.codes import VERSION_4_9_4
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
    code=10,
    names={
        "group": "producerGroup",
        "default_topic_queues": "defaultTopicQueueNums",
        "born_ms": "bornTimestamp",
        "message_flag": "flag",
    },
):
    """Store this message; attributes are named as in the kernel's Send, which most become."""

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


SEND_BATCH = 320
"""The code of a SendMessageV2 whose body is a batch."""


class SendMessageV2(
    SendMessage,
    code=310,
    also=(SEND_BATCH,),
    names=dict(zip([*SendMessage.__annotations__, "broker"], "abcdefghijklmn", strict=True)),
):
    """The same in short names. `batch` says whether it is one, not the code (spec 01 ch. 7)."""


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


class PullMessage(RequestHeader, code=11, also=(361,)):
    """Give me messages of this queue from here on; in the order of the kernel's Pull.fields."""

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


class ViewMessageById(RequestHeader, code=33):
    """Give me the record at this place of the commit log."""

    offset: Long
    topic: str | None = None


class OffsetAnswer(ResponseHeader):
    """A queue offset."""

    offset: Long


class QueryConsumerOffset(RequestHeader, code=14):
    """How far has this group consumed this queue?"""

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool = True


class UpdateConsumerOffset(RequestHeader, code=15):
    """This group has consumed this queue up to here."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long | None = None


class GetMaxOffset(RequestHeader, code=30):
    """Which offset will the next message of this queue have?"""

    topic: str
    queue_id: Int
    committed: bool = True


class GetMinOffset(RequestHeader, code=31):
    """Which is the first offset of this queue that is still there?"""

    topic: str
    queue_id: Int


class HeartBeatAnswer(
    ResponseHeader,
    names={"knows_fingerprints": "IS_SUPPORT_HEART_BEAT_V2", "changed": "IS_SUB_CHANGE"},
):
    """Whether the next heartbeat may leave its subscriptions out."""

    knows_fingerprints: bool | None = None
    changed: bool | None = None


class HeartBeat(RequestHeader, code=34):
    """Here I am, with these groups (in the body)."""


class UnregisterClient(RequestHeader, code=35, names={"client_id": "clientID"}):
    """This client leaves these groups."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerSendMsgBack(RequestHeader, code=36):
    """Deliver this message once more, later."""

    offset: Long
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None


class GetConsumerListByGroup(RequestHeader, code=38):
    """Which clients are in this group?"""

    consumer_group: str


class NotifyConsumerIdsChanged(RequestHeader, code=40):
    """A member of this group came or went: the broker tells the others, oneway."""

    consumer_group: str


class TopicFilterType(StrEnum):
    """Whether a message of a topic has one tag or several."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class UpdateAndCreateTopic(RequestHeader, code=17):
    """Let this topic be as said here; `attributes` is a list of `+name=value` and `-name`."""

    topic: str
    default_topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: TopicFilterType
    topic_sys_flag: Int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


class GetTopicConfig(RequestHeader, code=351):
    """How is this topic configured here?"""

    topic: str


class UpdateAndCreateSubscriptionGroup(RequestHeader, code=200):
    """Let this group be as said in the body."""


class RegisterBrokerAnswer(ResponseHeader):
    """The master of a slave that registered."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisterBroker(RequestHeader, code=103, names={"zone_name": "__ZONE_NAME"}):
    """This broker is alive and has these topics (in the body)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int = 0
    zone_name: str | None = None


class UnregisterBroker(RequestHeader, code=104):
    """This broker goes away."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class GetRouteInfo(
    RequestHeader, code=105, names={"zone_mode": "__ZONE_MODE", "zone_name": "__ZONE_NAME"}
):
    """Which brokers have queues of this topic?"""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: str | None = None
    zone_name: str | None = None

    def wants_strict(self, version: int) -> bool:
        """Whether this peer reads a strict route: older Go clients see only masters in it."""
        return bool(self.accept_standard_json_only) or version >= VERSION_4_9_4


class GetBrokerClusterInfo(RequestHeader, code=106):
    """Which brokers are there, in which clusters?"""
