"""The simulated network: machines, connections with delays by the seed, and faults to order."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from errno import EADDRINUSE, ECONNREFUSED
from itertools import count

from cometmq.net import Address, Receiver, Transport
from cometmq.net.network import Accept
from cometmq.testing.trace import Trace

FIRST_PORT = 20_000
TICK_S = 1e-7
HIGH_WATER = 1 << 20
PIECE = 16 << 10
"""The largest piece that arrives at once; a real socket reads no more than 256 KiB."""


class SimulatedNetwork:
    """Connects machines; all delays come from its random numbers."""

    def __init__(
        self,
        chance: random.Random,
        *,
        least_s: float = 0.00005,
        most_s: float = 0.002,
        trace: Trace | None = None,
    ) -> None:
        self.random = chance
        self.trace = trace or Trace()
        self._least_s = least_s
        self._most_s = most_s
        self._ports = count(FIRST_PORT)
        self._numbers = count()
        self.listeners: dict[Address, SimulatedListener] = {}
        self.connections: dict[int, tuple[_End, _End]] = {}

    def delay(self) -> float:
        """How long the next piece takes."""
        return self.random.uniform(self._least_s, self._most_s)

    def free_port(self) -> int:
        """A port that nobody has had."""
        return next(self._ports)

    def machine(self, host: str = "127.0.0.1") -> "Machine":
        """A machine of its own on this network."""
        return Machine(self, host)

    def cut(self, number: int | None = None) -> bool:
        """Cuts one connection, a random one where no number is given; False where there is none."""
        if not self.connections:
            return False
        if number is None:
            number = self.random.choice(list(self.connections))
        for end in self.connections[number]:
            end.lose(ConnectionResetError("the connection was cut"))
        return True

    def pair(self, one: "Machine", other: "Machine", here: Address, there: Address) -> "_Pair":
        """Two ends that belong together."""
        number = next(self._numbers)
        near, far = _End(self, number, one, here, there), _End(self, number, other, there, here)
        near.peer, far.peer = far, near
        self.connections[number] = (near, far)
        return near, far


class Machine:
    """One machine's place on the network: what a node or a client is given as `network=`."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self.network = network
        self.host = host
        self.on = True
        self.slow_s = 0.0
        """Added to every delay from and to this machine."""

    async def listen(self, host: str, port: int, accept: Accept) -> "SimulatedListener":
        """Listens on a port of this machine."""
        address = Address(host, port or self.network.free_port())
        if address in self.network.listeners:
            raise OSError(EADDRINUSE, "Address already in use")
        listener = SimulatedListener(self, address, accept)
        self.network.listeners[address] = listener
        return listener

    async def connect(self, host: str, port: int, accept: Accept) -> Transport:
        """Connects to whoever listens there when the request arrives."""
        await asyncio.sleep(self.network.delay() + self.slow_s)
        listener = self.network.listeners.get(Address(host, port))
        if listener is None or not listener.machine.on or not self.on:
            raise ConnectionRefusedError(ECONNREFUSED, "Connection refused")
        here = Address(self.host, self.network.free_port())
        near, far = self.network.pair(self, listener.machine, here, listener.address)
        far.receiver = listener.accept(far)
        near.receiver = accept(near)
        return near

    def stop(self) -> None:
        """Nothing leaves it any more, from this moment on; may be called in any thread."""
        self.on = False

    def power_off(self) -> None:
        """Everything of this machine is gone at once; its peers notice a little later."""
        self.stop()
        for address in [a for a, one in self.network.listeners.items() if one.machine is self]:
            del self.network.listeners[address]
        for ends in list(self.network.connections.values()):
            for end in ends:
                if end.machine is self:
                    end.vanish()

    def cut_connections(self) -> None:
        """Cuts all connections of this machine; it goes on."""
        for number, ends in list(self.network.connections.items()):
            if any(end.machine is self for end in ends):
                self.network.cut(number)


