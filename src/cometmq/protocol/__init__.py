"""The remoting protocol without I/O: codes, commands, typed headers and bodies."""

# ruff: noqa: I001  # lists as dense as they are dull
# fmt: off
from cometmq.protocol import fastjson
from cometmq.protocol.bodies.body import Body
from cometmq.protocol.bodies.clients import (
    ConsumerData, ConsumerIds, HeartbeatData, ProducerData, SubscriptionData,
)
from cometmq.protocol.bodies.configs import (
    ConsumerOffsetWrapper, DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper,
    TopicConfig, TopicConfigWrapper,
)
from cometmq.protocol.bodies.registration import RegisterBrokerBody, body_crc
from cometmq.protocol.bodies.routes import (
    BrokerData, ClusterInfo, KVTable, QueueData, TopicRouteData,
)
from cometmq.protocol.codes import (
    LANGUAGES, VERSION, VERSION_4_9_4, Flag, RequestCode, ResponseCode,
)
from cometmq.protocol.command import BINARY, JSON, Command
from cometmq.protocol.faults import BadBody, BadField, BadRequest
from cometmq.protocol.fields import HEADERS, Header, Int, Long, RequestHeader, ResponseHeader
from cometmq.protocol.headers.clients import (
    ConsumerSendMsgBack, GetConsumerListByGroup, HeartBeat, HeartBeatAnswer,
    NotifyConsumerIdsChanged, UnregisterClient,
)
from cometmq.protocol.headers.offsets import (
    GetMaxOffset, GetMinOffset, OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset,
)
from cometmq.protocol.headers.pulling import PullAnswer, PullMessage, ViewMessageById
from cometmq.protocol.headers.routes import (
    GetBrokerClusterInfo, GetRouteInfo, RegisterBroker, RegisterBrokerAnswer, UnregisterBroker,
)
from cometmq.protocol.headers.sending import SendAnswer, SendMessage, SendMessageV2
from cometmq.protocol.headers.topics import (
    GetTopicConfig, TopicFilterType, UpdateAndCreateSubscriptionGroup, UpdateAndCreateTopic,
)

__all__ = [
    "BINARY", "HEADERS", "JSON", "LANGUAGES", "VERSION", "VERSION_4_9_4", "BadBody", "BadField",
    "BadRequest", "Body", "BrokerData", "ClusterInfo", "Command", "ConsumerData", "ConsumerIds",
    "ConsumerOffsetWrapper", "ConsumerSendMsgBack", "DataVersion", "Flag", "GetBrokerClusterInfo",
    "GetConsumerListByGroup", "GetMaxOffset", "GetMinOffset", "GetRouteInfo", "GetTopicConfig",
    "Header", "HeartBeat", "HeartBeatAnswer", "HeartbeatData", "Int", "KVTable", "Long",
    "NotifyConsumerIdsChanged", "OffsetAnswer", "ProducerData", "PullAnswer", "PullMessage",
    "QueryConsumerOffset", "QueueData", "RegisterBroker", "RegisterBrokerAnswer",
    "RegisterBrokerBody", "RequestCode", "RequestHeader", "ResponseCode", "ResponseHeader",
    "SendAnswer", "SendMessage", "SendMessageV2", "SubscriptionData", "SubscriptionGroupConfig",
    "SubscriptionGroupWrapper", "TopicConfig", "TopicConfigWrapper", "TopicFilterType",
    "TopicRouteData", "UnregisterBroker", "UnregisterClient", "UpdateAndCreateSubscriptionGroup",
    "UpdateAndCreateTopic", "UpdateConsumerOffset", "ViewMessageById", "body_crc", "fastjson",
]
