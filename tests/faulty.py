"""A network for clients that does to their connections what a test wants; below it the real one."""

import asyncio
from collections.abc import Callable
from typing import cast

from cometmq.net import Address, Listener, LocalNetwork, Make

Wanted = Callable[[bytes], bool]


class FaultyNetwork:
    """Loses answers, goes silent, refuses addresses; counts what it did."""

    def __init__(self) -> None:
        self._network = LocalNetwork()
        self.refused: list[str] = []
        """Addresses that nobody answers at."""
        self.lose_answer_to: Wanted = lambda data: False
        """What is written and wanted here arrives; its connection ends before the answer does."""
        self.swallow: Wanted = lambda data: False
        """What is written and wanted here never arrives, and nobody is told."""
        self.lost = 0
        self.swallowed = 0

    async def listen(self, host: str, port: int, make: Make) -> Listener:
        """As the real one."""
        return await self._network.listen(host, port, make)

    async def connect(self, host: str, port: int, make: Make) -> None:
        """As the real one, with our hand in between."""
        if str(Address(host, port)) in self.refused:
            raise ConnectionRefusedError(111, "Connection refused")
        await self._network.connect(host, port, lambda: _Link(self, make()))


class _Link(asyncio.Protocol):
    """A connection, seen from both sides: a protocol to the network, a transport to its client."""

    def __init__(self, network: FaultyNetwork, protocol: asyncio.Protocol) -> None:
        self._network = network
        self._protocol = protocol
        self._loses = False
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)
        self.get_extra_info = stream.get_extra_info
        self.set_write_buffer_limits = stream.set_write_buffer_limits
        self.close, self.abort, self.is_closing = stream.close, stream.abort, stream.is_closing
        self.is_reading = stream.is_reading
        self.pause_reading, self.resume_reading = stream.pause_reading, stream.resume_reading
        self._protocol.connection_made(cast(asyncio.Transport, self))

    def write(self, data: bytes) -> None:
        if self._network.swallow(data):
            self._network.swallowed += 1
            return
        if self._network.lose_answer_to(data):
            self._network.lost += 1
            self._loses = True
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._loses:
            self._transport.abort()
            return
        self._protocol.data_received(data)


def once(wanted: Wanted) -> Wanted:
    """True for the first time that something is wanted, and never again."""
    done: list[bool] = []

    def check(data: bytes) -> bool:
        if not done and wanted(data):
            done.append(True)
        else:
            return False
        return True

    return check


def is_code(*codes: int) -> Wanted:
    """Whether some bytes are requests of one of these codes."""
    texts = [b'"code":%d,' % code for code in codes]
    return lambda data: any(text in data for text in texts)


async def until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    """Waits until something is true that no event tells of; looks again and again."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)
