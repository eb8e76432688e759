"""Headers of the name server: registrations of brokers and routes of topics."""

from cometmq.protocol.codes import VERSION_4_9_4, RequestCode
from cometmq.protocol.fields import Int, Long, RequestHeader, ResponseHeader


class RegisterBrokerAnswer(ResponseHeader):
    """The master of a slave that registered."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisterBroker(
    RequestHeader,
    code=RequestCode.REGISTER_BROKER,
    answer=RegisterBrokerAnswer,
    names={"zone_name": "__ZONE_NAME"},
):
    """This broker is alive and has these topics (in the body)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int = 0
    zone_name: str | None = None


class UnregisterBroker(RequestHeader, code=RequestCode.UNREGISTER_BROKER):
    """This broker goes away."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class GetRouteInfo(
    RequestHeader,
    code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
    names={"zone_mode": "__ZONE_MODE", "zone_name": "__ZONE_NAME"},
):
    """Which brokers have queues of this topic?"""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: str | None = None
    zone_name: str | None = None

    def wants_strict(self, version: int) -> bool:
        """Whether a peer of this version reads a strict route: older Go clients would take every
        address for the master's.
        """
        return bool(self.accept_standard_json_only) or version >= VERSION_4_9_4


class GetBrokerClusterInfo(RequestHeader, code=RequestCode.GET_BROKER_CLUSTER_INFO):
    """Which brokers are there, in which clusters?"""
