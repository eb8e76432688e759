"""Reading of queues: what there is to read, whole and in order, and what a broker may answer."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cometmq import Message, Producer
from cometmq.client import BrokerRefused, ClientError, MessageQueue
from cometmq.client.routes import Routes
from cometmq.client.session import Session
from cometmq.kernel.pure.records import decode_all
from cometmq.protocol import Command, RequestHeader
from cometmq.spark import reading
from cometmq.spark.reading import DataLost, Range, chunks, ranges
from cometmq.testing import Node
from tests.processes import start_node

QUEUE = MessageQueue("orders", "broker-a", 0)


async def read(namesrv: str, *topics: str) -> dict[Range, list[bytes]]:
    """The bodies of each range, and that their offsets have no gap."""
    found = {}
    for wanted in await ranges(namesrv, topics):
        known = decode_all(b"".join([chunk async for chunk in chunks(namesrv, wanted)]))
        assert [r.queue_offset for r in known] == list(range(wanted.begin, wanted.end))
        found[wanted] = [r.body for r in known]
    return found


def test_queues_without_messages_are_left_out_and_the_others_read_whole() -> None:
    async def main() -> None:
        async with Node() as node:
            await node.fill("orders", 3, queues=8)
            await node.fill("bills", 70)
            found = await read(node.namesrv, "orders", "bills")
            assert [len(bodies) for bodies in found.values()] == [1, 1, 1, 70]
            assert list(found.values())[-1] == [b"message %d" % n for n in range(70)]

    asyncio.run(main())


def test_large_messages_come_one_by_one_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 300_000)

    async def main() -> None:
        async with Node() as node:
            await node.make_topic("large", 1)
            bodies = [os.urandom(100_000 + n) for n in range(20)]
            async with node.producer(compress_above=1 << 30) as producer:
                for body in bodies:
                    await producer.send(Message("large", body))
            (found,) = (await read(node.namesrv, "large")).values()
            assert found == bodies

    asyncio.run(main())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bytes]]:
    """Reads offsets 5 to 9 from a broker that answers so, in turn."""
    monkeypatch.setattr(reading, "PAUSES_S", (0.0,) * 3)

    def run(*answers: Any) -> list[bytes]:
        given = iter(answers)

        async def ask(
            self: Session, queue: Any, header: RequestHeader, *_: Any, **__: Any
        ) -> Command:
            answer = next(given)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def main() -> list[bytes]:
            return [chunk async for chunk in chunks("127.0.0.1:1", Range(QUEUE, 5, 10))]

        async def nothing(self: Routes, topic: str) -> None:
            pass

        monkeypatch.setattr(Session, "ask", ask)
        monkeypatch.setattr(Routes, "renew", nothing)
        return asyncio.run(main())

    return run


def answer(code: int, next_offset: int, least: int = 0, body: bytes = b"", **more: str) -> Command:
    fields = {"nextBeginOffset": next_offset, "minOffset": least, "maxOffset": 10}
    told = {name: str(value) for name, value in fields.items()}
    told |= {"suggestWhichBrokerId": "0", **more}
    return Command(code, remark="why", fields=told, body=body)


def test_a_broker_that_is_away_busy_or_behind_is_asked_again(asked: Any) -> None:
    busy = Command(2, remark="busy")
    assert asked(ClientError("away"), busy, answer(0, 10, body=b"all")) == [b"all"]
    assert asked(answer(19, 5), answer(21, 5), answer(0, 10, body=b"all")) == [b"all"]
    with pytest.raises(ClientError, match=r"orders/broker-a/0: messages 5..9 could not be read, 3"):
        asked(busy, busy, busy)


def test_fewer_messages_than_were_asked_for_are_followed_by_the_others(asked: Any) -> None:
    assert asked(answer(0, 7, body=b"5,6,"), answer(0, 10, body=b"7-9")) == [b"5,6,7-9"]


def test_messages_that_were_deleted_meanwhile_are_a_loss(asked: Any) -> None:
    with pytest.raises(DataLost, match=r"PIPE_DATA_LOSS. orders/broker-a/0: messages 5..9 .* 8 "):
        asked(answer(21, 8, least=8))


@pytest.mark.parametrize("told", [answer(0, 5), answer(0, 11), answer(0, 10, offsetDelta="3")])
def test_an_answer_that_does_not_lead_on_is_no_answer(asked: Any, told: Command) -> None:
    with pytest.raises(ClientError, match="static topics are not built yet"):
        asked(told)


def test_a_refusal_ends_the_read_at_once(asked: Any) -> None:
    with pytest.raises(BrokerRefused, match="code 16"):
        asked(BrokerRefused("pull", "there", 16, "no permission"))


def test_a_broker_that_is_killed_and_started_again_is_read_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 50_000)
    node = start_node(tmp_path / "data")
    bodies = [b"%d" % number * 100 for number in range(2000)]

    async def main() -> None:
        nonlocal node
        async with Producer(node.namesrv, group="sender") as producer:
            await producer.send([Message("orders", body) for body in bodies])
        # The first entries of a queue are shown a moment after the send was answered.
        async with asyncio.timeout(10):
            while not (found := await ranges(node.namesrv, ["orders"])):
                await asyncio.sleep(0.01)
        coming = chunks(node.namesrv, found[0])
        data = [await anext(coming)]
        node.process.kill()
        node = node.restart()
        data += [chunk async for chunk in coming]
        assert [record.body for record in decode_all(b"".join(data))] == bodies

    try:
        asyncio.run(main())
    finally:
        node.process.stop()
