"""CometMQ: a message queue that speaks RocketMQ, in Python."""

from cometmq.client import Consumer, Producer, Receipt, ReceivedMessage
from cometmq.message import Message

__all__ = ["Consumer", "Message", "Producer", "Receipt", "ReceivedMessage"]
