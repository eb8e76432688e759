"""Bodies of routes: where a topic is, which brokers a cluster has (spec 01 13.1)."""

# ruff: noqa: RUF012  # msgspec copies an empty default for each struct

from typing import Any

import msgspec

from cometmq.protocol.bodies.body import Body
from cometmq.protocol.fields import Int, Long


class QueueData(Body, frozen=True):
    """How many queues of a topic one broker has, and what may be done with them."""

    broker_name: str = ""
    perm: Int = 0
    read_queue_nums: Int = 0
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 0
    topic_syn_flag: Int | None = None  # the same, as releases up to 4.8.0 spell it; never written

    def __post_init__(self) -> None:
        if self.topic_syn_flag is not None:
            msgspec.structs.force_setattr(self, "topic_sys_flag", self.topic_syn_flag)
            msgspec.structs.force_setattr(self, "topic_syn_flag", None)


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
    topic_queue_mapping_by_broker: dict[str, dict[str, Any]] | None = None  # of static topics


class ClusterInfo(Body, frozen=True):
    """All brokers by name, and the names by cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, tuple[str, ...]] = {}


class KVTable(Body, frozen=True):
    """Texts by name."""

    table: dict[str, str] = {}
