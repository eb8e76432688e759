"""The Python client: producers and consumers, asynchronous and typed."""

from cometmq.client.allocation import MessageQueue
from cometmq.client.consumer import Consumer, Start
from cometmq.client.errors import (
    BrokerRefused,
    ClientError,
    NoRoute,
    NotConfirmed,
    NotRunning,
    SendFailed,
)
from cometmq.client.producer import Producer
from cometmq.client.receipt import Receipt
from cometmq.client.received import ReceivedMessage

__all__ = [
    "BrokerRefused",
    "ClientError",
    "Consumer",
    "MessageQueue",
    "NoRoute",
    "NotConfirmed",
    "NotRunning",
    "Producer",
    "Receipt",
    "ReceivedMessage",
    "SendFailed",
    "Start",
]
