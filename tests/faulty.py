"""A network for clients that does to their connections what a test wants; below it the real one."""

import asyncio
from collections.abc import Callable

from cometmq.net import Address, LocalNetwork, Receiver, Transport
from cometmq.net.network import Accept, Listener

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

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        """As the real one."""
        return await self._network.listen(host, port, accept)

    async def connect(self, host: str, port: int, accept: Accept) -> Transport:
        """As the real one, with our hand in between."""
        if str(Address(host, port)) in self.refused:
            raise ConnectionRefusedError(111, "Connection refused")
        made: list[_Link] = []

        def between(transport: Transport) -> Receiver:
            made.append(_Link(self, transport))
            made[0].receiver = accept(made[0])
            return made[0]

        await self._network.connect(host, port, between)
        return made[0]


class _Link:
    """One connection, seen from both sides."""

    receiver: Receiver

    def __init__(self, network: FaultyNetwork, transport: Transport) -> None:
        self._network = network
        self._transport = transport
        self._loses = False
        self.local, self.remote = transport.local, transport.remote
        self.close, self.abort = transport.close, transport.abort
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        if self._network.swallow(data):
            self._network.swallowed += 1
            return
        if self._network.lose_answer_to(data):
            self._network.lost += 1
            self._loses = True
        self._transport.write(data)

    def received(self, data: bytes) -> None:
        if self._loses:
            self._transport.abort()
            return
        self.receiver.received(data)

    def closed(self, error: Exception | None) -> None:
        self.receiver.closed(error)

    def pause_writing(self) -> None:
        self.receiver.pause_writing()

    def resume_writing(self) -> None:
        self.receiver.resume_writing()


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
