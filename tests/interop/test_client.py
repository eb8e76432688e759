"""The Python client, the same tests against our node and against the original."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cometmq import Consumer, Message, Producer, ReceivedMessage
from cometmq.client import MessageQueue, NoRoute, NotRunning, SendFailed
from cometmq.message import BadMessage
from tests.faulty import FaultyNetwork, is_code, once
from tests.interop.conftest import Served

SENDS = is_code(310, 320)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.originalname)
    return f"py_{name[5:80]}_{random.getrandbits(32):x}"


def run(main: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float = 120) -> Any:
    return asyncio.run(asyncio.wait_for(main(), timeout_s))


async def take(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    """The next messages, each acknowledged."""
    found: list[ReceivedMessage] = []
    async for message in consumer:
        found.append(message)
        await message.ack()
        if len(found) == count:
            return found
    raise AssertionError


async def prepare(namesrv: str, topic: str, queues: int = 4) -> None:
    """Makes the topic by sending to it until its route is known."""
    async with Producer(namesrv, group="prepare") as producer:
        await producer.send(Message(topic, b"first"))
        while producer._session.routes.known(topic) is None:
            await producer.send(Message(topic, b"first"))
            await asyncio.sleep(0.1)


def test_every_property_of_a_message_arrives(served: Served, topic: str) -> None:
    sent = Message(
        topic,
        bytes(range(256)),
        tag="crème",
        keys=["k1", "k2"],
        properties={"color": "red", "ключ": "значение 😀"},
        flag=7,
    )

    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            receipt = await producer.send(sent)
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            [found] = await take(consumer, 1)
        assert (found.topic, found.body, found.tag, found.keys) == (
            topic,
            sent.body,
            "crème",
            ("k1", "k2"),
        )
        assert {"color": "red", "ключ": "значение 😀"}.items() <= found.properties.items()
        assert (found.flag, found.attempt) == (7, 1)
        assert found.message_id == receipt.message_id
        assert (found.broker, found.queue_id, found.queue_offset) == (
            receipt.broker,
            receipt.queue_id,
            receipt.queue_offset,
        )
        assert abs(found.born_ms - time.time() * 1000) < 60_000

    run(main)


def test_large_bodies_travel_compressed_and_arrive_whole(served: Served, topic: str) -> None:
    body = b"all work and no play " * 50_000

    async def main() -> None:
        network = FaultyNetwork()
        sizes = []
        network.swallow = lambda data: sizes.append(len(data)) or False  # type: ignore[func-returns-value]
        async with Producer(served.namesrv, group="shop", network=network) as producer:
            await producer.send(Message(topic, body))
        assert max(sizes) < len(body) // 10
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            [found] = await take(consumer, 1)
        assert found.body == body

    run(main)


def test_a_list_is_one_batch_with_an_id_for_each(served: Served, topic: str) -> None:
    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            receipt = await producer.send([Message(topic, b"%d" % n, tag="t") for n in range(5)])
        assert len(receipt.message_id.split(",")) == 5
        assert len(receipt.offset_message_id.split(",")) == 5
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "t"}, start="earliest"
        ) as consumer:
            found = await take(consumer, 5)
        assert [one.body for one in found] == [b"%d" % n for n in range(5)]
        assert [one.message_id for one in found] == receipt.message_id.split(",")
        assert len({one.queue_id for one in found}) == 1

    run(main)


def test_a_chosen_queue_keeps_its_order_and_one_way_needs_no_answer(
    served: Served, topic: str
) -> None:
    async def main() -> None:
        await prepare(served.namesrv, topic)
        async with Producer(served.namesrv, group="shop") as producer:
            first = await producer.send(Message(topic, b"a"))
            queue = MessageQueue(topic, first.broker, first.queue_id)
            for n in range(10):
                await producer.send_oneway(Message(topic, b"%d" % n), queue=queue)
            last = await producer.send(Message(topic, b"z"), queue=queue)
            assert last.queue_id == first.queue_id
            if served.who == "ours":  # the original takes what is pipelined in any order
                assert last.queue_offset == first.queue_offset + 11
            other = MessageQueue("other", first.broker, 0)
            with pytest.raises(BadMessage, match="not equal"):
                await producer.send(Message(topic, b"x"), queue=other)
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            found = set()
            async for message in consumer:
                if message.queue_id == first.queue_id:
                    found.add(message.body)
                if {b"a", b"z", *(b"%d" % n for n in range(10))} <= found:
                    break

    run(main)


@pytest.mark.spec("PR54")
def test_an_answer_that_is_lost_is_a_second_try_with_the_same_id(
    served: Served, topic: str
) -> None:
    async def main() -> None:
        await prepare(served.namesrv, topic)
        network = FaultyNetwork()
        async with Producer(served.namesrv, group="shop", network=network) as producer:
            await producer.send(Message(topic, b"before"))
            network.lose_answer_to = once(SENDS)
            receipt = await producer.send(Message(topic, b"twice"))
            assert network.lost == 1
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            ids = Counter[str]()
            async for message in consumer:
                if message.body == b"twice":
                    ids[message.message_id] += 1
                    if ids.total() == 2:
                        break
        # The broker had stored the first try: what it lost was only its answer.
        assert ids == {receipt.message_id: 2}

    run(main)


@pytest.mark.spec("PR21")
def test_the_deadline_is_one_for_all_tries(served: Served, topic: str) -> None:
    async def main() -> None:
        await prepare(served.namesrv, topic)
        network = FaultyNetwork()
        async with Producer(served.namesrv, group="shop", network=network) as producer:
            await producer.send(Message(topic, b"before"))
            network.swallow = SENDS
            began = time.monotonic()
            with pytest.raises(SendFailed) as failed:
                await producer.send(Message(topic, b"lost"), timeout_ms=800)
            assert 0.7 < time.monotonic() - began < 8
            assert network.swallowed >= 1
        text = str(failed.value)
        assert topic in text
        assert "broker-a" in text
        assert "timeout_ms" in text

    run(main)


@pytest.mark.spec("PR21", "PR24")
def test_a_broker_that_is_away_is_said_with_its_address(served: Served, topic: str) -> None:
    async def main() -> None:
        await prepare(served.namesrv, topic)
        network = FaultyNetwork()
        network.refused.append(served.broker)
        async with Producer(served.namesrv, group="shop", network=network) as producer:
            with pytest.raises(SendFailed) as failed:
                await producer.send(Message(topic, b"lost"))
        text = str(failed.value)
        assert text.startswith("Send [3] times, still failed, cost [")
        for part in (f"Topic: {topic}", "BrokersSent: [broker-a", "is the server running"):
            assert part in text

    run(main)


def test_no_name_server_and_no_route_are_said(served: Served, topic: str) -> None:
    async def main() -> None:
        network = FaultyNetwork()
        network.refused.append(served.namesrv)
        async with Producer(served.namesrv, group="shop", network=network) as producer:
            with pytest.raises(Exception, match="no name server answers"):
                await producer.send(Message(topic, b"lost"))
        producer = Producer(served.namesrv, group="shop")
        with pytest.raises(NotRunning):
            await producer.send(Message(topic, b"x"))
        async with Producer(served.namesrv, group="shop") as producer:
            with pytest.raises(NoRoute, match="create it with"):
                await producer._session.routes.find(topic)

    run(main)


def test_cancellation_inside_the_block_acknowledges_nothing(served: Served, topic: str) -> None:
    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            await producer.send([Message(topic, b"finished"), Message(topic, b"unfinished")])
        begun = asyncio.Event()

        async def work() -> None:
            async with Consumer(
                served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
            ) as consumer:
                async for message in consumer:
                    async with message:
                        if message.body == b"unfinished":
                            begun.set()
                            await asyncio.sleep(1000)

        task = asyncio.ensure_future(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            [found] = await take(consumer, 1)
        assert (found.body, found.attempt) == (b"unfinished", 1)

    run(main)


def test_what_was_done_is_handed_over_on_close(served: Served, topic: str) -> None:
    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            await producer.send([Message(topic, b"%d" % n) for n in range(10)])
        wanted = {topic: "*"}
        async with Consumer(
            served.namesrv, group=topic, subscribe=wanted, start="earliest"
        ) as consumer:
            first = await take(consumer, 4)
        async with Consumer(
            served.namesrv, group=topic, subscribe=wanted, start="earliest"
        ) as consumer:
            second = await take(consumer, 6)
        bodies = [one.body for one in first + second]
        assert bodies == [b"%d" % n for n in range(10)]

    run(main)


def test_a_failed_message_comes_again_and_nothing_is_skipped(served: Served, topic: str) -> None:
    """With code 36 from the broker's retry topic; where that is not built, from here."""

    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            await producer.send([Message(topic, b"%d" % n, tag="t") for n in range(5)])
        attempts: dict[bytes, list[int]] = {}
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "t"}, start="earliest"
        ) as consumer:
            async for message in consumer:
                assert message.topic == topic
                async with message:
                    attempts.setdefault(message.body, []).append(message.attempt)
                    if message.body == b"2" and message.attempt == 1:
                        raise ValueError("once")
                if attempts.get(b"2") == [1, 2]:
                    break
        assert sorted(attempts) == [b"0", b"1", b"2", b"3", b"4"]
        assert all(found == [1] for body, found in attempts.items() if body != b"2")

    run(main)


