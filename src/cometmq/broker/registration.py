"""Registration: tells every name server what this broker has, at once and again and again."""

import asyncio
import logging

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import Topics
from cometmq.net import Address, Channel, Network
from cometmq.protocol import (
    Command,
    RegisterBroker,
    RegisterBrokerBody,
    RequestHeader,
    ResponseCode,
    UnregisterBroker,
)
from cometmq.runtime import BadSetting, CometError, Scope

log = logging.getLogger("cometmq.broker")

LEAVE_S = 3.0
"""How long a name server may take to forget us while we stop."""

RETRY_S = 1.0
"""A name server that was not there is asked again so soon: it may only be starting."""


class Registration:
    """Keeps this broker in the routes of its name servers."""

    def __init__(
        self, settings: BrokerSettings, network: Network, topics: Topics, address: Address
    ) -> None:
        self._settings = settings
        self._network = network
        self._topics = topics
        self._address = address
        self._channels: dict[Address, Channel] = {}
        self._wake: dict[Address, asyncio.Event] = {}
        self.done = asyncio.Event()
        """A name server has us in its routes."""
        try:
            parts = [part for part in settings.namesrv_addr.split(";") if part.strip()]
            self._servers = [Address.parse(part) for part in parts]
        except ValueError:
            raise BadSetting(
                f"The Name Server Address[{settings.namesrv_addr}] illegal, please set it as "
                'follows, "127.0.0.1:9876;192.168.0.1:9876"'
            ) from None

    def start(self, scope: Scope) -> None:
        """Registers now, at each change of a topic, and every period."""
        for server in self._servers:
            self._wake[server] = asyncio.Event()
            scope.start(self._keep(server), f"register at {server}")
        self._topics.changed.watch(lambda _: self._now())

    def _now(self) -> None:
        for wake in self._wake.values():
            wake.set()

    async def _keep(self, server: Address) -> None:
        period_s = min(60.0, max(10.0, self._settings.register_name_server_period / 1000))
        wake = self._wake[server]
        reachable = True
        while True:
            wake.clear()
            pause_s = period_s
            try:
                await self._register(server)
                reachable = True
                self.done.set()
            except CometError as error:
                if reachable:
                    log.warning("not registered at %s: %s", server, error)
                reachable, pause_s = False, RETRY_S
            try:
                async with asyncio.timeout(pause_s):
                    await wake.wait()
            except TimeoutError:
                pass

    async def _register(self, server: Address) -> None:
        settings = self._settings
        header = RegisterBroker(
            broker_name=settings.broker_name,
            broker_addr=str(self._address),
            cluster_name=settings.broker_cluster_name,
            ha_server_addr=str(Address(self._address.host, self._address.port + 1)),
            broker_id=settings.broker_id,
            enable_acting_master=False,
        )
        body = RegisterBrokerBody(topic_config_serialize_wrapper=self._topics.wrapper()).write()
        answer = await self._ask(
            server, header, body, settings.register_broker_timeout_mills / 1000
        )
        if answer.code != ResponseCode.SUCCESS:
            log.warning("%s did not take our registration: %s", server, answer.remark)

    async def _ask(
        self, server: Address, header: RequestHeader, body: bytes, within_s: float
    ) -> Command:
        channel = self._channels.get(server)
        if channel is None or not channel.usable:
            channel = await Channel.open(self._network, server, lambda command: None)
            self._channels[server] = channel
        return await channel.ask(Command.request(header, body=body), within_s)

    async def close(self) -> None:
        """Takes this broker out of the routes, so that nobody chooses it any more."""
        header = UnregisterBroker(
            broker_name=self._settings.broker_name,
            broker_addr=str(self._address),
            cluster_name=self._settings.broker_cluster_name,
            broker_id=self._settings.broker_id,
        )
        for server, channel in self._channels.items():
            if channel.usable:
                try:
                    await self._ask(server, header, b"", LEAVE_S)
                except CometError as error:
                    log.warning("not unregistered at %s: %s", server, error)
            channel.close()
