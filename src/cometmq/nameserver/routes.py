"""Routes: which brokers are alive and which topics they have, and what a name server answers.

No I/O; the time is handed in.
"""

from dataclasses import dataclass

from cometmq.net import Connection
from cometmq.protocol import (
    BrokerData,
    ClusterInfo,
    Command,
    DataVersion,
    GetBrokerClusterInfo,
    GetRouteInfo,
    QueueData,
    RegisterBroker,
    RegisterBrokerAnswer,
    RegisterBrokerBody,
    ResponseCode,
    TopicRouteData,
    UnregisterBroker,
)
from cometmq.serving import ADMIN, FAQ, OPEN, Answer, Outcome, Refused, handles

EXPIRES_MS = 120_000
"""A broker that is silent for so long is gone, unless it asked for another time (01 17.3)."""

LARGEST_REGISTRATION = 16 << 20

MASTER = 0


@dataclass
class _Live:
    """A broker address that is registered, and what it said when it last did so."""

    told: RegisterBroker
    version: DataVersion
    connection: Connection
    seen_ms: int


class Routes:
    """Registrations in, routes out; all in memory, as brokers tell it again (spec 01 17.1)."""

    def __init__(self) -> None:
        self._brokers: dict[str, BrokerData] = {}
        self._live: dict[str, _Live] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}

    def register(
        self, ask: RegisterBroker, body: RegisterBrokerBody, connection: Connection, now_ms: int
    ) -> RegisterBrokerAnswer:
        """Takes a broker's word for what it has; a slave is told its master."""
        wrapper = body.topic_config_serialize_wrapper
        topics, version = wrapper.topic_config_table, wrapper.data_version
        name, number, address = ask.broker_name, ask.broker_id, ask.broker_addr
        known = self._brokers.get(name, BrokerData()).broker_addrs
        before = known.get(number)
        if before is None and len(topics) == 1:
            # One topic alone is the increment to a registration that we never got.
            raise Refused(ResponseCode.SYSTEM_ERROR, "register broker failed")
        other = self._live.get(before) if before not in (None, address) else None
        if other is not None and other.version.state_version > version.state_version:
            self._live.pop(address, None)  # a master that was replaced
            return RegisterBrokerAnswer()
        # Under another id the same address is gone: a slave became master there.
        addresses = {n: at for n, at in known.items() if n == number or at != address}
        addresses[number] = address
        self._brokers[name] = BrokerData(addresses, name, ask.cluster_name)
        if number == MASTER:
            live = self._live.get(address)
            fresh = before is None or live is None or live.version != version
            for topic, config in topics.items():
                queues = self._topics.setdefault(topic, {})
                if fresh or name not in queues:
                    numbers = config.read_queue_nums, config.topic_sys_flag, config.write_queue_nums
                    queues[name] = QueueData(name, config.perm, *numbers)
        self._live[address] = _Live(ask, version, connection, now_ms)
        master = self._live.get(addresses.get(MASTER, ""))
        if number == MASTER or master is None:
            return RegisterBrokerAnswer()
        return RegisterBrokerAnswer(master.told.ha_server_addr, addresses[MASTER])

    def unregister(self, address: str) -> None:
        """Forgets a broker's address, then its name, its topics' queues, its cluster."""
        live = self._live.pop(address, None)
        if live is None:
            return
        name, number = live.told.broker_name, live.told.broker_id
        # Another address may have taken its place, and have been the last to leave.
        addresses = self._brokers.get(name, BrokerData()).broker_addrs
        if addresses.get(number) == address:
            del addresses[number]
        if addresses:
            return
        self._brokers.pop(name, None)
        for queues in self._topics.values():
            queues.pop(name, None)
        self._topics = {topic: queues for topic, queues in self._topics.items() if queues}

    def connection_ended(self, connection: Connection) -> None:
        """Whoever registered through this connection is gone (a killed process closes it)."""
        for address in [a for a, live in self._live.items() if live.connection == connection]:
            self.unregister(address)

    def expire(self, now_ms: int) -> list[Connection]:
        """Forgets those who were silent too long; their connections are to be closed."""
        late = {
            address: live.connection
            for address, live in self._live.items()
            if live.seen_ms + (live.told.heartbeat_timeout_millis or EXPIRES_MS) < now_ms
        }
        for address in late:
            self.unregister(address)
        return list(late.values())

    def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic is; None where no living broker has it."""
        queues = self._topics.get(topic, {})
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        return TopicRouteData(broker_datas=brokers, queue_datas=list(queues.values()))

    def cluster(self) -> ClusterInfo:
        """All brokers, and which cluster each belongs to."""
        clusters: dict[str, list[str]] = {}
        for name, broker in self._brokers.items():
            clusters.setdefault(broker.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table=dict(self._brokers),
            cluster_addr_table={name: tuple(brokers) for name, brokers in clusters.items()},
        )


@handles(RegisterBroker, needs=ADMIN, largest_body=LARGEST_REGISTRATION)
def register_broker(
    routes: Routes, ask: RegisterBroker, request: Command, connection: Connection, now_ms: int
) -> Outcome:
    """A broker says that it is there and what it has."""
    body = RegisterBrokerBody.read(request.body, ask.body_crc32 or 0, request.version)
    answer = routes.register(ask, body, connection, now_ms)
    connection.ended.watch(routes.connection_ended)
    return answer


@handles(UnregisterBroker, needs=ADMIN)
def unregister_broker(routes: Routes, ask: UnregisterBroker) -> Outcome:
    """A broker says that it goes."""
    routes.unregister(ask.broker_addr)
    return Answer()


@handles(GetRouteInfo, needs=OPEN)
def get_route_info(routes: Routes, ask: GetRouteInfo, request: Command) -> Outcome:
    """Where is this topic?"""
    route = routes.route(ask.topic)
    if route is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {ask.topic}\n{FAQ}",
        )
    return Answer(body=route.write(strict=ask.wants_strict(request.version)))


@handles(GetBrokerClusterInfo, needs=OPEN)
def get_broker_cluster_info(routes: Routes, ask: GetBrokerClusterInfo) -> Outcome:
    """Which brokers are there?"""
    return Answer(body=routes.cluster().write())
