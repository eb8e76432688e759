"""Session: what producers and consumers share: connections, routes, heartbeats, their own end."""

import asyncio
import logging
import random
from collections.abc import Callable

from cometmq.client.errors import NotRunning
from cometmq.client.routes import Routes
from cometmq.net import Address, Network, Pool
from cometmq.protocol import (
    Command,
    HeartBeat,
    HeartbeatData,
    RequestHeader,
    ResponseCode,
    UnregisterClient,
)
from cometmq.runtime import Clock, CometError, Scope, fresh, own_address

log = logging.getLogger("cometmq.client")

BEAT_S = 30.0


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
        leaving: Callable[[str], UnregisterClient],
        notified: Callable[[], None] = lambda: None,
    ) -> None:
        self.random = chance or fresh()
        self._masters_only = masters_only
        self._describe = describe
        self._leaving = leaving
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
        self.scope.start(self._keep_known(), "routes and heartbeats")
        self.scope.start(self._greet(), "first heartbeats")
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._running = False
        try:
            if error is None or isinstance(error, Exception):  # cancelled, there is no time for it
                await self._leave()
        finally:
            try:
                await self.scope.__aexit__(kind, error, trace)
            finally:
                self.pool.close()
                await asyncio.sleep(0)  # sockets close in the loop's next turn

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

    async def _keep_known(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self.routes.refresh_all()
            await self.beat(list(self.routes.brokers()))

    async def _greet(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            opened, self._fresh = list(self._fresh), {}
            await self.beat(opened)

    async def beat(self, addresses: list[Address]) -> None:
        """Tells brokers who we are; one that is away is told when it is back."""
        brokers = self.routes.brokers()
        known = [one for one in addresses if one in brokers]
        told = [one for one in known if brokers[one] or not self._masters_only]
        await self._tell(told, HeartBeat(), self._describe(self.client_id).write())

    async def _leave(self) -> None:
        """Tells the brokers that know this client that it goes: others need not wait for it."""
        open_to = [one for one in self.routes.brokers() if self.pool.is_open(one)]
        await self._tell(open_to, self._leaving(self.client_id), b"")

    async def _tell(self, addresses: list[Address], header: RequestHeader, body: bytes) -> None:
        """All of them at once: one that is silent keeps nobody waiting but us."""

        async def tell(address: Address) -> None:
            try:
                await self.pool.ask(address, header, body=body)
            except CometError as error:
                log.info("%s did not hear our %s: %s", address, type(header).__name__, error)

        await asyncio.gather(*map(tell, addresses))
