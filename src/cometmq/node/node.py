"""The node's assembly: which servers run, and the order in which they start and stop."""

import random
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Self

from cometmq.broker import Broker, BrokerSettings
from cometmq.nameserver import NameServer, NameServerSettings
from cometmq.net import Address, Limits, LocalNetwork, Network
from cometmq.runtime import BadSetting, LocalThreads, Threads, fresh
from cometmq.runtime.host import is_wildcard, own_address
from cometmq.store import Disk, StoreSettings


@dataclass(frozen=True)
class NodeSettings:
    """What runs in a node; without a name server the broker registers where it is told."""

    name_server: NameServerSettings | None = field(default_factory=NameServerSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    store: StoreSettings = field(default_factory=StoreSettings)


class Node:
    """A name server and a broker that knows it, over one data directory."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        disk: Disk,
        network: Network | None = None,
        threads: Threads | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self._disk = disk
        self._network = network or LocalNetwork()
        self._threads = threads or LocalThreads()
        self._random = chance or fresh()
        self._name_server: NameServer | None = None
        self._broker: Broker | None = None
        self._ends = AsyncExitStack()

    @property
    def broker(self) -> Broker:
        """The broker, once the node has started."""
        assert self._broker is not None, "the node has not started"
        return self._broker

    @property
    def name_server(self) -> Address | None:
        """Where clients reach the name server that runs here; None where none does."""
        if self._name_server is None:
            return None
        address = self._name_server.address
        host = own_address(address.host) if is_wildcard(address.host) else address.host
        return Address(host, address.port)

    @property
    def namesrv(self) -> str:
        """What a client is given as its name server address."""
        return str(self.name_server or self.settings.broker.namesrv_addr)

    async def start(self) -> None:
        """Name server first, so that the broker's first registration finds it; it ends last, so
        that the broker can leave the routes."""
        settings, broker = self.settings, self.settings.broker
        async with AsyncExitStack() as ends:
            ends.callback(self._threads.close)
            if settings.name_server is not None:
                limits = Limits(broker.frame_max_length, broker.max_connections)
                server = NameServer(settings.name_server, self._network, limits)
                ends.callback(server.close)
                asked = Address(settings.name_server.bind_address, settings.name_server.listen_port)
                await _taking(server.start(), asked, "name server", "--namesrv")
                self._name_server = server
                told = [part for part in broker.namesrv_addr.split(";") if part]
                names = ";".join(dict.fromkeys([*told, self.namesrv]))
                broker = replace(broker, namesrv_addr=names)
            self._broker = Broker(
                broker,
                settings.store,
                network=self._network,
                disk=self._disk,
                threads=self._threads,
                chance=self._random,
            )
            ends.push_async_callback(self._broker.close)
            asked = Address(broker.bound, broker.listen_port)
            await _taking(self._broker.start(), asked, "broker", "--broker")
            self._ends = ends.pop_all()

    async def close(self) -> None:
        """The broker first: it leaves the routes while its name server still listens."""
        await self._ends.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close()


async def _taking(
    start: Coroutine[None, None, None], asked: Address, what: str, option: str
) -> None:
    """Waits for a server's start; an address that cannot be had becomes one plain sentence."""
    try:
        await start
    except OSError as error:
        raise BadSetting(
            f"the {what} cannot listen on {asked}: {error.strerror or error}; is another one "
            f"running there? Choose another address with {option} HOST:PORT"
        ) from error
