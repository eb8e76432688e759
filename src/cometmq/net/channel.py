"""Channel: a client's connection, which asks, matches the answers, and is asked itself."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cometmq.kernel import frames
from cometmq.kernel.faults import Malformed
from cometmq.net.connection import Connection, Limits
from cometmq.net.network import Address, Network, Transport
from cometmq.protocol import Command
from cometmq.runtime import CometError, TimedOut

Asked = Callable[[Command], Command | None]
"""What the peer's own requests are answered with; None where nothing is to be said."""

LIMITS = Limits(throttle=False)

CONNECT_S = 3.0
"""Longest time for a connection to come up, as in the original (spec 01 ch. 9)."""


class NotConnected(CometError):
    """Nobody answered at an address; nothing was sent."""


class ChannelClosed(CometError):
    """The connection ended before the answer came; the request may have been served."""


class Channel:
    """One connection to one server, shared by all who ask it."""

    def __init__(self, address: Address, asked: Asked) -> None:
        self.address = address
        self._asked = asked
        self._opaques = itertools.count()
        self._pending: dict[int, asyncio.Future[Command]] = {}
        self._connection: Connection

    @classmethod
    async def open(
        cls, network: Network, address: Address, asked: Asked, within_s: float = CONNECT_S
    ) -> "Channel":
        """Connects; NotConnected where that fails or takes too long."""
        channel = cls(address, asked)

        def accept(transport: Transport) -> Connection:
            channel._connection = Connection(transport, frames.split, channel._took, LIMITS)
            channel._connection.ended.watch(channel._ended)
            return channel._connection

        try:
            async with asyncio.timeout(within_s):
                await network.connect(address.host, address.port, accept)
        except TimeoutError:
            raise NotConnected(
                f"connect to {address} failed: no answer within {within_s:.1f} s; "
                "is the server running, and is a firewall in between?"
            ) from None
        except OSError as error:
            raise NotConnected(
                f"connect to {address} failed: {error.strerror or error}; is the server running?"
            ) from error
        return channel

    @property
    def usable(self) -> bool:
        """The connection has not ended."""
        return self._connection.open

    @property
    def local(self) -> Address:
        """Our own end, as the server sees it."""
        return self._connection.local

    async def ask(self, command: Command, within_s: float) -> Command:
        """Sends a request and waits for its answer, whatever its code."""
        loop = asyncio.get_running_loop()
        opaque = next(self._opaques) & 0x7FFFFFFF
        answer: asyncio.Future[Command] = loop.create_future()
        self._pending[opaque] = answer
        self._write(replace(command, opaque=opaque))
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            raise TimedOut(
                f"wait response on the channel {self.address} timeout, {within_s * 1000:.0f}(ms)"
            ) from None
        finally:
            self._pending.pop(opaque, None)

    def tell(self, command: Command) -> None:
        """Sends a request that is never answered."""
        self._write(replace(command, opaque=next(self._opaques) & 0x7FFFFFFF).oneway())

    def _write(self, command: Command) -> None:
        if not self.usable:
            raise ChannelClosed(f"send request to {self.address} failed: the connection is closed")
        self._connection.write(command.write())

    def _took(self, connection: Connection, items: Sequence[Any]) -> None:
        for frame in items:
            try:
                command = Command.read(frame)
            except Malformed as error:
                connection.abort(error)
                return
            if command.is_answer:
                waiting = self._pending.get(command.opaque)
                if waiting is not None and not waiting.done():
                    waiting.set_result(command)
                continue
            answer = self._asked(command)
            if answer is not None and not command.is_oneway:
                connection.write(answer.write())

    def _ended(self, error: Exception | None) -> None:
        because = f": {error}" if error else ""
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(
                    ChannelClosed(f"the connection to {self.address} ended{because}")
                )

    def close(self) -> None:
        """Ends the connection; who still waits for an answer gets ChannelClosed."""
        self._connection.close()
        self._connection.closed(None)
