"""The real network: the seam's calls mapped on asyncio's sockets."""

import asyncio
from typing import cast

from cometmq.net.network import Accept, Address, Receiver

HIGH_WATER = 1 << 20
"""Bytes queued for a slow peer before we stop reading from it. The original stops at 64 KiB, but
one pull answer of ours is up to 256 KiB, and stopping within a single answer only costs time.
Nothing waits to be sent with more: asyncio and uvloop set TCP_NODELAY by themselves."""

NOWHERE = Address("0.0.0.0", 0)


class LocalNetwork:
    """Sockets of this machine."""

    async def listen(self, host: str, port: int, accept: Accept) -> "SocketListener":
        server = await asyncio.get_running_loop().create_server(
            lambda: Socket(accept), host, port, backlog=1024, reuse_address=True
        )
        return SocketListener(server)

    async def connect(self, host: str, port: int, accept: Accept) -> "Socket":
        _, end = await asyncio.get_running_loop().create_connection(
            lambda: Socket(accept), host, port
        )
        return end


class SocketListener:
    """A listening socket."""

    def __init__(self, server: asyncio.Server) -> None:
        self.close = server.close
        self.address = Address(*server.sockets[0].getsockname()[:2])


class Socket(asyncio.Protocol):
    """One end of a socket: a transport of the seam on one side, asyncio's protocol on the other."""

    local: Address
    remote: Address
    _stream: asyncio.Transport
    _receiver: Receiver

    def __init__(self, accept: Accept) -> None:
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=HIGH_WATER)
        self.local = _address(stream.get_extra_info("sockname"))
        self.remote = _address(stream.get_extra_info("peername"))
        self.write, self.close, self.abort = stream.write, stream.close, stream.abort
        self._receiver = self._accept(self)

    def pause_reading(self) -> None:
        if not self._stream.is_closing() and self._stream.is_reading():
            self._stream.pause_reading()

    def resume_reading(self) -> None:
        if not self._stream.is_closing() and not self._stream.is_reading():
            self._stream.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._receiver.received(data)

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._receiver.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._receiver.closed(error)


def _address(name: object) -> Address:
    """The address of a socket; a peer that is gone already has none."""
    return Address(str(name[0]), int(name[1])) if isinstance(name, tuple) else NOWHERE
