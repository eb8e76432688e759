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


def name_servers(text: str) -> list[Address]:
    """Where to register; BadSetting where an address is none."""
    try:
        return [Address.parse(part) for part in text.split(";") if part.strip()]
    except ValueError:
        raise BadSetting(
            f"The Name Server Address[{text}] illegal, please set it as follows, "
            '"127.0.0.1:9876;192.168.0.1:9876"'
        ) from None


class Registration:
    """Keeps this broker in the routes of its name servers."""

    def __init__(
        self,
        settings: BrokerSettings,
        servers: list[Address],
        network: Network,
        topics: Topics,
        address: Address,
    ) -> None:
        self._settings = settings
        self._network = network
        self._topics = topics
        self._address = address
        self._servers = servers
        self._channels: dict[Address, Channel] = {}
        self.done = asyncio.Event()
        """A name server has us in its routes."""

    def start(self, scope: Scope) -> None:
        """Registers now, at each change of a topic, and every period."""
        for server in self._servers:
            scope.start(self._keep(server), f"register at {server}")

    async def _keep(self, server: Address) -> None:
        period_s = min(60.0, max(10.0, self._settings.register_name_server_period / 1000))
        said = False
        while True:
            told = self._topics.wrapper()
            pause_s = period_s
            try:
                await self._register(
                    server, RegisterBrokerBody(topic_config_serialize_wrapper=told)
                )
                self.done.set()
                said = False
            except CometError as error:
                if not said:
                    log.warning("not registered at %s: %s", server, error)
                said, pause_s = True, RETRY_S
            if self._topics.wrapper().data_version != told.data_version:
                continue
            try:
                async with asyncio.timeout(pause_s):
                    await self._topics.changed.next()
            except TimeoutError:
                pass

    async def _register(self, server: Address, body: RegisterBrokerBody) -> None:
        settings = self._settings
        header = RegisterBroker(
            broker_name=settings.broker_name,
            broker_addr=str(self._address),
            cluster_name=settings.broker_cluster_name,
            ha_server_addr=str(Address(self._address.host, self._address.port + 1)),
            broker_id=settings.broker_id,
            enable_acting_master=False,
        )
        within_s = settings.register_broker_timeout_mills / 1000
        answer = await self._ask(server, header, body.write(), within_s)
        if answer.code != ResponseCode.SUCCESS:
            raise CometError(f"it refused with code {answer.code}: {answer.remark or 'no remark'}")

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
            try:
                if channel.usable:
                    await self._ask(server, header, b"", LEAVE_S)
            except CometError as error:
                log.warning("not unregistered at %s: %s", server, error)
            finally:
                channel.close()
