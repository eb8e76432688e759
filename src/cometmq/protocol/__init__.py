"""The remoting protocol without I/O: codes, commands, typed headers and bodies."""

# ruff: noqa: I001  # lists as dense as they are dull
# fmt: off
from cometmq.protocol import fastjson
from cometmq.protocol.bodies import (
    Body, BrokerData, ClusterInfo, ConsumerData, ConsumerIds, ConsumerOffsetWrapper, DataVersion,
    HeartbeatData, ProducerData, QueueData, RegisterBrokerBody, SubscriptionData,
    SubscriptionGroupConfig, SubscriptionGroupWrapper, TopicConfig, TopicConfigWrapper,
    TopicRouteData,
)
from cometmq.protocol.codes import BadRequest, ResponseCode
from cometmq.protocol.command import BINARY, JSON, ONEWAY, Command
from cometmq.protocol.fastjson import BadBody
from cometmq.protocol.fields import (
    HEADERS, BadField, Header, Int, Long, RequestHeader, ResponseHeader,
)
from cometmq.protocol.headers import (
    ConsumerSendMsgBack, GetBrokerClusterInfo, GetConsumerListByGroup, GetMaxOffset, GetMinOffset,
    GetRouteInfo, GetTopicConfig, HeartBeat, HeartBeatAnswer, NotifyConsumerIdsChanged,
    OffsetAnswer, PullAnswer, PullMessage, QueryConsumerOffset, RegisterBroker,
    RegisterBrokerAnswer, SEND_BATCH, SendAnswer, SendMessage, SendMessageV2, TopicFilterType,
    UnregisterBroker, UnregisterClient, UpdateAndCreateSubscriptionGroup, UpdateAndCreateTopic,
    UpdateConsumerOffset, ViewMessageById,
)

__all__ = [
    "BINARY", "HEADERS", "JSON", "ONEWAY", "SEND_BATCH", "BadBody", "BadField", "BadRequest",
    "Body", "BrokerData", "ClusterInfo", "Command", "ConsumerData", "ConsumerIds",
    "ConsumerOffsetWrapper", "ConsumerSendMsgBack", "DataVersion", "GetBrokerClusterInfo",
    "GetConsumerListByGroup", "GetMaxOffset", "GetMinOffset", "GetRouteInfo", "GetTopicConfig",
    "Header", "HeartBeat", "HeartBeatAnswer", "HeartbeatData", "Int", "Long",
    "NotifyConsumerIdsChanged", "OffsetAnswer", "ProducerData", "PullAnswer", "PullMessage",
    "QueryConsumerOffset", "QueueData", "RegisterBroker", "RegisterBrokerAnswer",
    "RegisterBrokerBody", "RequestHeader", "ResponseCode", "ResponseHeader", "SendAnswer",
    "SendMessage", "SendMessageV2", "SubscriptionData", "SubscriptionGroupConfig",
    "SubscriptionGroupWrapper", "TopicConfig", "TopicConfigWrapper", "TopicFilterType",
    "TopicRouteData", "UnregisterBroker", "UnregisterClient", "UpdateAndCreateSubscriptionGroup",
    "UpdateAndCreateTopic", "UpdateConsumerOffset", "ViewMessageById", "fastjson",
]
