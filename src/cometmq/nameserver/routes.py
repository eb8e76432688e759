"""Routes: which brokers are alive and which topics they have; no I/O, the time is handed in."""

from dataclasses import dataclass, field

from cometmq.net import Connection
from cometmq.protocol import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    RegisterBroker,
    RegisterBrokerAnswer,
    RegisterBrokerBody,
    ResponseCode,
    TopicRouteData,
)
from cometmq.serving import Refused

EXPIRES_MS = 120_000
"""A broker that is silent for so long is gone, unless it asked for another time (01 17.3)."""

WRITE = 2
MASTER = 0


@dataclass
class _Live:
    """A broker address that is registered, and what it said when it last did so."""

    told: RegisterBroker
    version: DataVersion
    connection: Connection
    seen_ms: int


@dataclass
class _Broker:
    """A broker name: its addresses by id."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool = False


class Routes:
    """Registrations in, routes out; all in memory, as brokers tell it again (spec 01 17.1)."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Broker] = {}
        self._live: dict[str, _Live] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._attended: dict[Connection, None] = {}

    def register(
        self, ask: RegisterBroker, body: RegisterBrokerBody, connection: Connection, now_ms: int
    ) -> RegisterBrokerAnswer:
        """Takes a broker's word for what it has; a slave is told its master."""
        wrapper = body.topic_config_serialize_wrapper
        topics = wrapper.topic_config_table
        version = wrapper.data_version
        known = self._brokers.get(ask.broker_name)
        before = known.addresses.get(ask.broker_id) if known is not None else None
        if before is None and len(topics) == 1:
            # One topic alone is the increment to a registration that we never got.
            raise Refused(ResponseCode.SYSTEM_ERROR, "register broker failed")
        other = self._live.get(before) if before not in (None, ask.broker_addr) else None
        if other is not None and other.version.state_version > version.state_version:
            self._live.pop(ask.broker_addr, None)  # a master that was replaced
            return RegisterBrokerAnswer()
        broker = self._brokers.setdefault(ask.broker_name, _Broker(ask.cluster_name))
        broker.cluster = ask.cluster_name
        broker.acting_master = bool(ask.enable_acting_master)
        for number in [n for n, at in broker.addresses.items() if at == ask.broker_addr]:
            if number != ask.broker_id:  # a slave became master at the same address
                del broker.addresses[number]
        broker.addresses[ask.broker_id] = ask.broker_addr

        smallest = min(broker.addresses)
        prime = ask.enable_acting_master is not None and ask.broker_id == smallest
        live = self._live.get(ask.broker_addr)
        if ask.broker_id == MASTER or prime:
            fresh = before is None or live is None or live.version != version
            for name, config in topics.items():
                queues = self._topics.setdefault(name, {})
                if not fresh and ask.broker_name in queues:
                    continue
                acting = ask.broker_id != MASTER and broker.acting_master
                queues[ask.broker_name] = QueueData(
                    broker_name=ask.broker_name,
                    perm=config.perm & ~WRITE if acting else config.perm,
                    read_queue_nums=config.read_queue_nums,
                    topic_sys_flag=config.topic_sys_flag,
                    write_queue_nums=config.write_queue_nums,
                )
        self._live[ask.broker_addr] = _Live(ask, version, connection, now_ms)
        master = self._live.get(broker.addresses.get(MASTER, ""))
        if ask.broker_id == MASTER or master is None:
            return RegisterBrokerAnswer()
        return RegisterBrokerAnswer(master.told.ha_server_addr, broker.addresses[MASTER])

    def unregister(self, address: str) -> None:
        """Forgets a broker's address, then its name, its topics' queues, its cluster."""
        live = self._live.pop(address, None)
        if live is None:
            return
        left, number = live.told.broker_name, live.told.broker_id
        # Another address may have taken its place, and have been the last to leave.
        broker = self._brokers.get(left, _Broker(live.told.cluster_name))
        if broker.addresses.get(number) == address:
            del broker.addresses[number]
        gone = not broker.addresses
        if gone:
            self._brokers.pop(left, None)
        headless = broker.acting_master and MASTER not in broker.addresses
        for name in list(self._topics):
            queues = self._topics[name]
            data = queues.get(left)
            if data is None:
                continue
            if gone:
                del queues[left]
                if not queues:
                    del self._topics[name]
            elif headless:
                queues[left] = data.but(perm=data.perm & ~WRITE)

    def attend(self, connection: Connection) -> None:
        """Forgets what was registered through a connection as soon as it ends."""
        if connection not in self._attended:
            self._attended[connection] = None
            connection.ended.watch(lambda _: self.connection_ended(connection))

    def connection_ended(self, connection: Connection) -> None:
        """Whoever registered through this connection is gone (a killed process closes it)."""
        self._attended.pop(connection, None)
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
        brokers = [(name, self._brokers[name]) for name in queues if name in self._brokers]
        if not brokers:
            return None
        return TopicRouteData(
            broker_datas=[self._data(name, broker) for name, broker in brokers],
            queue_datas=list(queues.values()),
        )

    def cluster(self) -> ClusterInfo:
        """All brokers, and which cluster each belongs to."""
        clusters: dict[str, list[str]] = {}
        for name, broker in self._brokers.items():
            clusters.setdefault(broker.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={n: self._data(n, broker) for n, broker in self._brokers.items()},
            cluster_addr_table={name: tuple(brokers) for name, brokers in clusters.items()},
        )

    def _data(self, name: str, broker: _Broker) -> BrokerData:
        return BrokerData(
            broker_addrs=dict(broker.addresses),
            broker_name=name,
            cluster=broker.cluster,
            enable_acting_master=broker.acting_master,
        )