class SimulatedListener:
    """A port that is listened on."""

    def __init__(self, machine: Machine, address: Address, accept: Accept) -> None:
        self.machine = machine
        self.address = address
        self.accept = accept

    def close(self) -> None:
        """Takes no further connections."""
        self.machine.network.listeners.pop(self.address, None)


class _End:
    """One end of a connection."""

    peer: "_End"

    def __init__(
        self,
        network: SimulatedNetwork,
        number: int,
        machine: Machine,
        local: Address,
        remote: Address,
    ) -> None:
        self.local = local
        self.remote = remote
        self.machine = machine
        self.receiver: Receiver | None = None
        self._network = network
        self._number = number
        self._open = True
        self._reading = True
        self._closing = False
        self._on_the_way = 0
        self._full = False
        self._arrives = 0.0
        self._arrived: deque[bytes] = deque()

    def write(self, data: bytes) -> None:
        """Sends bytes, in pieces that arrive in order, each when the seed wants."""
        if not self._open or self._closing or not self.machine.on:
            return
        view = memoryview(bytes(data))
        while view:
            length = min(len(view), self._network.random.choice((7, 512, PIECE, PIECE, PIECE)))
            self._send(bytes(view[:length]))
            view = view[length:]
        if self._on_the_way > HIGH_WATER and not self._full and self.receiver is not None:
            self._full = True
            self.receiver.pause_writing()

    def _send(self, piece: bytes) -> None:
        self._on_the_way += len(piece)
        self._at_peer(lambda: self.peer._arrive(piece))

    def _at_peer(self, work: Callable[[], None]) -> None:
        """Does something where the peer is, after what was sent before."""
        loop = asyncio.get_running_loop()
        slow = self.machine.slow_s + self.peer.machine.slow_s
        # Timers of one moment come in no certain order, and bytes must not overtake each other.
        soonest = loop.time() + self._network.delay() + slow
        self._arrives = max(self._arrives + TICK_S, soonest)
        loop.call_at(self._arrives, work)

    def _arrive(self, piece: bytes) -> None:
        if not self._open:
            return
        self._arrived.append(piece)
        self._hand_on()

    def _hand_on(self) -> None:
        while self._hears and self._arrived and self.receiver is not None:
            piece = self._arrived.popleft()
            self._network.trace.add("net", self._number, self.local, piece)
            self.peer._taken(len(piece))
            self.receiver.received(piece)

    @property
    def _hears(self) -> bool:
        return self._reading and self._open and self.machine.on

    def _taken(self, length: int) -> None:
        self._on_the_way -= length
        if self._full and self._on_the_way <= HIGH_WATER // 4:
            self._full = False
            if self._open and self.receiver is not None:
                self.receiver.resume_writing()

    def close(self) -> None:
        """Ends the connection after what was sent has arrived."""
        if self._open and not self._closing:
            self._closing = True
            self._at_peer(lambda: self.peer.lose(None))
            asyncio.get_running_loop().call_soon(self.lose, None)

    def abort(self) -> None:
        """Ends the connection at once."""
        self.lose(None)
        self._at_peer(lambda: self.peer.lose(ConnectionResetError("reset by peer")))

    def lose(self, error: Exception | None) -> None:
        """The connection has ended for this end."""
        if self._open:
            self._open = False
            self._network.connections.pop(self._number, None)
            self._arrived.clear()
            if self.receiver is not None:
                self.receiver.closed(error)

    def vanish(self) -> None:
        """This end's machine is off: the peer finds out, later; what still waits here ends now."""
        self._at_peer(lambda: self.peer.lose(ConnectionResetError("the peer's machine is off")))
        self.lose(ConnectionAbortedError("this machine is off"))

    def pause_reading(self) -> None:
        """Keeps what arrives."""
        self._reading = False

    def resume_reading(self) -> None:
        """Hands on what was kept."""
        self._reading = True
        asyncio.get_running_loop().call_soon(self._hand_on)


_Pair = tuple[_End, _End]
