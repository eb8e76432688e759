"""Pool: one connection for each address, made when it is first needed and again when it is lost."""

import asyncio
from collections.abc import Callable

from cometmq.net.channel import CONNECT_S, Asked, Channel, ChannelClosed, NotConnected
from cometmq.net.local import LocalNetwork
from cometmq.net.network import Address, Network
from cometmq.protocol import Command, RequestHeader

ASK_S = 3.0
"""How long a server may take to answer a question, connecting included."""


class Pool:
    """The connections of one client, or of a server that asks others."""

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
            channel = await Channel.open(self._network, address, self._asked)
            self._channels[address] = channel
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
