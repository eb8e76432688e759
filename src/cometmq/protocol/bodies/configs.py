"""Bodies and files of a broker's tables: topics, groups, offsets, with their version (spec 01 13.2,
03 ch. 15).
"""

# ruff: noqa: RUF012  # msgspec copies an empty default for each struct

from typing import Any

import msgspec

from cometmq.protocol.bodies.body import Body
from cometmq.protocol.fields import Int, Long


class DataVersion(Body, frozen=True):
    """Which state of a table this is; a peer that knows it needs no copy."""

    counter: Long = 0
    state_version: Long = 0
    timestamp: Long = 0

    def next(self, now_ms: int, state_version: int | None = None) -> "DataVersion":
        """The version after one more change."""
        kept = self.state_version if state_version is None else state_version
        return DataVersion(self.counter + 1, kept, now_ms)

    @property
    def order(self) -> tuple[int, int, int]:
        """What decides which of two versions is newer."""
        return self.state_version, self.counter, self.timestamp


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
    mapping_detail: dict[str, Any] | None = None  # of a static topic, in an answer to 351


class TopicConfigWrapper(Body, frozen=True):
    """A broker's topics: topics.json and the 4.x form of a registration. That of 5.x has static
    topics too, which nothing here looks into: they stay the maps that came.
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
    """How far each `topic@group` is in each queue: consumerOffset.json. `group_topic_map` is for
    people, nobody reads it.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    offset_table: dict[str, dict[Int, Long]] = {}
