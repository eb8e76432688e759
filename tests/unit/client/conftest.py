"""Servers that say what a test wants, and keep what clients asked them; and real ones to watch."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from cometmq.client import Consumer, Producer
from cometmq.kernel import frames, records
from cometmq.message import Message, properties
from cometmq.net import Address, Connection, Network, Server
from cometmq.protocol import (
    SEND_BATCH,
    BrokerData,
    Command,
    ConsumerIds,
    ConsumerSendMsgBack,
    GetConsumerListByGroup,
    GetRouteInfo,
    HeartBeat,
    HeartbeatData,
    PullAnswer,
    PullMessage,
    QueryConsumerOffset,
    QueueData,
    ResponseCode,
    SendAnswer,
    SendMessageV2,
    TopicRouteData,
    UnregisterClient,
    UpdateConsumerOffset,
)
from cometmq.testing import Node, SimulatedNetwork, simulate
from cometmq.testing.network import Machine
from tests.kernels import encode

Reply = Command | int | None
"""An answer, its code, or silence."""


def now() -> float:
    return asyncio.get_running_loop().time()


def reply(code: int = 0, body: bytes = b"", remark: str = "so", **fields: object) -> Command:
    """An answer to whatever is asked."""
    texts = {name: str(value) for name, value in fields.items()}
    return Command(code=code, remark=remark, fields=texts, body=body)


@dataclass(eq=False)
class Peer:
    """A server that answers as `says` has it, by request code; silent where it says nothing."""

    machine: Machine
    address: Address
    says: dict[int, Callable[[Command], Reply]] = field(default_factory=dict)
    asked: list[Command] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When each of them came."""
    connections: list[Connection] = field(default_factory=list)

    async def open(self) -> None:
        """Listens."""
        self._server = Server(self._took)
        await self._server.start(self.machine, *self.address)

    def close(self) -> None:
        """Takes no connections, and has none."""
        self._server.close()

    def _took(self, connection: Connection, items: Any) -> None:
        self.connections = list({**dict.fromkeys(self.connections), connection: None})
        for frame in items:
            command = Command.read(frame)
            self.asked.append(command)
            self.times.append(now())
            said = self.says.get(command.code, lambda asked: None)(command)
            if isinstance(said, int):
                said = reply(said)
            if said is not None and not command.is_oneway:
                fields, body = said.fields, said.body
                answer = Command.answer(
                    command.codec, command.opaque, said.code, said.remark, fields, body
                )
                connection.write(answer.write())

    def of(self, *codes: int) -> list[Command]:
        """What was asked with one of these codes."""
        return [one for one in self.asked if one.code in codes]

    def times_of(self, code: int) -> list[float]:
        """When it was asked with this code."""
        return [at for at, one in zip(self.times, self.asked, strict=True) if one.code == code]


SENDS = (SendMessageV2.code, SEND_BATCH)


@dataclass(eq=False)
class Stage:
    """A name server and brokers that are played, and a network from which clients reach them."""

    network: SimulatedNetwork
    names: list[Peer]
    brokers: dict[str, Peer]
    routes: dict[str, TopicRouteData]
    """What the name servers know."""

    @property
    def namesrv(self) -> str:
        return ";".join(str(one.address) for one in self.names)

    def client(self) -> Machine:
        """Where a client runs."""
        return self.network.machine()

    def producer(self, group: str = "p", **more: Any) -> Producer:
        more = {"network": self.client(), "random": random.Random(5), **more}
        return Producer(more.pop("namesrv", self.namesrv), group=group, **more)

    def consumer(self, group: str = "g", **more: Any) -> Consumer:
        more = {"network": self.client(), "random": random.Random(5), **more}
        more = {"subscribe": {"T": "*"}, "start": "earliest", **more}
        return Consumer(more.pop("namesrv", self.namesrv), group=group, **more)

    def sent(self) -> list[tuple[str, int]]:
        """The broker and queue of each send, in the order in which they came."""
        found = [
            (at, name, int(one.fields["e"]))
            for name, broker in self.brokers.items()
            for at, one in zip(broker.times, broker.asked, strict=True)
            if one.code in SENDS
        ]
        return [(name, queue) for _, name, queue in sorted(found)]


def stored(command: Command) -> Command:
    """A broker has stored the message."""
    told = SendAnswer(msg_id="0" * 32, queue_id=int(command.fields["e"]), queue_offset=7)
    return reply(**told.fields())


def route(*brokers: Peer, queues: int = 4, perm: int = 6, number: int = 0) -> TopicRouteData:
    """A topic that these brokers have; `number` is their id."""
    names = [name_of(one) for one in brokers]
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name=name, broker_addrs={number: str(one.address)}, cluster="c")
            for name, one in zip(names, brokers, strict=True)
        ],
        queue_datas=[
            QueueData(broker_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
            for name in names
        ],
    )


def name_of(broker: Peer) -> str:
    return f"broker-{broker.address.port}"


def record(offset: int, body: bytes = b"x", *, reconsumed: int = 0, **pairs: str) -> bytes:
    """A message of queue T/0 as a broker gives it to readers."""
    host = b"\x7f\0\0\1\0\0\0\2"
    given = records.Record(
        position=100 * offset,
        size=0,
        magic=records.V1,
        body_crc=0,
        queue_id=0,
        flag=0,
        queue_offset=offset,
        sys_flag=0,
        born_ms=1,
        born_host=host,
        store_ms=2,
        store_host=host,
        reconsume_times=reconsumed,
        prepared_offset=0,
        body=body,
        topic="T",
        properties=properties.encode(pairs),
    )
    return encode(given)


