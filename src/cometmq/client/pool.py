"""Pool: one connection for each address, made when it is first needed and again when it is lost."""

import asyncio
from collections.abc import Callable

from cometmq.net import Address, Channel, LocalNetwork, Network
from cometmq.net.channel import CONNECT_S, Asked
from cometmq.protocol import Command, RequestHeader


class Pool:
    """The connections of one client."""

    def __init__(
        self, network: Network | None, asked: Asked, opened: Callable[[Address], None]
    ) -> None:
        self._network = network or LocalNetwork()
        self._asked = asked
        self._opened = opened
        self._channels: dict[Address, Channel] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    async def ask(
        self,
        address: Address,
        header: RequestHeader,
        within_s: float,
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

    async def _channel(self, address: Address, within_s: float) -> Channel:
        channel = self._channels.get(address)
        if channel is not None and channel.usable:
            return channel
        # Those who come while a connection is made wait for the same attempt.
        async with self._opening.setdefault(address, asyncio.Lock()):
            channel = self._channels.get(address)
            if channel is None or not channel.usable:
                channel = await Channel.open(
                    self._network, address, self._asked, min(within_s, CONNECT_S)
                )
                self._channels[address] = channel
                self._opened(address)
            return channel

    def close(self) -> None:
        """Ends all connections; who still waits for an answer gets ChannelClosed."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
