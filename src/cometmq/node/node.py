"""The node: which servers run, the order in which they start and stop, the proof that they work."""

import random
from collections.abc import Coroutine
from contextlib import AsyncExitStack, closing
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Self

from cometmq.broker import Broker, BrokerSettings
from cometmq.message.names import TEMPLATE_TOPIC
from cometmq.nameserver import NameServer, NameServerSettings
from cometmq.net import Address, Limits, LocalNetwork, Network, Pool
from cometmq.protocol import (
    Command,
    GetRouteInfo,
    PullMessage,
    RequestHeader,
    ResponseCode,
    SendAnswer,
    SendMessageV2,
    TopicFilterType,
    TopicRouteData,
    UpdateAndCreateTopic,
)
from cometmq.runtime import BadSetting, Clock, CometError, LocalThreads, Threads, fresh
from cometmq.runtime.host import is_wildcard, own_address
from cometmq.store import Disk, StoreSettings

PROOF_TOPIC = "COMETMQ_SELF_TEST"
"""Where the proof's messages lie; each start of `cometmq up` adds one."""

PROOF_GROUP = "SELF_TEST_C_GROUP"
"""A group of the system: it is there where groups are not made by themselves."""

WITHIN_S = 10.0
SUSPEND, SUBSCRIPTION = 2, 4


class NotProved(CometError):
    """The node runs but does not do its work."""


@dataclass(frozen=True)
class NodeSettings:
    """What runs in a node; without a name server the broker registers where it is told."""

    name_server: NameServerSettings | None
    broker: BrokerSettings
    store: StoreSettings


@dataclass(eq=False)
class Node:
    """A name server and a broker that knows it, over one data directory."""

    settings: NodeSettings
    _: KW_ONLY
    disk: Disk
    network: Network = field(default_factory=LocalNetwork)
    threads: Threads = field(default_factory=LocalThreads)
    chance: random.Random = field(default_factory=fresh)
    broker: Broker = field(init=False)
    """The broker, once the node has started."""
    _name_server: NameServer | None = field(default=None, init=False)
    _ends: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)

    @property
    def name_server(self) -> Address | None:
        """Where clients reach the name server that runs here; None where none does."""
        if self._name_server is None:
            return None
        address = self._name_server.address
        host = own_address(address.host) if is_wildcard(address.host) else address.host
        return Address(host, address.port)

    @property
    def namesrv(self) -> str:
        """What a client is given as its name server address."""
        return str(self.name_server or self.settings.broker.namesrv_addr)

    async def start(self) -> None:
        """Name server first, so that the broker's first registration finds it; it ends last, so
        that the broker can leave the routes."""
        settings, broker = self.settings, self.settings.broker
        async with AsyncExitStack() as ends:
            ends.callback(self.threads.close)
            if settings.name_server is not None:
                limits = Limits(broker.frame_max_length, broker.max_connections)
                server = NameServer(settings.name_server, self.network, limits)
                ends.callback(server.close)
                asked = Address(settings.name_server.bind_address, settings.name_server.listen_port)
                await _taking(server.start(), asked, "name server", "--namesrv")
                self._name_server = server
                told = [part for part in broker.namesrv_addr.split(";") if part]
                names = ";".join(dict.fromkeys([*told, self.namesrv]))
                broker = replace(broker, namesrv_addr=names)
            self.broker = Broker(
                broker, settings.store, self.network, self.disk, self.threads, self.chance
            )
            ends.push_async_callback(self.broker.close)
            asked = Address(broker.bound, broker.listen_port)
            await _taking(self.broker.start(), asked, "broker", "--broker")
            self._ends = ends.pop_all()

    async def prove(self) -> None:
        """Sends a message and reads it back, each as any client would, and looks for its route.

        A name server that is not ours may be away: a broker starts all the same, and registers
        later.
        """
        broker, name_server = self.broker.address, self.name_server
        born_ms = Clock().now_ms()
        body = f"cometmq proved itself at {born_ms}".encode()
        with closing(Pool(self.network)) as pool:
            made = UpdateAndCreateTopic(
                PROOF_TOPIC, TEMPLATE_TOPIC, 1, 1, 6, TopicFilterType.SINGLE_TAG
            )
            await _ask(pool, broker, "make its topic", made)
            send = SendMessageV2(PROOF_GROUP, PROOF_TOPIC, TEMPLATE_TOPIC, 1, 0, 0, born_ms, 0)
            sent = await _ask(pool, broker, "send a message", send, body)
            offset = SendAnswer.read(sent.fields).queue_offset
            # Held: a message is acknowledged when it is safe, and seen by readers a moment later.
            hold_ms, flags = int(WITHIN_S * 500), SUSPEND | SUBSCRIPTION
            pull = PullMessage(PROOF_GROUP, PROOF_TOPIC, 0, offset, 1, flags, 0, hold_ms, "*", 0)
            if body not in (await _ask(pool, broker, "read the message back", pull)).body:
                raise NotProved(
                    "the node was asked for the message it had stored, and gave another"
                )
            if name_server is None:
                return
            found = await _ask(
                pool, name_server, "find the topic's route", GetRouteInfo(PROOF_TOPIC)
            )
            if not TopicRouteData.read(found.body).queue_datas:
                raise NotProved(
                    f"the name server {name_server} has a route for {PROOF_TOPIC} without queues"
                )

    async def close(self) -> None:
        """The broker first: it leaves the routes while its name server still listens."""
        await self._ends.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close()


async def _taking(
    start: Coroutine[None, None, None], asked: Address, what: str, option: str
) -> None:
    """Waits for a server's start; an address that cannot be had becomes one plain sentence."""
    try:
        await start
    except OSError as error:
        raise BadSetting(
            f"the {what} cannot listen on {asked}: {error.strerror or error}; is another one "
            f"running there? Choose another address with {option} HOST:PORT"
        ) from error


async def _ask(
    pool: Pool, address: Address, what: str, header: RequestHeader, body: bytes = b""
) -> Command:
    answer = await pool.ask(address, header, WITHIN_S, body)
    if answer.code != ResponseCode.SUCCESS:
        raise NotProved(
            f"the node could not {what}: {address} answered {answer.code}, {answer.remark}"
        )
    return answer
