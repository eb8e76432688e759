"""The Python client: producers and consumers, asynchronous and typed."""

# ruff: noqa: I001  # lists as dense as they are dull
# fmt: off
from cometmq.client.consumer import Consumer, Start
from cometmq.client.errors import (
    BrokerRefused, ClientError, NoRoute, NotConfirmed, NotRunning, Receipt, SendFailed,
)
from cometmq.client.producer import Producer
from cometmq.client.reading import ReceivedMessage
from cometmq.client.routes import MessageQueue

__all__ = [
    "BrokerRefused", "ClientError", "Consumer", "MessageQueue", "NoRoute", "NotConfirmed",
    "NotRunning", "Producer", "Receipt", "ReceivedMessage", "SendFailed", "Start",
]
