"""Registration: tells every name server what this broker has, at once and again and again."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from cometmq.broker.handlers.topics import Topics
from cometmq.broker.settings import BrokerSettings
from cometmq.net import Address, Pool
from cometmq.protocol import (
    RegisterBroker,
    RegisterBrokerBody,
    ResponseCode,
    TopicConfigWrapper,
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


@dataclass(eq=False)
class Registration:
    """Keeps this broker in the routes of its name servers."""

    settings: BrokerSettings
    servers: list[Address]
    pool: Pool
    topics: Topics
    address: Address

    def __post_init__(self) -> None:
        self.done = asyncio.Event()
        """A name server has us in its routes."""

    def start(self, scope: Scope) -> None:
        """Registers now, at each change of a topic, and every period."""
        for server in self.servers:
            scope.start(self._keep(server), f"register at {server}")

    async def _keep(self, server: Address) -> None:
        period_s = min(60.0, max(10.0, self.settings.register_name_server_period / 1000))
        said = False
        while True:
            told, pause_s = self.topics.wrapper(), period_s
            try:
                await self._register(server, told)
                self.done.set()
                said = False
            except CometError as error:
                if not said:
                    log.warning("not registered at %s: %s", server, error)
                said, pause_s = True, RETRY_S
            if self.topics.wrapper().data_version != told.data_version:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self.topics.changed.next()

    async def _register(self, server: Address, told: TopicConfigWrapper) -> None:
        settings = self.settings
        header = RegisterBroker(
            broker_name=settings.broker_name,
            broker_addr=str(self.address),
            cluster_name=settings.broker_cluster_name,
            ha_server_addr=str(Address(self.address.host, self.address.port + 1)),
            broker_id=settings.broker_id,
            enable_acting_master=False,
        )
        body = RegisterBrokerBody(topic_config_serialize_wrapper=told).write()
        within_s = settings.register_broker_timeout_mills / 1000
        answer = await self.pool.ask(server, header, within_s, body)
        if answer.code != ResponseCode.SUCCESS:
            raise CometError(f"it refused with code {answer.code}: {answer.remark or 'no remark'}")

    async def close(self) -> None:
        """Takes this broker out of the routes, so that nobody chooses it any more."""
        header = UnregisterBroker(
            broker_name=self.settings.broker_name,
            broker_addr=str(self.address),
            cluster_name=self.settings.broker_cluster_name,
            broker_id=self.settings.broker_id,
        )
        for server in filter(self.pool.is_open, self.servers):
            try:
                await self.pool.ask(server, header, LEAVE_S)
            except CometError as error:
                log.warning("not unregistered at %s: %s", server, error)
