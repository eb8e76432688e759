"""The broker's assembly: store, tables, handlers, a port, and the order of start and stop."""

import asyncio
import logging
import random
from collections.abc import Sequence

from cometmq.broker.clients import Clients
from cometmq.broker.groups import Groups
from cometmq.broker.handlers import MODULES
from cometmq.broker.holding import Holds
from cometmq.broker.offsets import Offsets
from cometmq.broker.registration import Registration
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
        settings.check()
        self.settings = settings
        self._store_settings = store_settings
        self._network = network
        self._disk = disk
        self._threads = threads
        self._random = chance
        self._clock = Clock()
        self._tasks = Scope()

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
        settings, clock, threads = self.settings, self._clock, self._threads
        limits = Limits(
            settings.frame_max_length,
            settings.max_connections,
            settings.server_channel_max_idle_time_seconds,
        )
        self._store = await Store.open(
            self._store_settings, disk=self._disk, threads=threads, clock=clock
        )
        self._server = Server(self._took, limits, headers.requests)
        try:
            await self._server.start(self._network, settings.bound, settings.listen_port)
        except OSError:
            await self._store.close()
            raise
        # Nothing below waits, so nothing is served before all of it stands.
        store = self._store
        registered = Address(settings.registered, self._server.address.port)
        store.store_host = registered.packed()
        self._topics = Topics(self._table("topics"), threads, clock, settings)
        self._groups = Groups(self._table("subscriptionGroup"), threads, clock, settings)
        self._offsets = Offsets(self._table("consumerOffset"), threads, clock, settings)
        self._offsets.fit(store)
        self._clients = Clients(clock, settings.channel_expired_timeout)
        self._holds = Holds()
        self._replies = Replies(store, registered, clock)
        self._sends = Sends(
            settings, store, self._topics, self._groups, self._replies, clock, self._random
        )
        self._driver = Driver(
            HandlerTable(
                MODULES,
                [
                    store,
                    self._topics,
                    self._groups,
                    self._offsets,
                    self._clients,
                    self._holds,
                    self._sends,
                ],
            ),
            Gate(settings.bound, settings.admin_allowed_addresses),
            clock,
            ServingLimits(settings.max_waiting_requests),
            self._sends.take,
        )
        self._offsets.start()
        self._clients.start()
        self._holds.start()
        await self._tasks.__aenter__()
        self._registration = Registration(settings, self._network, self._topics, registered)
        self._registration.start(self._tasks)

    def _took(self, connection: Connection, items: Sequence[Item]) -> None:
        self._driver.took(connection, items)

    def _table(self, name: str) -> Table:
        return Table(self._disk, f"config/{name}.json")

    async def close(self) -> None:
        """Leaves the routes, takes no more requests, and stores and answers what it has."""
        await self._tasks.close()
        await self._registration.close()
        self._driver.close()
        self._holds.close()
        self._clients.close()
        await self._topics.kept.close()
        await self._groups.kept.close()
        await self._offsets.close()
        await self._store.close()
        self._replies.close()
        self._server.close()
