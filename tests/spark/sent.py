"""Messages of every kind sent to a broker, each with the row that a reader has to get for it."""

import asyncio
import itertools
import socket
import zlib
from dataclasses import dataclass, field
from typing import Any

from cometmq.client import NoRoute
from cometmq.client.routes import Routes
from cometmq.kernel.pure.records import size_of
from cometmq.message import encode_batch, properties
from cometmq.net import Address, Channel, LocalNetwork, Pool
from cometmq.protocol import (
    SEND_BATCH,
    Command,
    SendAnswer,
    SendMessageV2,
    TopicFilterType,
    UpdateAndCreateTopic,
)
from cometmq.runtime import fresh
from tests.spark.rows import Row

QUEUES = 4
IN_FLIGHT = 16
BATCH = 250
SINGLES = 500
BORN_MS = 1_700_000_000_000
OF_BROKER = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
WAIT = "WAIT\1true\2"

# What follows the id in the property string of a single message, and what it means.
ODD: list[tuple[str, dict[str, str]]] = [
    ("TAGS\1last\2KEYS\1no end mark", {"TAGS": "last", "KEYS": "no end mark"}),
    ("TAGS\1first\2a\1b\2TAGS\1second\2", {"TAGS": "second", "a": "b"}),
    ("a\1b\1c\2", {"a": "b\1c"}),
    ("empty\1\2\1nameless\2neither\2x\1y\2", {"x": "y"}),
    ("clé\1\N{SNOWMAN}\N{GRINNING FACE}\2", {"clé": "\N{SNOWMAN}\N{GRINNING FACE}"}),
    ("", {}),
]


@dataclass
class Sent:
    """The rows by queue and offset; who reads them fills in nothing but the store's time."""

    topic: str
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)


