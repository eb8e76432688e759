"""The name server's assembly: routes, handlers, a port, and the scan for the silent."""

import logging
from dataclasses import dataclass, field

import cometmq.nameserver.routes as routes
from cometmq.net import Address, Limits, Network, Server
from cometmq.runtime import Clock, Timer
from cometmq.serving import Driver, Gate, handler_table

log = logging.getLogger("cometmq.nameserver")


@dataclass(frozen=True)
class NameServerSettings:
    """What an operator can set on a name server."""

    bind_address: str = "127.0.0.1"
    listen_port: int = 9876
    scan_not_active_broker_interval: int = 5_000
    admin_allowed_addresses: tuple[str, ...] = ()


@dataclass(eq=False)
class NameServer:
    """Serves routes on one address."""

    settings: NameServerSettings
    network: Network
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.routes = routes.Routes()
        self._clock = Clock()
        gate = Gate(self.settings.bind_address, self.settings.admin_allowed_addresses)
        self._driver = Driver(handler_table([routes], [self.routes]), gate, self._clock)
        self._server = Server(self._driver.took, self.limits)
        self._scan = Timer(self._expire)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._server.address

    async def start(self) -> None:
        """Listens; OSError where the address is taken."""
        await self._server.start(
            self.network, self.settings.bind_address, self.settings.listen_port
        )
        self._expire()

    def _expire(self) -> None:
        for connection in self.routes.expire(self._clock.now_ms()):
            log.warning("broker at %s is silent; its routes are gone", connection.remote)
            connection.close()
        self._scan.start(self.settings.scan_not_active_broker_interval / 1000)

    def close(self) -> None:
        """Takes no more requests."""
        self._scan.stop()
        self._driver.close()
        self._server.close()
