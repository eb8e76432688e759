"""The broker: takes messages, keeps them, hands them out."""

from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings

__all__ = ["Broker", "BrokerSettings"]
