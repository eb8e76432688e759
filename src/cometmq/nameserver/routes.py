"""Routes: which brokers are alive and which topics they have; no I/O, the time is handed in."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cometmq.protocol import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    RegisterBroker,
    RegisterBrokerBody,
    TopicRouteData,
)

C = TypeVar("C", bound=Hashable)

EXPIRES_MS = 120_000
"""A broker that is silent for so long is gone, unless it asked for another time (01 17.3)."""

WRITE = 2
MASTER = 0


@dataclass
class _Live(Generic[C]):
    """A broker address that is registered."""

    cluster: str
    name: str
    id: int
    seen_ms: int
    expires_ms: int
    version: DataVersion
    connection: C
    ha_address: str


@dataclass
class _Broker:
    """A broker name: its addresses by id."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool = False


@dataclass(frozen=True)
class Registered:
    """What a broker is told when it has registered: a slave learns its master."""

    master_address: str | None = None
    ha_address: str | None = None


class NotRegistered(ValueError):
    """The registration cannot be taken; the text is an interface string of the original."""


class Routes(Generic[C]):
    """Registrations in, routes out; all in memory, as brokers tell it again (spec 01 17.1)."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Broker] = {}
        self._live: dict[str, _Live[C]] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}

    def register(
        self, ask: RegisterBroker, body: RegisterBrokerBody, connection: C, now_ms: int
    ) -> Registered:
        """Takes a broker's word for what it has."""
        wrapper = body.topic_config_serialize_wrapper
        topics = wrapper.topic_config_table
        version = wrapper.data_version
        known = self._brokers.get(ask.broker_name)
        before = known.addresses.get(ask.broker_id) if known is not None else None
        if before is None and len(topics) == 1:
            # One topic alone is the increment to a registration that we never got.
            raise NotRegistered("register broker failed")
        other = self._live.get(before) if before not in (None, ask.broker_addr) else None
        if other is not None and other.version.state_version > version.state_version:
            self._live.pop(ask.broker_addr, None)  # a master that was replaced
            return Registered()
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
        self._live[ask.broker_addr] = _Live(
            ask.cluster_name,
            ask.broker_name,
            ask.broker_id,
            now_ms,
            ask.heartbeat_timeout_millis or EXPIRES_MS,
            version,
            connection,
            ask.ha_server_addr,
        )
        master = self._live.get(broker.addresses.get(MASTER, ""))
        if ask.broker_id == MASTER or master is None:
            return Registered()
        return Registered(broker.addresses[MASTER], master.ha_address)

    def unregister(self, address: str) -> None:
        """Forgets a broker's address, then its name, its topics' queues, its cluster."""
        live = self._live.pop(address, None)
        if live is None:
            return
        broker = self._brokers[live.name]
        if broker.addresses.get(live.id) == address:
            del broker.addresses[live.id]
        gone = not broker.addresses
        if gone:
            del self._brokers[live.name]
        headless = broker.acting_master and MASTER not in broker.addresses
        for name in list(self._topics):
            queues = self._topics[name]
            data = queues.get(live.name)
            if data is None:
                continue
            if gone:
                del queues[live.name]
                if not queues:
                    del self._topics[name]
            elif headless:
                queues[live.name] = data.but(perm=data.perm & ~WRITE)

    def connection_ended(self, connection: C) -> None:
        """Whoever registered through this connection is gone (a killed process closes it)."""
        for address in [a for a, live in self._live.items() if live.connection == connection]:
            self.unregister(address)

    def expire(self, now_ms: int) -> list[C]:
        """Forgets those who were silent too long; their connections are to be closed."""
        late = [a for a, one in self._live.items() if one.seen_ms + one.expires_ms < now_ms]
        connections = [self._live[address].connection for address in late]
        for address in late:
            self.unregister(address)
        return connections

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
