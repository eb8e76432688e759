"""Connections that speak frames, and the server that takes them."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cometmq.kernel import Malformed, frames
from cometmq.net.network import Address, Listener, Network
from cometmq.runtime import Signal, Timer

log = logging.getLogger("cometmq.net")

Split = Callable[[bytes, int], tuple[Sequence[Any], int]]
"""Cuts the complete frames off the front of some bytes: what they are, and how long they were."""

HEAD = 4
"""Bytes of a frame that tell how long it is (spec 01 ch. 2)."""

SWEEP_S = 1.0
"""How often idle connections are looked for; the original closes them on the second."""

HIGH_WATER = 1 << 20
"""Bytes queued for a slow peer before we stop reading from it. The original stops at 64 KiB, but
one pull answer of ours is up to 256 KiB, and stopping within a single answer only costs time.
Nothing waits to be sent with more: asyncio and uvloop set TCP_NODELAY by themselves."""

NOWHERE = Address("0.0.0.0", 0)
"""Where a peer is that is gone already: its socket has no name any more."""


@dataclass(frozen=True)
class Limits:
    """What one server gives to its peers."""

    frame_bytes: int = 16 << 20
    """The largest frame; more ends the connection. 16 MiB is the original's own limit."""
    connections: int = 10_000
    """Connections at a time; one more is closed at once."""
    idle_s: float = 120.0
    """A connection that neither read nor wrote for so long is closed."""
    throttle: bool = True
    """Nothing more is read from a peer that does not take its answers (spec 01 8.2). A client
    must not do the same to its server: each would wait for the other for ever."""


class Connection(asyncio.Protocol):
    """One end of a connection: bytes into whole frames, and one write a turn on the way out."""

    local: Address
    remote: Address
    born_host: bytes
    """The peer's address as the messages it sends will carry it."""
    _transport: asyncio.Transport

    def __init__(self, split: Split, took: "Took", limits: Limits) -> None:
        self.usable = True
        self.idle_s = 0.0
        """How long the sweeps have seen nothing that was read or written."""
        self.made: Signal[Connection] = Signal()
        self.ended: Signal[Connection] = Signal()
        self.error: Exception | None = None
        """Why it ended, where it broke."""
        self._split = split
        self._took = took
        self._limit = limits.frame_bytes
        self._throttle = limits.throttle
        self._rest = bytearray()
        self._needed = 0
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Both ends stand."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self.local = Address(*(transport.get_extra_info("sockname") or NOWHERE)[:2])
        self.remote = Address(*(transport.get_extra_info("peername") or NOWHERE)[:2])
        self.born_host = self.remote.packed()
        self.made.fire(self)

    def data_received(self, data: bytes) -> None:
        """Takes what came, and hands on each whole frame in it."""
        if not self.usable:
            return
        self.idle_s = 0.0
        if self._rest:
            self._rest += data
            # A frame of megabytes comes in hundreds of pieces: it is looked at again only when
            # it is whole, or the work would grow with the square of its size.
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
        try:
            items, consumed = self._split(data, self._limit)
        except Malformed as error:
            # What came whole before the bad frame is served; then there is nothing to go on with.
            if error.before:
                self._took(self, error.before)
            self._flush()
            self._transport.close()
            self.connection_lost(error)
            return
        rest = data[consumed:] if consumed else data
        self._rest = bytearray(rest)
        self._needed = HEAD + int.from_bytes(rest[:HEAD]) if len(rest) >= HEAD else HEAD
        if items:
            self._took(self, items)

    def write(self, data: bytes) -> None:
        """Queues bytes; all that one turn of the loop queues leaves in one write."""
        if not self.usable:
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        if self._out and self.usable:
            self.idle_s = 0.0
            # One joined write beats writev here (design, "The hot path").
            self._transport.write(b"".join(self._out) if len(self._out) > 1 else self._out[0])
        self._out.clear()

    def close(self) -> None:
        """Ends the connection when what was written has left."""
        self._flush()
        self._transport.close()

    def abort(self, error: Exception | None = None) -> None:
        """Ends the connection at once, because the peer broke the protocol or does not answer."""
        self._transport.abort()
        self.connection_lost(error)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended, from whichever side."""
        if self.usable:
            self.usable = False
            self.error = error
            self._out.clear()
            self._rest.clear()
            self.ended.fire(self)

    def pause_writing(self) -> None:
        """The peer does not take what we write."""
        if self._throttle and not self._transport.is_closing() and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It has taken what we wrote."""
        if self._throttle and not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()


Took = Callable[[Connection, Sequence[Any]], None]
"""Is handed what came whole through a connection."""


@dataclass(eq=False)
class Server:
    """Takes connections on one address and hands on what comes through them."""

    took: Took
    limits: Limits = Limits()
    split: Split = frames.split

    def __post_init__(self) -> None:
        self._listener: Listener | None = None
        self._open: dict[Connection, None] = {}
        self._sweeper = Timer(self._sweep)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that was really taken."""
        assert self._listener is not None, "the server has not started"
        return self._listener.address

    async def start(self, network: Network, host: str, port: int) -> None:
        """Listens; OSError where the address is taken or is none of ours."""
        self._listener = await network.listen(host, port, self._make)
        self._sweep()

    def _make(self) -> Connection:
        connection = Connection(self.split, self.took, self.limits)
        connection.made.watch(self._made)
        return connection

    def _made(self, connection: Connection) -> None:
        if len(self._open) >= self.limits.connections:
            said = "connection from %s refused: %d are open, the limit"
            log.warning(said, connection.remote, self.limits.connections)
            connection.abort()
            return
        self._open[connection] = None
        connection.ended.watch(self._ended)

    def _ended(self, connection: Connection) -> None:
        del self._open[connection]
        if connection.error is not None:
            log.info("connection from %s ended: %s", connection.remote, connection.error)

    def _sweep(self) -> None:
        for connection in list(self._open):
            connection.idle_s += SWEEP_S
            if connection.idle_s > self.limits.idle_s:
                connection.abort()  # what was written for it will not be taken either
        self._sweeper.start(SWEEP_S)

    def close(self) -> None:
        """Takes no more connections and ends those it has, after what was written has left."""
        self._sweeper.stop()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._open):
            connection.close()
