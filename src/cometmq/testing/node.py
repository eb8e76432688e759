"""A whole node for a test: in memory or in a directory, on real ports or in a simulation."""

import os
import random
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from cometmq import node
from cometmq.broker import BrokerSettings
from cometmq.client import Consumer, Producer
from cometmq.message import Message
from cometmq.nameserver import NameServerSettings
from cometmq.net import Address, Channel, LocalNetwork, Network
from cometmq.protocol import (
    Command,
    RequestHeader,
    ResponseCode,
    TopicFilterType,
    UpdateAndCreateTopic,
)
from cometmq.runtime import LocalThreads, Threads
from cometmq.store import Disk, LocalDisk, MemoryDisk, StoreSettings
from cometmq.testing.network import Machine
from cometmq.testing.threads import SimulatedThreads

SMALL_LOG = 4 << 20
ASK_S = 5.0


class Node:
    """`async with Node() as node:` and `Producer(node.namesrv, group="g")` has a broker.

    Without a directory everything is in memory and gone afterwards. A machine of a simulated
    network puts the node there; the loop then has to be the virtual one.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        machine: Machine | None = None,
        disk: Disk | None = None,
        threads: Threads | None = None,
        chance: random.Random | None = None,
        broker: dict[str, Any] | None = None,
        store: dict[str, Any] | None = None,
    ) -> None:
        self._disk = disk or (LocalDisk(directory) if directory is not None else MemoryDisk())
        self.network: Network = machine or LocalNetwork()
        host = machine.host if machine is not None else "127.0.0.1"
        chance = chance or random.Random()
        if threads is None:
            threads = SimulatedThreads(chance) if machine is not None else LocalThreads()
        free = {"listen_port": 0, "bind_address": host, "broker_ip1": host}
        settings = node.NodeSettings(
            NameServerSettings(host, 0),
            replace(BrokerSettings(), **{**free, **(broker or {})}),
            replace(StoreSettings(mapped_file_size_commit_log=SMALL_LOG), **(store or {})),
        )
        self._chance = chance
        self._client_machine = machine.network.machine(host) if machine is not None else None
        self._node = node.Node(
            settings, disk=self._disk, network=self.network, threads=threads, chance=chance
        )

    @property
    def namesrv(self) -> str:
        """What clients are given as name server."""
        return self._node.namesrv

    @property
    def address(self) -> Address:
        """Where the broker listens."""
        return self._node.broker.address

    @property
    def client_network(self) -> Network | None:
        """What clients of this node are given as `network=`; None stands for the real one."""
        return self._client_machine

    async def __aenter__(self) -> Self:
        await self._node.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._node.close()

    def producer(self, group: str = "test-producer", **more: Any) -> Producer:
        """A producer for this node."""
        return Producer(self.namesrv, group=group, network=self._client_machine, **more)

    def consumer(self, subscribe: dict[str, str], group: str = "test", **more: Any) -> Consumer:
        """A consumer for this node; it begins at the first message."""
        more = {"start": "earliest", **more}
        return Consumer(
            self.namesrv, group=group, subscribe=subscribe, network=self._client_machine, **more
        )

    async def ask(
        self, header: RequestHeader, body: bytes = b"", *, at: str | None = None
    ) -> Command:
        """One request to the broker, or to another address, and its answer."""
        where = Address.parse(at) if at is not None else self.address
        network = self._client_machine or LocalNetwork()
        channel = await Channel.open(network, where, lambda command: None)
        try:
            return await channel.ask(Command.request(header, body), ASK_S)
        finally:
            channel.close()

    async def make_topic(self, topic: str, queues: int = 4) -> None:
        """Makes a topic."""
        kind = TopicFilterType.SINGLE_TAG
        answer = await self.ask(UpdateAndCreateTopic(topic, "TBW102", queues, queues, 6, kind))
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def fill(self, topic: str, messages: int, *, queues: int = 1) -> None:
        """Makes a topic and sends so many messages to it."""
        await self.make_topic(topic, queues)
        async with self.producer() as producer:
            for number in range(messages):
                await producer.send(Message(topic, f"message {number}".encode()))
