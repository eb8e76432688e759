"""Session: what producers and consumers share: connections, routes, heartbeats, their own end."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from cometmq.client.errors import NotRunning
from cometmq.client.pool import Pool
from cometmq.client.routes import Routes
from cometmq.net import Address, Network
from cometmq.protocol import Command, HeartBeat, HeartbeatData, ResponseCode, UnregisterClient
from cometmq.runtime import Clock, CometError, Scope, own_address
from cometmq.runtime.chance import fresh

log = logging.getLogger("cometmq.client")

BEAT_S = 30.0
ASK_S = 3.0


class Session:
    """One client as the servers see it; lives as long as its `async with` block."""

    def __init__(
        self,
        namesrv: str,
        *,
        network: Network | None,
        chance: random.Random | None,
        masters_only: bool,
        describe: Callable[[str], HeartbeatData],
        notified: Callable[[], None] = lambda: None,
    ) -> None:
        self.random = chance or fresh()
        self._masters_only = masters_only
        self._describe = describe
        self._notified = notified
        self._fresh: dict[Address, None] = {}
        self._wake = asyncio.Event()
        self._running = False
        self.pool = Pool(network, self._asked, self._opened)
        self.routes = Routes(namesrv, self.pool, self.random)
        self.scope = Scope()
        # The original's form: address@instance. The instance is a number that no other process
        # has, so that two clients of one machine are two members of a group.
        self.host = own_address() if network is None else "127.0.0.1"
        self.client_id = f"{self.host}@{self.random.getrandbits(62)}"

    async def __aenter__(self) -> "Session":
        self.clock = Clock()
        await self.scope.__aenter__()
        self._running = True
        self.scope.start(self._refresh(), "routes")
        self.scope.start(self._beat(), "heartbeats")
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._running = False
        try:
            await self.scope.__aexit__(kind, error, trace)
        finally:
            self.pool.close()

    def check_running(self, what: str) -> None:
        """NotRunning outside of the block."""
        if not self._running:
            raise NotRunning(f"the {what} is not running: use it inside `async with {what}`")

    def _asked(self, command: Command) -> Command | None:
        """Brokers may tell us that a group changed; nothing else that they ask is built."""
        if command.code == 40:
            self._notified()
            return None
        remark = f" request type {command.code} not supported"
        code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return Command.answer(command.codec, command.opaque, code, remark)

    def _opened(self, address: Address) -> None:
        """A broker forgets its clients with their connections: it is told at once again."""
        self._fresh[address] = None
        self._wake.set()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self.routes.refresh_all()

    async def _beat(self) -> None:
        while True:
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._wake.wait()
                addresses, self._fresh = list(self._fresh), {}
            except TimeoutError:
                addresses = list(self.routes.brokers())
            self._wake.clear()
            await self.beat(addresses)

    async def beat(self, addresses: list[Address]) -> None:
        """Tells brokers who we are; one that is away is told when it is back."""
        brokers = self.routes.brokers()
        body = self._describe(self.client_id).write()
        for address in addresses:
            if address in brokers and (brokers[address] or not self._masters_only):
                try:
                    await self.pool.ask(address, HeartBeat(), ASK_S, body)
                except CometError as error:
                    log.info("no heartbeat to %s: %s", address, error)

    async def leave(self, header: UnregisterClient) -> None:
        """Tells every broker that this client goes, so that others need not wait for it."""
        for address in self.routes.brokers():
            await self.quietly(self.pool.ask(address, header, ASK_S))

    async def quietly(self, work: Awaitable[object]) -> None:
        """Does something on the way out that must not hide why we go."""
        try:
            await work
        except CometError as error:
            log.info("while closing: %s", error)
