"""The simulated network: machines, connections with delays by the seed, and faults to order."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from errno import EADDRINUSE, ECONNREFUSED
from itertools import count
from random import Random
from typing import TypeVar

from cometmq.net import Address, Listener, Make
from cometmq.testing.simulation import TICK_S, Trace

T = TypeVar("T")

LEAST_S, MOST_S = 0.00005, 0.002
"""How long anything is on its way, if no machine is slow."""

PIECE = 16 << 10
"""The largest piece that arrives at once; a real socket reads no more than 256 KiB."""


@dataclass(eq=False)
class SimulatedNetwork:
    """Connects machines; all delays come from its random numbers."""

    random: Random
    _: KW_ONLY
    trace: Trace = field(default_factory=Trace)
    ports: Iterator[int] = field(default_factory=lambda: count(20_000))
    """Each is given once."""
    listeners: dict[Address, tuple["Machine", Make]] = field(default_factory=dict)
    """Who listens there, and what makes the protocol of a connection."""
    ends: dict["_End", None] = field(default_factory=dict)
    """Both ends of every connection."""

    def machine(self, host: str = "127.0.0.1") -> "Machine":
        """A machine of its own on this network."""
        return Machine(self, host)

    def delay_s(self, *machines: "Machine") -> float:
        """How long something takes that goes by these machines."""
        return self.random.uniform(LEAST_S, MOST_S) + sum(one.slow_s for one in machines)

    def cut(self) -> None:
        """Cuts one of the connections, if there are any."""
        if self.ends:
            self.random.choice(list(self.ends)).cut()


@dataclass(eq=False)
class Machine:
    """One machine's place on the network: what a node or a client is given as `network=`."""

    network: SimulatedNetwork
    host: str
    on: bool = True
    """Nothing leaves it any more from the moment that it is off; may be set in any thread."""
    slow_s: float = 0.0
    """Added to every delay from and to this machine."""

    async def listen(self, host: str, port: int, make: Make) -> Listener:
        listeners, address = self.network.listeners, Address(host, port or next(self.network.ports))
        if address in listeners:
            raise OSError(EADDRINUSE, "Address already in use")
        listeners[address] = self, make
        return Listener(address, lambda: listeners.pop(address, None))

    async def connect(self, host: str, port: int, make: Make) -> None:
        network, there = self.network, Address(host, port)
        await asyncio.sleep(network.delay_s(self))
        listening = network.listeners.get(there)
        if listening is None or not listening[0].on or not self.on:
            raise ConnectionRefusedError(ECONNREFUSED, "Connection refused")
        machine, make_far = listening
        here = Address(self.host, next(network.ports))
        near, far = _End(self, here, there, make()), _End(machine, there, here, make_far())
        near.peer, far.peer = far, near
        network.ends |= {near: None, far: None}
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)

    def power_off(self) -> None:
        """Everything of this machine is gone at once; its peers notice a little later."""
        self.on = False
        for address, (machine, _) in list(self.network.listeners.items()):
            if machine is self:
                del self.network.listeners[address]
        for end in self._ends():
            end.leave("the peer's machine is off", ConnectionAbortedError("this machine is off"))

    def cut_connections(self) -> None:
        """Cuts all connections of this machine; it goes on."""
        for end in self._ends():
            end.cut()

    def _ends(self) -> list["_End"]:
        return [end for end in self.network.ends if end.machine is self]


@dataclass(eq=False)
class _End(asyncio.Transport):
    """One end of a connection."""

    machine: Machine
    local: Address
    remote: Address
    protocol: asyncio.Protocol
    peer: "_End" = field(init=False)
    _reading: bool = True
    _closing: bool = False
    _high_water: int = 64 << 10
    _on_the_way: int = 0
    _full: bool = False
    _arrives: float = 0.0
    _arrived: deque[bytes] = field(default_factory=deque)

    def __post_init__(self) -> None:
        super().__init__({"sockname": self.local, "peername": self.remote})

    @property
    def _open(self) -> bool:
        return self in self.machine.network.ends

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends bytes, in pieces that arrive in order, each when the seed wants."""
        if not self._open or self._closing or not self.machine.on:
            return
        left = memoryview(bytes(data))
        while left:
            length = self.machine.network.random.choice((7, 512, PIECE, PIECE, PIECE))
            piece, left = bytes(left[:length]), left[length:]
            self._on_the_way += len(piece)
            self._at_peer(self.peer._arrive, piece)
        if self._on_the_way > self._high_water and not self._full:
            self._full = True
            self.protocol.pause_writing()

    def _at_peer(self, work: Callable[[T], None], what: T) -> None:
        """Does something where the peer is, after what was sent before."""
        loop = asyncio.get_running_loop()
        delay_s = self.machine.network.delay_s(self.machine, self.peer.machine)
        # Timers of one moment come in no certain order, and bytes must not overtake each other.
        self._arrives = max(self._arrives + TICK_S, loop.time() + delay_s)
        loop.call_at(self._arrives, work, what)

    def _arrive(self, piece: bytes) -> None:
        if self._open:
            self._arrived.append(piece)
            self._hand_on()

    def _hand_on(self) -> None:
        while self._reading and self._open and self.machine.on and self._arrived:
            piece = self._arrived.popleft()
            self.machine.network.trace.add("net", self.remote, self.local, piece)
            self.peer._taken(len(piece))
            self.protocol.data_received(piece)

    def _taken(self, length: int) -> None:
        self._on_the_way -= length
        if self._full and self._on_the_way <= self._high_water // 4:
            self._full = False
            if self._open:
                self.protocol.resume_writing()

    def close(self) -> None:
        if self._open and not self._closing:
            self._closing = True
            self._at_peer(self.peer.lose, None)
            asyncio.get_running_loop().call_soon(self.lose, None)

    def abort(self) -> None:
        self.leave("reset by peer", None)

    def leave(self, told: str, error: Exception | None) -> None:
        """The connection ends for this end at once; the peer finds out, later."""
        self._at_peer(self.peer.lose, ConnectionResetError(told))
        self.lose(error)

    def cut(self) -> None:
        """The connection breaks, at both ends at once."""
        for end in (self, self.peer):
            end.lose(ConnectionResetError("the connection was cut"))

    def lose(self, error: Exception | None) -> None:
        """The connection has ended for this end."""
        if self._open:
            del self.machine.network.ends[self]
            self._arrived.clear()
            self.protocol.connection_lost(error)

    def is_closing(self) -> bool:
        return self._closing or not self._open

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high_water = high

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        asyncio.get_running_loop().call_soon(self._hand_on)
