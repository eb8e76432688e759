"""The bodies that commands carry and the files that a broker keeps: one typed struct each.

Those of clients are in spec 01 13.3, of a broker's tables in 13.2 and 03 ch. 15, of routes in 13.1,
of a broker's registration in 13.5. At the end stands how every one is read, whatever dialect of
JSON it came in: strict JSON of the expected types, the usual case, is decoded by msgspec in one
step. All else (unquoted keys, nulls, numbers as texts, references) is read by `fastjson` and then
fitted to the same types, as leniently as the original does it.
"""

import functools
import re
import zlib
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

import msgspec

import cometmq.protocol.fastjson as fastjson
from cometmq.protocol.codes import VERSION, VERSION_3_0_11
from cometmq.protocol.fastjson import BadBody
from cometmq.protocol.fields import Int, Long

_ZLIB = b"x"  # the first byte of every zlib stream with the usual window; JSON begins with a brace
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}\Z")


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON body: unknown members are ignored, missing ones and nulls are their default.

    An empty list or map that is a default is copied for each struct, says msgspec.
    """

    refers: ClassVar[bool] = True
    """Whether it may hold anything, and `{"$ref": path}` in it stands for something else."""

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Decode, or raise BadBody with what was expected."""
        odd = cls.refers and (b"$ref" in data or fastjson.too_deep(data))
        if not odd:
            try:
                return _decoder(cls).decode(data)  # type: ignore[no-any-return]
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # not as strict as that
        return _fit(cls, fastjson.loads(data, refers=cls.refers))  # type: ignore[no-any-return]

    def write(self, *, strict: bool = False, pretty: bool = False) -> bytes:
        """Encode in one of the three forms of `fastjson.dumps`."""
        return fastjson.dumps(self, strict=strict, pretty=pretty)

    def but(self, **changes: Any) -> Self:
        """The same with some members changed."""
        return msgspec.structs.replace(self, **changes)


class SubscriptionData(Body, frozen=True):
    """What of a topic a consumer wants."""

    class_filter_mode: bool = False
    code_set: tuple[Int, ...] = ()
    expression_type: str = "TAG"
    sub_string: str | None = None
    sub_version: Long = 0
    tags_set: tuple[str, ...] = ()
    topic: str | None = None


class ProducerData(Body, frozen=True):
    """A producer group of a client."""

    group_name: str | None = None


class ConsumerData(Body, frozen=True):
    """A consumer group of a client, how and from where it consumes, and what."""

    consume_from_where: str | None = None
    consume_type: str | None = None
    group_name: str | None = None
    message_model: str | None = None
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


class HeartbeatData(Body, frozen=True):
    """A client with all its groups."""

    client_id: str | None = msgspec.field(name="clientID", default=None)
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: Int = 0
    producer_data_set: tuple[ProducerData, ...] = ()
    without_sub: bool = False


class ConsumerIds(Body, frozen=True):
    """The clients of a consumer group."""

    consumer_id_list: list[str] = []


class DataVersion(Body, frozen=True):
    """Which state of a table this is; a peer that knows it needs no copy."""

    counter: Long = 0
    state_version: Long = 0
    timestamp: Long = 0

    def next(self, now_ms: int) -> "DataVersion":
        """The version after one more change."""
        return DataVersion(self.counter + 1, self.state_version, now_ms)


class TopicConfig(Body, frozen=True):
    """How a broker has a topic."""

    attributes: dict[str, str] = {}
    order: bool = False
    perm: Int = 6
    read_queue_nums: Int = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str = ""
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 16


class TopicConfigWrapper(Body, frozen=True):
    """A broker's topics: topics.json and the 4.x form of a registration.

    That of 5.x has static topics too, which nothing here looks into: they stay the maps that came.
    """

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_detail_map: dict[str, dict[str, Any]] | None = None
    topic_queue_mapping_info_map: dict[str, dict[str, Any]] | None = None


