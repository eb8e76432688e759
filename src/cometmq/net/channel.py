"""The asking side: channels, which match answers to what was asked, and a pool of them."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cometmq.kernel import Malformed, frames
from cometmq.net.connection import Connection, Limits
from cometmq.net.network import Address, LocalNetwork, Network
from cometmq.protocol import Command, RequestHeader
from cometmq.runtime import CometError, TimedOut

Asked = Callable[[Command], Command | None]
"""What the peer's own requests are answered with; None where nothing is to be said."""

LIMITS = Limits(throttle=False)

CONNECT_S = 3.0
"""Longest time for a connection to come up, as in the original (spec 01 ch. 9)."""

ASK_S = 3.0
"""How long a server may take to answer a question, connecting included."""


class NotConnected(CometError):
    """Nobody answered at an address; nothing was sent."""


class ChannelClosed(CometError):
    """The connection ended before the answer came; the request may have been served."""


class Channel(Connection):
    """A connection to one server, shared by all who ask it."""

    def __init__(self, address: Address, asked: Asked) -> None:
        super().__init__(frames.split, self._hear, LIMITS)
        self.address = address
        self._asked = asked
        self._opaques = itertools.count()
        self._pending: dict[int, asyncio.Future[Command]] = {}
        self.ended.watch(self._fail)

    @classmethod
    async def open(cls, network: Network, address: Address, asked: Asked) -> "Channel":
        """Connects, NotConnected where that fails; who calls bounds the time."""
        channel = cls(address, asked)
        try:
            await network.connect(address.host, address.port, lambda: channel)
        except OSError as error:
            raise NotConnected(
                f"connect to {address} failed: {error.strerror or error}; is the server running?"
            ) from error
        return channel

    async def ask(self, command: Command, within_s: float) -> Command:
        """Sends a request and waits for its answer, whatever its code."""
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        opaque = self._send(command)
        self._pending[opaque] = answer
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            raise TimedOut(
                f"wait response on the channel {self.address} timeout, {within_s * 1000:.0f}(ms)"
            ) from None
        finally:
            del self._pending[opaque]

    def tell(self, command: Command) -> None:
        """Sends a request that is never answered."""
        self._send(command.oneway())

    def _send(self, command: Command) -> int:
        if not self.usable:
            raise ChannelClosed(f"send request to {self.address} failed: the connection is closed")
        opaque = next(self._opaques) & 0x7FFFFFFF
        self.write(replace(command, opaque=opaque).write())
        return opaque

    def _hear(self, _: Connection, items: Sequence[Any]) -> None:
        for frame in items:
            try:
                command = Command.read(frame)
            except Malformed as error:
                self.abort(error)
                return
            if command.is_answer:
                waiting = self._pending.get(command.opaque)
                if waiting is not None and not waiting.done():
                    waiting.set_result(command)
                continue
            answer = self._asked(command)
            if answer is not None and not command.is_oneway:
                self.write(answer.write())

    def _fail(self, _: Connection) -> None:
        because = f": {self.error}" if self.error else ""
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(
                    ChannelClosed(f"the connection to {self.address} ended{because}")
                )

    def close(self) -> None:
        """Ends the connection; who still waits for an answer gets ChannelClosed."""
        super().close()
        self.connection_lost(None)


class Pool:
    """One channel for each address, made when it is first needed and again when it is lost."""

    def __init__(
        self,
        network: Network | None = None,
        asked: Asked = lambda command: None,
        opened: Callable[[Address], None] = lambda address: None,
    ) -> None:
        self._network = network or LocalNetwork()
        self._asked = asked
        self._opened = opened
        self._channels: dict[Address, Channel] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._closed = False

    async def ask(
        self,
        address: Address,
        header: RequestHeader,
        within_s: float = ASK_S,
        body: bytes = b"",
        code: int | None = None,
    ) -> Command:
        """Asks a server; connecting counts against the time (spec 01 ch. 9)."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        channel = await self._channel(address, within_s)
        return await channel.ask(Command.request(header, body, code=code), until - loop.time())

    async def tell(
        self, address: Address, header: RequestHeader, body: bytes = b"", code: int | None = None
    ) -> None:
        """Tells a server something that it does not answer."""
        channel = await self._channel(address, CONNECT_S)
        channel.tell(Command.request(header, body, code=code))

    def is_open(self, address: Address) -> bool:
        """There is a connection to this address."""
        channel = self._channels.get(address)
        return channel is not None and channel.usable

    async def _channel(self, address: Address, within_s: float) -> Channel:
        if self.is_open(address):
            return self._channels[address]
        try:
            # Those who come while a connection is made wait for the same attempt, each for no
            # longer than its own time.
            async with (
                asyncio.timeout(min(within_s, CONNECT_S)),
                self._opening.setdefault(address, asyncio.Lock()),
            ):
                if not self.is_open(address):
                    await self._open(address)
                return self._channels[address]
        except TimeoutError:
            raise NotConnected(
                f"connect to {address} failed: no answer within {within_s:.1f} s; "
                "is the server running, and is a firewall in between?"
            ) from None

    async def _open(self, address: Address) -> None:
        if not self._closed:
            self._channels[address] = await Channel.open(self._network, address, self._asked)
            self._opened(address)
        if self._closed:
            self.close()
            raise ChannelClosed(f"connect to {address} failed: the client's block has ended")

    def close(self) -> None:
        """Ends all connections, for good; who still waits for an answer gets ChannelClosed."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
