"""The network seam, asyncio's own protocols and transports, and the real network.

The simulator is another implementation.
"""

import asyncio
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Address(NamedTuple):
    """Where a socket is: a numeric host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def packed(self) -> bytes:
        """The address and port as records and ids hold them: 8 bytes, or 20 with IPv6."""
        return ipaddress.ip_address(self.host.partition("%")[0]).packed + self.port.to_bytes(4)

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Reads "host:port"; an IPv6 host may stand in brackets; the last colon divides."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"expected HOST:PORT with a port up to 65535, got {text!r}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


Make = Callable[[], asyncio.Protocol]
"""Makes the protocol of one connection."""


@dataclass(frozen=True)
class Listener:
    """A port that is listened on."""

    address: Address
    close: Callable[[], object]
    """Takes no further connections; those that exist live on."""


class Network(Protocol):
    """Makes connections and listens for them."""

    async def listen(self, host: str, port: int, make: Make) -> Listener:
        """Listens; port 0 takes a free one. Raises OSError where that cannot be."""

    async def connect(self, host: str, port: int, make: Make) -> None:
        """Returns when the connection is made; raises OSError where nobody answers. The caller
        bounds the time."""


class LocalNetwork:
    """Sockets of this machine."""

    async def listen(self, host: str, port: int, make: Make) -> Listener:
        server = await asyncio.get_running_loop().create_server(
            make, host, port, backlog=1024, reuse_address=True
        )
        return Listener(Address(*server.sockets[0].getsockname()[:2]), server.close)

    async def connect(self, host: str, port: int, make: Make) -> None:
        await asyncio.get_running_loop().create_connection(make, host, port)
