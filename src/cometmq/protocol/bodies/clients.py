"""Bodies between a broker and its clients: heartbeats, subscriptions, the members of a group (spec
01 13.3).
"""

# ruff: noqa: RUF012  # msgspec copies an empty default for each struct

import msgspec

from cometmq.message.hashing import java_hash
from cometmq.protocol.bodies.body import Body
from cometmq.protocol.fields import Int, Long


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

    def fingerprint(self) -> int:
        """The number by which a broker sees whether subscriptions changed: equal for all clients of
        a group.
        """
        consumers = tuple(
            one.but(
                subscription_data_set=tuple(
                    wanted.but(sub_version=0) for wanted in one.subscription_data_set
                )
            )
            for one in self.consumer_data_set
        )
        plain = self.but(
            client_id="", consumer_data_set=consumers, heartbeat_fingerprint=0, without_sub=False
        )
        return java_hash(plain.write().decode())


class ConsumerIds(Body, frozen=True):
    """The clients of a consumer group."""

    consumer_id_list: list[str] = []