def test_an_error_outside_of_the_block_sends_back_and_closes(served: Served, topic: str) -> None:
    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            await producer.send(Message(topic, b"hard"))
        with pytest.raises(ValueError, match="my bug"):
            async with Consumer(
                served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
            ) as consumer:
                async for _ in consumer:
                    raise ValueError("my bug")
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            [found] = await take(consumer, 1)
        assert found.body == b"hard"

    run(main)


def test_members_join_and_leave_under_load_and_nothing_is_skipped(
    served: Served, topic: str
) -> None:
    total = 600

    async def main() -> None:
        await prepare(served.namesrv, topic)
        seen = Counter[bytes]()
        stop = asyncio.Event()

        async def produce() -> None:
            async with Producer(served.namesrv, group="shop") as producer:
                for n in range(total):
                    await producer.send(Message(topic, b"%d" % n))
                    await asyncio.sleep(0.005)

        async def consume(until: asyncio.Event) -> None:
            async with Consumer(
                served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
            ) as consumer:
                reader = asyncio.ensure_future(read(consumer))
                await until.wait()
                reader.cancel()

        async def read(consumer: Consumer) -> None:
            async for message in consumer:
                seen[message.body] += 1
                await message.ack()

        async def visit(after: float, stays: float) -> None:
            await asyncio.sleep(after)
            leave = asyncio.Event()
            visitor = asyncio.ensure_future(consume(leave))
            await asyncio.sleep(stays)
            leave.set()
            await visitor

        constant = asyncio.ensure_future(consume(stop))
        visitors = [asyncio.ensure_future(visit(n * 0.6, 1.5)) for n in range(3)]
        await produce()
        for visitor in visitors:
            await visitor
        wanted = {b"%d" % n for n in range(total)}
        async with asyncio.timeout(60):
            while not wanted <= set(seen):
                await asyncio.sleep(0.1)
        stop.set()
        await constant

    run(main)


def test_nothing_outlives_the_block(served: Served, topic: str) -> None:
    async def main() -> None:
        before = len(asyncio.all_tasks())
        async with Producer(served.namesrv, group="shop") as producer:
            await producer.send(Message(topic, b"x"))
        async with Consumer(
            served.namesrv, group=topic, subscribe={topic: "*"}, start="earliest"
        ) as consumer:
            await take(consumer, 1)
        await asyncio.sleep(0.05)
        assert len(asyncio.all_tasks()) == before

    run(main)
