"""The remoting protocol without I/O: codes, commands, typed headers and bodies."""

# ruff: noqa: I001  # lists as dense as they are dull
# fmt: off
from cometmq.protocol import fastjson
from cometmq.protocol.bodies.body import Body
from cometmq.protocol.bodies.clients import (
    ConsumerData, ConsumerIds, HeartbeatData, ProducerData, SubscriptionData,
)
from cometmq.protocol.bodies.configs import (
    ConsumerOffsetWrapper, CustomizedRetryPolicy, DataVersion, ExponentialRetryPolicy,
    GroupRetryPolicy, SimpleSubscriptionData, SubscriptionGroupConfig, SubscriptionGroupWrapper,
    TopicConfig, TopicConfigAndQueueMapping, TopicConfigWrapper,
)
from cometmq.protocol.bodies.registration import RegisterBrokerBody, body_crc
from cometmq.protocol.bodies.routes import (
    BrokerData, ClusterInfo, KVTable, LogicQueueMappingItem, QueueData, TopicQueueMappingDetail,
    TopicQueueMappingInfo, TopicRouteData,
)
from cometmq.protocol.codes import (
    LANGUAGES, VERSION, VERSION_3_4_9, VERSION_4_1_0, VERSION_4_9_4, Flag, RequestCode,
    ResponseCode,
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
    "BINARY", "HEADERS", "JSON", "LANGUAGES", "VERSION", "VERSION_3_4_9", "VERSION_4_1_0",
    "VERSION_4_9_4", "BadBody", "BadField", "BadRequest", "Body", "BrokerData", "ClusterInfo",
    "Command", "ConsumerData", "ConsumerIds", "ConsumerOffsetWrapper", "ConsumerSendMsgBack",
    "CustomizedRetryPolicy", "DataVersion", "ExponentialRetryPolicy", "Flag",
    "GetBrokerClusterInfo", "GetConsumerListByGroup", "GetMaxOffset", "GetMinOffset",
    "GetRouteInfo", "GetTopicConfig", "GroupRetryPolicy", "Header", "HeartBeat", "HeartBeatAnswer",
    "HeartbeatData", "Int", "KVTable", "LogicQueueMappingItem", "Long", "NotifyConsumerIdsChanged",
    "OffsetAnswer", "ProducerData", "PullAnswer", "PullMessage", "QueryConsumerOffset", "QueueData",
    "RegisterBroker", "RegisterBrokerAnswer", "RegisterBrokerBody", "RequestCode", "RequestHeader",
    "ResponseCode", "ResponseHeader", "SendAnswer", "SendMessage", "SendMessageV2",
    "SimpleSubscriptionData", "SubscriptionData", "SubscriptionGroupConfig",
    "SubscriptionGroupWrapper", "TopicConfig", "TopicConfigAndQueueMapping", "TopicConfigWrapper",
    "TopicFilterType", "TopicQueueMappingDetail", "TopicQueueMappingInfo", "TopicRouteData",
    "UnregisterBroker", "UnregisterClient", "UpdateAndCreateSubscriptionGroup",
    "UpdateAndCreateTopic", "UpdateConsumerOffset", "ViewMessageById", "body_crc", "fastjson",
]