class SubscriptionGroupConfig(Body, frozen=True):
    """How a broker has a consumer group; policy and subscriptions are kept as they came."""

    attributes: dict[str, str] = {}
    broker_id: Long = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int = 15
    group_name: str = ""
    group_retry_policy: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "CUSTOMIZED"}
    )
    group_sys_flag: Int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int = 16
    retry_queue_nums: Int = 1
    subscription_data_set: tuple[dict[str, Any], ...] | None = None
    which_broker_when_consume_slowly: Long = 1


class SubscriptionGroupWrapper(Body, frozen=True):
    """A broker's consumer groups: subscriptionGroup.json."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int]] = {}
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class ConsumerOffsetWrapper(Body, frozen=True):
    """How far each `topic@group` is in each queue: consumerOffset.json."""

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None  # for people, nobody reads it
    offset_table: dict[str, dict[Int, Long]] = {}


class QueueData(Body, frozen=True):
    """How many queues of a topic one broker has, and what may be done with them."""

    broker_name: str = ""
    perm: Int = 0
    read_queue_nums: Int = 0
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 0


class BrokerData(Body, frozen=True):
    """The addresses of a broker by id; 0 is the master."""

    broker_addrs: dict[Long, str] = {}
    broker_name: str = ""
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body, frozen=True):
    """Everything a client has to know to send to a topic or to consume it."""

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []


class ClusterInfo(Body, frozen=True):
    """All brokers by name, and the names by cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, tuple[str, ...]] = {}


class RegisterBrokerBody(Body, frozen=True):
    """A broker's topics; filter servers are a thing of the past."""

    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigWrapper = msgspec.field(
        default_factory=TopicConfigWrapper
    )

    @classmethod
    def read(cls, data: bytes, crc: int = 0, version: int = VERSION) -> Self:
        """Decode what a broker of this version sent; 5.x says wrongly whether it is compressed."""
        if crc and crc != zlib.crc32(data) & 0x7FFFFFFF:
            raise BadBody("crc32 not match")
        if not data:
            return cls()
        if data.startswith(_ZLIB):
            raise BadBody(
                "a compressed registration: not built yet, let the broker send it plain "
                "(compressedRegister=false)"
            )
        if version < VERSION_3_0_11:
            raise BadBody("a registration of a broker before 3.0.11: not built yet")
        return super().read(data)


@functools.cache
def _decoder(kind: type[Body]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


def _fit(kind: Any, value: Any) -> Any:
    """A value of this type out of anything close to it."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        return None if value is None else _fit(inner[0], value)
    if origin is dict and isinstance(value, dict):
        return {_fit(inner[0], k): _fit(inner[1], v) for k, v in value.items() if v is not None}
    if origin in (list, tuple) and isinstance(value, list | tuple):
        return origin(_fit(inner[0], one) for one in value)
    if origin is not None and origin is not Annotated:
        raise _unfit("an object" if origin is dict else "a list", value)
    if kind is Any:
        return value
    if kind is str:
        return value if isinstance(value, str) else fastjson.dumps(value).decode()
    return _struct(kind, value) if isinstance(kind, type(Body)) else _scalar(kind, value)


def _scalar(kind: Any, value: Any) -> bool | int:
    if kind is bool:
        if str(value).lower() in ("true", "false", "1", "0"):
            return str(value).lower() in ("true", "1")
        raise _unfit("true or false", value)
    try:
        if not isinstance(value, str) or _WHOLE.match(value):
            return msgspec.convert(int(value), kind)  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError):
        pass
    raise _unfit("an integer", value)


def _struct(kind: type[Body], value: Any) -> Any:
    if not isinstance(value, dict):
        raise _unfit(f"an object ({kind.__name__})", value)
    known = [one for one in fastjson.members_of(kind) if value.get(one.encode_name) is not None]
    return kind(**{one.name: _fit(one.type, value[one.encode_name]) for one in known})


def _unfit(expected: str, value: Any) -> BadBody:
    return BadBody(f"expected {expected}, got {str(value)[:40]!r}")
