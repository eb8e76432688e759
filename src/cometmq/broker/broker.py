"""The broker's assembly: store, tables, handlers, a port, and the order of start and stop."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from cometmq.broker.handlers import MODULES
from cometmq.broker.handlers.clients import SCAN_S, Clients
from cometmq.broker.handlers.offsets import Offsets
from cometmq.broker.handlers.sending import Replies, Sends
from cometmq.broker.handlers.topics import Groups, Topics
from cometmq.broker.registration import Registration, name_servers
from cometmq.broker.settings import BrokerSettings
from cometmq.kernel import headers
from cometmq.net import Address, Connection, Limits, Network, Pool, Server
from cometmq.runtime import Clock, Scope, Threads
from cometmq.serving import Driver, Gate, Item, handler_table
from cometmq.store import Disk, Store, StoreSettings

log = logging.getLogger("cometmq.broker")


@dataclass(eq=False)
class Broker:
    """One broker, from its data directory to its port."""

    settings: BrokerSettings
    store_settings: StoreSettings
    network: Network
    disk: Disk
    threads: Threads
    chance: random.Random

    def __post_init__(self) -> None:
        self.settings = self.settings.checked()
        self._gate = Gate(self.settings.bound, self.settings.admin_allowed_addresses)
        self._name_servers = name_servers(self.settings.namesrv_addr)
        self._ends = AsyncExitStack()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._server.address

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
        settings, disk, threads, clock = self.settings, self.disk, self.threads, Clock()
        idle_s = settings.server_channel_max_idle_time_seconds
        limits = Limits(settings.frame_max_length, settings.max_connections, idle_s)
        self._server = server = Server(self._took, limits, headers.requests)
        ends.callback(server.close)
        self.store = store = await Store.open(
            self.store_settings, disk=disk, threads=threads, clock=clock
        )
        safe, written = (Replies(store, one, clock) for one in (store.promised, store.written))
        for replies in (safe, written):
            ends.callback(replies.close)
        ends.push_async_callback(store.close)
        await server.start(self.network, settings.bound, settings.listen_port)
        # Nothing below waits, so nothing is served before all of it stands.
        registered = Address(settings.registered, server.address.port)
        store.store_host = registered.packed()
        self._topics = topics = Topics(disk, threads, clock, settings)
        groups = Groups(disk, threads, clock, settings)
        self._offsets = offsets = Offsets(disk, threads, clock, settings)
        for table in (offsets, groups, topics):
            ends.push_async_callback(table.close)
        offsets.fit(store)
        clients = Clients(clock, settings.channel_expired_timeout)
        sends = Sends(settings, store, topics, groups, safe, written, clock, self.chance)
        served = handler_table(MODULES, [store, topics, groups, offsets, clients, sends])
        self._driver = Driver(served, self._gate, clock, sends.take, settings.max_waiting_requests)
        ends.callback(self._driver.close)
        pool = Pool(self.network)
        ends.callback(pool.close)
        self._registration = Registration(settings, self._name_servers, pool, topics, registered)
        ends.push_async_callback(self._registration.close)
        tasks = await ends.enter_async_context(Scope())
        self._registration.start(tasks)
        offsets_s = settings.flush_consumer_offset_interval / 1000
        tasks.start(_every(offsets_s, offsets.save), "save offsets")
        tasks.start(_every(SCAN_S, clients.expire), "look for silent clients")

    def _took(self, connection: Connection, items: Sequence[Item]) -> None:
        self._driver.took(connection, items)

    async def close(self) -> None:
        """Leaves the routes, takes no more requests, and stores and answers what it has."""
        await self._ends.aclose()


async def _every(period_s: float, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(period_s)
        work()