@dataclass
class _Sender:
    channel: Channel
    broker: str
    address: Address
    sent: Sent
    room: asyncio.Semaphore

    async def send(
        self, queue: int, born_ms: int, code: int, body: bytes, **more: Any
    ) -> tuple[int, list[str]]:
        """One request; the offset of its first message, and where the broker stored each."""
        header = SendMessageV2(
            group="sender",
            topic=self.sent.topic,
            default_topic="TBW102",
            default_topic_queues=QUEUES,
            queue_id=queue,
            born_ms=born_ms,
            batch=code == SEND_BATCH,
            broker=self.broker,
            **{"sys_flag": 0, "message_flag": 0, **more},
        )
        async with self.room:
            answer = await self.channel.ask(Command.request(header, body, code=code), 30)
        assert answer.code == 0, answer.remark
        told = SendAnswer.read(answer.fields)
        return told.queue_offset, told.msg_id.split(",")

    def expect(self, queue: int, offset: int, place: str, born_ms: int, **known: Any) -> None:
        """The row of one stored message."""
        pairs: dict[str, str] = known["properties"]
        stored: bytes = known.pop("stored")
        born = self.channel.local
        hosts = [born.packed(), self.address.packed()]
        wide = (len(hosts[0]) == 20) << 4 | (len(hosts[1]) == 20) << 5
        length = len(properties.encode(pairs))
        assert (queue, offset) not in self.sent.rows
        self.sent.rows[queue, offset] = {
            "topic": self.sent.topic,
            "brokerName": self.broker,
            "queueId": queue,
            "queueOffset": offset,
            "physicalOffset": int(place[-16:], 16),
            "msgId": pairs["UNIQ_KEY"],
            "offsetMsgId": place,
            "tags": pairs.get("TAGS"),
            "keys": pairs.get("KEYS"),
            "flag": 0,
            "reconsumeTimes": 0,
            "bornTimestamp": born_ms,
            "deliverTimestamp": None,
            "bornHost": str(born),
            "storeHost": str(self.address),
            "bodyCrc": zlib.crc32(stored) & 0x7FFFFFFF,
            "preparedTransactionOffset": 0,
            "storeSize": size_of(len(self.sent.topic), len(stored), length, *map(len, hosts)),
            **known,
            "sysFlag": known.get("sysFlag", 0) | wide,
        }

    async def batch(self, first: int) -> None:
        """Members with keys, tags and a flag; some name WAIT themselves, as the batch does."""
        queue, born_ms = first // BATCH % QUEUES, BORN_MS + first
        members = []
        for number in range(first, first + BATCH):
            pairs = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number} all", "n": str(number)}
            if number % 3:
                pairs["TAGS"] = f"t{number % 3}"
            if not number % 50:
                pairs["WAIT"] = "true"
            members.append((number % 7, b"body %d " % number * (number % 20 + 1), pairs))
        body = encode_batch((flag, body, properties.encode(pairs)) for flag, body, pairs in members)
        code = SEND_BATCH
        offset, places = await self.send(queue, born_ms, code, body, properties=WAIT)
        for at, (place, (flag, body, pairs)) in enumerate(zip(places, members, strict=True)):
            row = {"value": body, "stored": body, "flag": flag}
            row["properties"] = {**pairs, "WAIT": "true", **OF_BROKER}
            self.expect(queue, offset + at, place, born_ms, **row)

    async def single(self, number: int) -> None:
        """A message with odd properties, compressed or not, of which some are empty then."""
        queue, born_ms = number % QUEUES, BORN_MS + number
        text, pairs = ODD[number % len(ODD)]
        unique = f"{number:032X}"
        plain = b"" if number % 5 == 0 else b"single %d " % number * 200
        packed = number % 2 or not plain
        row: Row = {"value": plain, "stored": zlib.compress(plain) if packed else plain}
        # Older clients do not name the kind of compression.
        row |= {"sysFlag": (1, 0x301)[number % 3 // 2] if packed else 0, "flag": -number}
        row |= {"properties": {**pairs, "UNIQ_KEY": unique, **OF_BROKER}}
        offset, (place,) = await self.send(
            queue,
            born_ms,
            SendMessageV2.code,
            row["stored"],
            sys_flag=row["sysFlag"],
            message_flag=row["flag"],
            properties=f"UNIQ_KEY\1{unique}\2{text}",
        )
        self.expect(queue, offset, place, born_ms, **row)


async def send_all(
    namesrv: str, broker: str, topic: str, count: int, *, also: tuple[str, ...] = ()
) -> Sent:
    """Makes the topic and sends `count` messages to it, the last of them one by one.

    They go in turn to the broker's address and to others that are its own `also`.
    """
    sent = Sent(topic)
    channels = [
        await Channel.open(LocalNetwork(), Address.parse(where), lambda command: None)
        for where in (broker, *also)
    ]
    try:
        kind = TopicFilterType.SINGLE_TAG
        made = UpdateAndCreateTopic(topic, "TBW102", QUEUES, QUEUES, 6, kind)
        answer = await channels[0].ask(Command.request(made, b""), 10)
        assert answer.code == 0, answer.remark
        name = await _broker_of(namesrv, topic)
        room = asyncio.Semaphore(IN_FLIGHT)
        senders = [_Sender(one, name, Address.parse(broker), sent, room) for one in channels]
        turn, batched = itertools.cycle(senders), max(0, count - SINGLES)
        await asyncio.gather(*(next(turn).batch(first) for first in range(0, batched, BATCH)))
        await asyncio.gather(*(next(turn).single(number) for number in range(batched, count)))
    finally:
        for channel in channels:
            channel.close()
    assert len(sent.rows) == count
    return sent


async def _broker_of(namesrv: str, topic: str) -> str:
    """The broker's name, once the name server knows the topic: the original tells it later."""
    pool = Pool()
    routes = Routes(namesrv, pool, fresh())
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    return (await routes.find(topic)).to_write[0].broker
                except NoRoute:
                    await asyncio.sleep(0.05)
    finally:
        pool.close()


def has_ipv6() -> bool:
    """Can this machine listen on its own IPv6 address?"""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


def check(rows: list[Row], sent: Sent) -> None:
    """Every row is what was sent, and everything that was sent has its row."""
    missing = dict(sent.rows)
    last: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"])):
        queue = row["queueId"]
        expected = missing.pop((queue, row["queueOffset"]))
        # The broker's clock is what nobody sent: it lies behind 2023 and never goes back.
        assert last.get(queue, BORN_MS) <= row["storeTimestamp"]
        last[queue] = row["storeTimestamp"]
        # The original stores WAIT twice where member and batch name it.
        twice = len(WAIT) if row["queueOffset"] % 50 == 0 else 0
        assert row["storeSize"] - expected["storeSize"] in (0, twice), row
        kept = {"storeTimestamp": row["storeTimestamp"], "storeSize": row["storeSize"]}
        assert row == {**expected, **kept}
    assert not missing
