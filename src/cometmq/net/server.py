"""Server: listens, counts its connections, and closes those that sleep."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from cometmq.kernel import frames
from cometmq.net.connection import Connection, Limits, Split
from cometmq.net.network import Address, Listener, Network, Transport

log = logging.getLogger("cometmq.net")

SWEEP_S = 1.0
"""How often idle connections are looked for; the original closes them on the second."""


class Server:
    """Takes connections on one address and hands on what comes through them."""

    def __init__(
        self,
        took: Callable[[Connection, Sequence[Any]], None],
        limits: Limits | None = None,
        split: Split = frames.split,
    ) -> None:
        self._took = took
        self._split = split
        self._limits = limits or Limits()
        self._listener: Listener | None = None
        self._idle_since: dict[Connection, float] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def address(self) -> Address:
        """Where it listens, with the port that was really taken."""
        assert self._listener is not None, "the server has not started"
        return self._listener.address

    async def start(self, network: Network, host: str, port: int) -> None:
        """Listens; OSError where the address is taken or is none of ours."""
        self._listener = await network.listen(host, port, self._accept)
        self._sweep()

    def _accept(self, transport: Transport) -> Connection:
        connection = Connection(transport, self._split, self._took, self._limits)
        if len(self._idle_since) >= self._limits.connections:
            log.warning(
                "connection from %s refused: %d are open, the limit",
                transport.remote,
                self._limits.connections,
            )
            connection.abort()
            return connection
        self._idle_since[connection] = asyncio.get_running_loop().time()
        connection.ended.watch(lambda error: self._ended(connection, error))
        return connection

    def _ended(self, connection: Connection, error: Exception | None) -> None:
        self._idle_since.pop(connection, None)
        if error is not None:
            log.info("connection from %s ended: %s", connection.remote, error)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection, since in list(self._idle_since.items()):
            if connection.active:
                connection.active = False
                self._idle_since[connection] = now
            elif now - since >= self._limits.idle_s:
                connection.close()
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    def close(self) -> None:
        """Takes no more connections and ends those it has, after what was written has left."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._idle_since):
            connection.close()
