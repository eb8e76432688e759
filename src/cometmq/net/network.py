"""The network seam: what a socket does, as callbacks; the simulator is another implementation."""

import ipaddress
from collections.abc import Callable
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


class Transport(Protocol):
    """One end of a connection, to write to."""

    local: Address
    remote: Address

    def write(self, data: bytes) -> None:
        """Queues bytes; never blocks. After the end of the connection it does nothing."""

    def close(self) -> None:
        """Ends the connection when what was written has left."""

    def abort(self) -> None:
        """Ends the connection at once; what was not sent is lost."""

    def pause_reading(self) -> None:
        """Stops `received` until reading is resumed."""

    def resume_reading(self) -> None:
        """Lets bytes come again."""


class Receiver(Protocol):
    """One end of a connection, to be told of what comes."""

    def received(self, data: bytes) -> None:
        """Some bytes have come."""

    def closed(self, error: Exception | None) -> None:
        """The connection has ended; nothing comes after this."""

    def pause_writing(self) -> None:
        """The peer does not take what we write: what is queued is beyond the high-water mark."""

    def resume_writing(self) -> None:
        """The peer has taken what was queued."""


Accept = Callable[[Transport], Receiver]


class Listener(Protocol):
    """A port that is listened on."""

    address: Address

    def close(self) -> None:
        """Takes no further connections; those that exist live on."""


class Network(Protocol):
    """Makes connections and listens for them."""

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        """Listens; port 0 takes a free one. Raises OSError where that cannot be."""

    async def connect(self, host: str, port: int, accept: Accept) -> Transport:
        """Connects; raises OSError where nobody answers. The caller bounds the time."""
