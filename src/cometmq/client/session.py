"""Session: what all clients share: connections, routes, heartbeats, their own end."""

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from typing import Literal, Self

from cometmq.client.errors import BrokerRefused, NotRunning
from cometmq.client.routes import MASTER, MessageQueue, Routes
from cometmq.net import Address, Network, Pool
from cometmq.protocol import (
    Command,
    HeartBeat,
    HeartbeatData,
    NotifyConsumerIdsChanged,
    RequestHeader,
    ResponseCode,
    UnregisterClient,
)
from cometmq.runtime import Clock, CometError, Scope, Signal, fresh, own_address

log = logging.getLogger("cometmq.client")

ASK_S = 3.0
BEAT_S = 30.0


class Session:
    """One client as the servers see it; lives as long as its `async with` block."""

    def __init__(
        self, namesrv: str, group: str, network: Network | None, chance: random.Random | None
    ) -> None:
        self.group = group
        self.random = chance or fresh()
        self.pool = Pool(network, self._asked, self._opened)
        self.routes = Routes(namesrv, self.pool, self.random)
        self.scope = Scope()
        # The original's form: address@instance. The instance is a number that no other process
        # has, so that two clients of one machine are two members of a group.
        self.host = own_address() if network is None else "127.0.0.1"
        self.client_id = f"{self.host}@{self.random.getrandbits(62)}"
        self.heartbeat = HeartbeatData(client_id=self.client_id)
        """What brokers are told of us, once it says what we produce or consume."""
        self.changed: Signal[Literal["members", "routes"]] = Signal()
        """What is not as it was: the members of the group, or perhaps the routes, since a broker
        does not serve us as it should; it may have forgotten us too."""
        self._running = False

    async def __aenter__(self) -> Self:
        self.clock = Clock()
        self.began_ms = self.clock.now_ms()
        await self.scope.__aenter__()
        self._running = True
        self.scope.start(self._keep_known(), "routes and heartbeats")
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

    async def ask(
        self,
        queue: MessageQueue,
        header: RequestHeader,
        within_s: float = ASK_S,
        *,
        of: int = MASTER,
        expected: Sequence[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """Asks the broker of a queue; BrokerRefused where its code is not one of those expected."""
        address = await self.routes.address(queue.topic, queue.broker, of)
        answer = await self.pool.ask(address, header, within_s)
        if answer.code not in expected:
            what = f"{type(header).__name__} of {'/'.join(map(str, queue))} as group {self.group!r}"
            raise BrokerRefused(what, str(address), answer.code, answer.remark)
        return answer

    def _asked(self, command: Command) -> Command | None:
        """Brokers may tell us that a group changed; nothing else that they ask is built."""
        if command.code == NotifyConsumerIdsChanged.code:
            self.changed.fire("members")
            return None
        remark = f" request type {command.code} not supported"
        code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return Command.answer(command.codec, command.opaque, code, remark)

    def _opened(self, address: Address) -> None:
        """A broker forgets its clients with their connections: it is told at once again."""
        if self._running:  # a connection may be made while the block ends
            self.scope.start(self.beat([address]), f"first heartbeat to {address}")

    async def _keep_known(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self.routes.renew()
            await self.beat(self.routes.brokers())

    async def beat(self, addresses: Iterable[Address]) -> None:
        """Tells brokers who we are, all at once; one that is away is told when it is back."""
        body = self.heartbeat.write()
        told = self._concerned(addresses)
        await asyncio.gather(*(self._tell(one, HeartBeat(), body) for one in told))

    async def _leave(self) -> None:
        """Tells the brokers that know this client that it goes: others need not wait for it."""
        goodbye = UnregisterClient(
            self.client_id,
            producer_group=self.group if self.heartbeat.producer_data_set else None,
            consumer_group=self.group if self.heartbeat.consumer_data_set else None,
        )
        told = filter(self.pool.is_open, self._concerned(self.routes.brokers()))
        await asyncio.gather(*(self._tell(one, goodbye) for one in told))

    def _concerned(self, addresses: Iterable[Address]) -> list[Address]:
        """The brokers among them that have to know us: all of a consumer's, a producer's masters,
        none of who is neither."""
        brokers = self.routes.brokers()
        if self.heartbeat.consumer_data_set:
            return [one for one in addresses if one in brokers]
        produces = bool(self.heartbeat.producer_data_set)
        return [one for one in addresses if produces and brokers.get(one)]

    async def _tell(self, address: Address, header: RequestHeader, body: bytes = b"") -> None:
        """One that is silent keeps nobody waiting but us."""
        try:
            await self.pool.ask(address, header, body=body)
        except CometError as error:
            log.info("%s did not hear our %s: %s", address, type(header).__name__, error)
