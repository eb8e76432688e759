"""The broker's assembly: store, tables, handlers, a port, and the order of start and stop."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from cometmq.broker.clients import SCAN_S as CLIENTS_S
from cometmq.broker.clients import Clients
from cometmq.broker.groups import Groups
from cometmq.broker.handlers import MODULES
from cometmq.broker.holding import SCAN_S as HOLDS_S
from cometmq.broker.holding import Holds
from cometmq.broker.offsets import Offsets
from cometmq.broker.registration import Registration, name_servers
from cometmq.broker.replying import Replies
from cometmq.broker.sending import Sends
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import Topics
from cometmq.kernel import headers
from cometmq.net import Address, Connection, Limits, Network, Server
from cometmq.runtime import Clock, Scope, Threads
from cometmq.serving import Driver, Gate, HandlerTable, Item, ServingLimits
from cometmq.store import Disk, Store, StoreSettings, Table

log = logging.getLogger("cometmq.broker")


class Broker:
    """One broker, from its data directory to its port."""

    def __init__(
        self,
        settings: BrokerSettings,
        store_settings: StoreSettings,
        *,
        network: Network,
        disk: Disk,
        threads: Threads,
        chance: random.Random,
    ) -> None:
        self.settings = settings.checked()
        self._gate = Gate(self.settings.bound, settings.admin_allowed_addresses)
        self._name_servers = name_servers(settings.namesrv_addr)
        self._store_settings = store_settings
        self._network = network
        self._disk = disk
        self._threads = threads
        self._random = chance
        self._clock = Clock()
        self._ends = AsyncExitStack()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._server.address

    @property
    def store(self) -> Store:
        """What it stores in."""
        return self._store

    async def registered(self, within_s: float) -> None:
        """Returns once clients can find this broker, or when that takes too long."""
        try:
            async with asyncio.timeout(within_s):
                await self._registration.done.wait()
        except TimeoutError:
            log.warning("not in the routes of a name server after %.0f s", within_s)

    async def start(self) -> None:
        """Recovers the store, listens, and registers."""
        async with AsyncExitStack() as ends:
            await self._start(ends)
            self._ends = ends.pop_all()

    async def _start(self, ends: AsyncExitStack) -> None:
        """What is begun here ends in the opposite order, also where a later step fails."""
        settings, clock, threads, disk = self.settings, self._clock, self._threads, self._disk
        limits = Limits(
            settings.frame_max_length,
            settings.max_connections,
            settings.server_channel_max_idle_time_seconds,
        )
        self._server = server = Server(self._took, limits, headers.requests)
        ends.callback(server.close)
        self._store = store = await Store.open(
            self._store_settings, disk=disk, threads=threads, clock=clock
        )
        replies = Replies(store, clock)
        ends.callback(replies.close)
        ends.push_async_callback(store.close)
        await server.start(self._network, settings.bound, settings.listen_port)
        # Nothing below waits, so nothing is served before all of it stands.
        registered = Address(settings.registered, server.address.port)
        store.store_host = registered.packed()
        topics = Topics(Table(disk, "config/topics.json"), threads, clock, settings)
        groups = Groups(Table(disk, "config/subscriptionGroup.json"), threads, clock, settings)
        offsets = Offsets(Table(disk, "config/consumerOffset.json"), threads, clock)
        for table in (offsets, groups, topics):
            ends.push_async_callback(table.close)
        offsets.fit(store)
        clients, holds = Clients(clock, settings.channel_expired_timeout), Holds()
        sends = Sends(settings, store, topics, groups, replies, clock, self._random)
        owners = [store, topics, groups, offsets, clients, holds, sends]
        waiting = ServingLimits(settings.max_waiting_requests)
        self._driver = Driver(HandlerTable(MODULES, owners), self._gate, clock, waiting, sends.take)
        ends.callback(self._driver.close)
        self._topics, self._offsets = topics, offsets
        self._registration = Registration(
            settings, self._name_servers, self._network, topics, registered
        )
        ends.push_async_callback(self._registration.close)
        tasks = await Scope().__aenter__()
        ends.push_async_callback(tasks.close)
        self._registration.start(tasks)
        offsets_s = settings.flush_consumer_offset_interval / 1000
        for period_s, work in (
            (offsets_s, offsets.save),
            (CLIENTS_S, clients.expire),
            (HOLDS_S, holds.scan),
        ):
            tasks.start(_every(period_s, work), work.__qualname__)

    def _took(self, connection: Connection, items: Sequence[Item]) -> None:
        self._driver.took(connection, items)

    async def close(self) -> None:
        """Leaves the routes, takes no more requests, and stores and answers what it has."""
        await self._ends.aclose()


async def _every(period_s: float, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(period_s)
        work()
