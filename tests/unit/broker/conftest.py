"""A broker in memory on the simulated network, and short ways to ask it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cometmq.kernel import frames, records
from cometmq.message import properties
from cometmq.net import Channel
from cometmq.protocol import (
    Command,
    PullMessage,
    RequestHeader,
    SendMessage,
    SendMessageV2,
)
from cometmq.testing import Node, SimulatedNetwork, simulate

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


class Asker:
    """One client connection to the node's broker."""

    def __init__(self, node: Node, channel: Channel) -> None:
        self.node = node
        self.channel = channel
        self.heard: list[Command] = []

    async def ask(self, header: RequestHeader, body: bytes = b"", **more: Any) -> Command:
        """Asks, and waits for the answer."""
        command = Command.request(header, body, code=more.pop("code", None))
        for name, value in more.items():
            setattr(command, name, value)
        return await self.channel.ask(command, 60)

    async def send(self, topic: str = "T", body: bytes = b"body", **fields: Any) -> Command:
        """Sends one message; `fields` are those of the header."""
        return await self.ask(*sending(topic, body, **fields))

    async def pull(
        self, topic: str = "T", queue: int = 0, offset: int = 0, *, most: int = 32, **more: Any
    ) -> Command:
        """Pulls, by default everything and without waiting."""
        return await self.ask(pulling(topic, queue, offset, most=most, **more))

    async def stored(self, topic: str = "T", queue: int = 0) -> list[Any]:
        """All records of a queue, once the newest is visible."""
        found: list[Any] = []
        while True:
            answer = await self.pull(topic, queue, len(found), hold_ms=50)
            if answer.code != 0:
                return found
            found += records.decode_all(answer.body)


def sending(topic: str, body: bytes, *, short: bool = True, **fields: Any) -> tuple[Any, bytes]:
    """The header and body of a send."""
    given = {"queue_id": 0, "sys_flag": 0, "properties": "", **fields}
    if isinstance(given["properties"], dict):
        given["properties"] = properties.encode(given["properties"]).decode()
    kind = SendMessageV2 if short else SendMessage
    header = kind(
        group="g",
        topic=topic,
        default_topic=given.pop("default_topic", "TBW102"),
        default_topic_queues=given.pop("default_topic_queues", 4),
        born_ms=1_700_000_000_000,
        message_flag=given.pop("message_flag", 0),
        **given,
    )
    return header, body


def pulling(
    topic: str,
    queue: int,
    offset: int,
    *,
    most: int = 32,
    tags: str | None = "*",
    hold_ms: int = 0,
    group: str = "g",
    version: int = 0,
    commit: int | None = None,
    kind: str = "TAG",
) -> PullMessage:
    """The header of a pull; tags None leaves the subscription to the heartbeat."""
    flags = (SUSPEND if hold_ms else 0) | (SUBSCRIPTION if tags is not None else 0)
    flags |= COMMIT if commit is not None else 0
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue,
        queue_offset=offset,
        max_msg_nums=most,
        sys_flag=flags,
        commit_offset=commit or 0,
        suspend_timeout_millis=hold_ms,
        subscription=tags,
        sub_version=version,
        expression_type=kind,
    )


Work = Callable[[Asker], Awaitable[Any]]


@pytest.fixture
def broker() -> Callable[..., Any]:
    """Runs `work(asker)` against a broker on a virtual clock; keywords are for the Node.

    Whatever a test looks at, no callback of the broker may fail.
    """

    def run(work: Work, **settings: Any) -> Any:
        async def main() -> Any:
            asyncio.get_running_loop().set_exception_handler(failed)
            network = SimulatedNetwork(random.Random(7))
            machine = network.machine()
            async with Node(machine=machine, chance=random.Random(8), **settings) as node:
                asker = await connect(node)
                try:
                    return await work(asker)
                finally:
                    asker.channel.close()

        result = simulate(main)
        assert failures == []
        return result

    failures: list[BaseException] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback has failed: nobody but the loop would hear of it."""
        if "handle" in context:
            failures.append(context["exception"])
        else:
            loop.default_exception_handler(context)

    return run


async def connect(node: Node) -> Asker:
    """One more connection to the node's broker."""
    assert node.client_network is not None
    heard: list[Command] = []
    channel = await Channel.open(node.client_network, node.address, heard.append)
    asker = Asker(node, channel)
    asker.heard = heard
    return asker


class Wire(asyncio.Protocol):
    """A bare connection: bytes go out as they are, and every command that comes back is kept."""

    def __init__(self) -> None:
        self.heard: list[Command] = []
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        found, consumed = frames.split(self._rest + data, 16 << 20)
        self._rest = (self._rest + data)[consumed:]
        self.heard += [Command.read(frame) for frame in found]


async def wire(node: Node) -> Wire:
    """A bare connection to the node's broker."""
    assert node.client_network is not None
    made = Wire()
    await node.client_network.connect(*node.address, lambda: made)
    return made
