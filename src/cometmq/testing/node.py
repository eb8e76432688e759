"""A whole node for a test: in memory or in a directory, on real ports or in a simulation."""

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from itertools import repeat
from typing import Any

from cometmq import node
from cometmq.broker import BrokerSettings
from cometmq.client import Consumer, Producer
from cometmq.message import Message
from cometmq.nameserver import NameServerSettings
from cometmq.net import Address, LocalNetwork, Network, Pool
from cometmq.protocol import (
    Command,
    RequestHeader,
    ResponseCode,
    TopicFilterType,
    UpdateAndCreateTopic,
)
from cometmq.runtime import CometError, LocalThreads, Threads
from cometmq.store import Disk, LocalDisk, MemoryDisk, StoreSettings
from cometmq.testing.disk import ForgetfulDisk
from cometmq.testing.network import Machine
from cometmq.testing.simulation import SimulatedThreads

SMALL_LOG = 4 << 20
ASK_S = 5.0
BURY_S = 60.0


class Node(node.Node):
    """`async with Node() as node:` and `Producer(node.namesrv, group="g")` has a broker.

    Without a directory everything is in memory and gone afterwards. A machine of a simulated
    network puts the node there, on a disk that forgets; the loop then has to be the virtual one.
    Such a node can die (`power_cut`, `kill`) and start again where it was; faults of its `disk`
    are ordered there.
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
        chance = chance or random.Random()
        host = machine.host if machine is not None else "127.0.0.1"
        ports = machine.network.ports if machine is not None else repeat(0)
        at_host = {"listen_port": next(ports), "bind_address": host, "broker_ip1": host}
        if name_port := next(ports):
            at_host["namesrv_addr"] = str(Address(host, name_port))
        settings = node.NodeSettings(
            NameServerSettings(host, name_port),
            replace(BrokerSettings(), **{**at_host, **(broker or {})}),
            replace(StoreSettings(mapped_file_size_commit_log=SMALL_LOG), **(store or {})),
        )
        if disk is None and directory is not None:
            disk = LocalDisk(directory)
        elif disk is None:
            disk = MemoryDisk() if machine is None else ForgetfulDisk(chance)
        super().__init__(
            settings,
            disk=disk,
            network=machine or LocalNetwork(),
            threads=threads or LocalThreads(),
            chance=chance,
        )
        self.client_network: Network | None = machine and machine.network.machine(host)
        """What clients of this node are given as `network=`; None stands for the real one."""
        self._death = asyncio.Event()
        self._simulated = machine is not None and threads is None
        self._begin_life()

    def _begin_life(self) -> None:
        if self._simulated and isinstance(self.network, Machine):
            trace = self.network.network.trace
            self.threads = threads = SimulatedThreads(self.chance, trace=trace)
            if isinstance(self.disk, ForgetfulDisk):
                self.disk.pause, self.disk.died = threads.pause, self._died

    def _died(self) -> None:
        assert isinstance(self.network, Machine)
        self.network.on = False
        self._death.set()

    @property
    def address(self) -> Address:
        """Where the broker listens."""
        broker = self.settings.broker
        return Address(broker.bound, broker.listen_port or self.broker.address.port)

    async def start(self) -> None:
        """Starts it, so that clients find it; one that died has the same address as before."""
        await self.boot()
        await self.broker.registered(ASK_S)

    async def boot(self) -> None:
        """Starts it; it may take a moment until clients find it."""
        await super().start()

    async def death(self) -> None:
        """Waits for a death that was ordered of the disk."""
        await self._death.wait()

    async def power_cut(self) -> None:
        """The power goes, now or at the call at which the disk died; `start` is next."""
        await self._die(ForgetfulDisk.after_cut)

    async def kill(self) -> None:
        """The process dies, and what it has written stays; `start` is next."""
        await self._die(ForgetfulDisk.after_kill)

    async def _die(self, left: Callable[[ForgetfulDisk], ForgetfulDisk]) -> None:
        disk, machine = self.disk, self.network
        assert isinstance(disk, ForgetfulDisk), "only a disk that forgets survives its node's death"
        assert isinstance(machine, Machine), "only a node on a simulated network can die"
        disk.die()
        machine.power_off()
        # What a dead process leaves on the loop has to go; its disk and its network are gone.
        with suppress(CometError, TimeoutError):
            async with asyncio.timeout(BURY_S):
                await self.close()
        self.disk, self.network = left(disk), machine.network.machine(machine.host)
        self._death.clear()
        self._begin_life()

    def producer(self, group: str = "test-producer", **more: Any) -> Producer:
        """A producer for this node."""
        return Producer(self.namesrv, group=group, network=self.client_network, **more)

    def consumer(self, subscribe: dict[str, str], group: str = "test", **more: Any) -> Consumer:
        """A consumer for this node; it begins at the first message."""
        more = {"start": "earliest", **more}
        return Consumer(
            self.namesrv, group=group, subscribe=subscribe, network=self.client_network, **more
        )

    async def ask(
        self, header: RequestHeader, body: bytes = b"", *, at: str | None = None
    ) -> Command:
        """One request to the broker, or to another address, and its answer."""
        where = Address.parse(at) if at is not None else self.address
        with closing(Pool(self.client_network)) as pool:
            return await pool.ask(where, header, ASK_S, body)

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