def pulled(following: int, *found: bytes, code: int = 0, suggested: int = 0) -> Command:
    """The answer to a pull: these records, and where to go on."""
    told = PullAnswer(suggested, following, 0, 1000)
    return reply(code, b"".join(found), **told.fields())


def play_queue(stage: Stage, *pulls: Reply) -> Peer:
    """T has one queue; its broker answers pulls with these, then keeps them waiting."""
    [broker] = stage.brokers.values()
    stage.routes["T"] = route(broker, queues=1)
    play_pulls(broker, *pulls)
    return broker


def play_pulls(broker: Peer, *pulls: Reply) -> None:
    """The broker has one group with all who are connected, and answers pulls of T with these."""
    left = list(pulls)

    def members(asked: Command) -> Command:
        ids = {HeartbeatData.read(one.body).client_id for one in broker.of(HeartBeat.code)}
        return reply(body=ConsumerIds(consumer_id_list=sorted(map(str, ids))).write())

    def pull(asked: Command) -> Reply:
        return left.pop(0) if left and asked.fields["topic"] == "T" else None

    broker.says |= {
        GetConsumerListByGroup.code: members,
        QueryConsumerOffset.code: lambda asked: reply(offset=0),
        UpdateConsumerOffset.code: lambda asked: 0,
        PullMessage.code: pull,
    }


BACK, UPDATE, PULL, MEMBERS = (
    ConsumerSendMsgBack.code,
    UpdateConsumerOffset.code,
    PullMessage.code,
    GetConsumerListByGroup.code,
)


def pulls_of(broker: Peer) -> list[int]:
    """Offsets of the pulls of T/0, in their order."""
    return [
        int(one.fields["queueOffset"])
        for one in broker.of(PULL)
        if (one.fields["topic"], one.fields["queueId"]) == ("T", "0")
    ]


def done(broker: Peer) -> list[Command]:
    """The commits of T."""
    return [one for one in broker.of(UPDATE) if one.fields["topic"] == "T"]


async def send(node: Node, *bodies: bytes, topic: str = "T", **more: Any) -> None:
    """Sends a message with each of these bodies."""
    async with node.producer() as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **more))


async def bodies(consumer: Consumer, count: int, within_s: float = 5.0) -> list[bytes]:
    """The next messages, or as many of them as come in time."""
    found: list[bytes] = []
    try:
        async with asyncio.timeout(within_s):
            while len(found) < count:
                found.append((await anext(consumer)).body)
    except TimeoutError:
        pass
    return found


@pytest.fixture
def stage() -> Callable[..., Any]:
    """Runs `work(stage)`: topic T has 4 queues on each of `brokers`, which take all sends."""

    def run(work: Callable[[Stage], Awaitable[Any]], brokers: int = 1, names: int = 1) -> Any:
        async def main() -> Any:
            network = SimulatedNetwork(random.Random(3))
            peers = [
                Peer(network.machine(), Address("127.0.0.1", 1 + n)) for n in range(names + brokers)
            ]
            known: dict[str, TopicRouteData] = {}

            def told(asked: Command) -> Reply:
                found = known.get(asked.fields["topic"])
                return ResponseCode.TOPIC_NOT_EXIST if found is None else reply(body=found.write())

            for one in peers[:names]:
                one.says = {GetRouteInfo.code: told}
            for one in peers[names:]:
                always = dict.fromkeys((HeartBeat.code, UnregisterClient.code))
                one.says = {code: lambda asked: 0 for code in always}
                one.says |= dict.fromkeys(SENDS, stored)
            for one in peers:
                await one.open()
            known["T"] = route(*peers[names:])
            named = {name_of(one): one for one in peers[names:]}
            try:
                return await work(Stage(network, peers[:names], named, known))
            finally:
                for one in peers:
                    one.close()

        return simulate(main)

    return run


class Tap:
    """A client's network that keeps the requests which the client sends."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.asked: list[tuple[float, Command]] = []

    async def connect(self, host: str, port: int, make: Any) -> None:
        def tap(protocol: Any, transport: Any) -> None:
            write, rest = transport.write, b""

            def keep(data: bytes) -> None:
                nonlocal rest
                found, consumed = frames.split(rest + data, 16 << 20)
                rest = (rest + data)[consumed:]
                self.asked += [(now(), Command.read(frame)) for frame in found]
                write(data)

            transport.write = keep
            type(protocol).connection_made(protocol, transport)

        def tapped() -> Any:
            protocol = make()
            protocol.connection_made = partial(tap, protocol)
            return protocol

        await self._network.connect(host, port, tapped)

    def of(self, code: int) -> list[Command]:
        """What was asked with this code."""
        return [command for _, command in self.asked if command.code == code]


@pytest.fixture
def node() -> Callable[..., Any]:
    """Runs `work(node)` with a real node; `node.client_network` is a Tap."""

    def run(work: Callable[[Node], Awaitable[Any]], **settings: Any) -> Any:
        async def main() -> Any:
            machine = SimulatedNetwork(random.Random(1)).machine()
            async with Node(machine=machine, chance=random.Random(2), **settings) as one:
                assert one.client_network is not None
                one.client_network = Tap(one.client_network)  # type: ignore[assignment]
                return await work(one)

        return simulate(main)

    return run
