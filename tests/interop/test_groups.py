"""Members of one group, Java's and ours; and two brokers, of which one is away."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cometmq import Consumer, Message, Producer
from tests.faulty import until
from tests.interop.conftest import Served
from tests.interop.java_clients import JavaProducer, JavaPushConsumer, JavaQueue, OutgoingMessage
from tests.interop.peer import Original, Peer
from tests.interop.test_client import run
from tests.processes import start_broker, start_node


@pytest.mark.spec("PR35")
def test_python_and_java_exchange_messages(peer: Peer, served: Served, tmp_path: Path) -> None:
    with JavaProducer(peer, tmp_path / "p", served.namesrv, "shop") as producer:
        for number in range(10):
            producer.send(OutgoingMessage("from_java", b"%d" % number, tag="t", keys="k"))
        producer.send(*[OutgoingMessage("from_java", b"b", tag="t")] * 5, mode="batch")

    async def main() -> None:
        async with Consumer(
            served.namesrv, group="py", subscribe={"from_java": "t"}, start="earliest"
        ) as consumer:
            found = Counter[bytes]()
            async for message in consumer:
                found[message.body] += 1
                if found.total() == 15:
                    break
            assert found == {**{b"%d" % n: 1 for n in range(10)}, b"b": 5}
        async with Producer(served.namesrv, group="shop") as producer:
            for n in range(10):
                await producer.send(Message("from_python", b"%d" % n, tag="t", keys=["a", "b"]))
            await producer.send([Message("from_python", b"b", tag="t") for _ in range(5)])
            await producer.send(Message("from_python", b"long " * 2000, tag="t"))

    run(main)
    wanted = {"from_python": "t"}
    with JavaPushConsumer(peer, tmp_path / "c", served.namesrv, "java", wanted) as consumer:
        bodies = Counter(message.body for message in consumer.messages(16))
        assert bodies == {**{b"%d" % n: 1 for n in range(10)}, b"b": 5, b"long " * 2000: 1}


def test_a_group_of_a_java_and_a_python_member_splits_the_queues_as_java_would(
    peer: Peer, served: Served, tmp_path: Path
) -> None:
    topic, group = "mixed", "mixed_group"

    def of_topic(queues: list[JavaQueue]) -> list[int]:
        return sorted(queue.id for queue in queues if queue.topic == topic)

    async def main() -> None:
        async with Producer(served.namesrv, group="shop") as producer:
            await producer.send(Message(topic, b"makes the topic"))
        arguments = (peer, tmp_path / "java", served.namesrv, group, {topic: "*"})
        java = await asyncio.to_thread(JavaPushConsumer, *arguments)
        with java:
            await asyncio.to_thread(
                java.wait_for_queues, lambda queues: of_topic(queues) == [0, 1, 2, 3]
            )
            async with Consumer(
                served.namesrv, group=group, subscribe={topic: "*"}, start="earliest"
            ) as consumer:

                def ours() -> list[int]:
                    readers = consumer._membership.owned.values()
                    return sorted(r.queue.queue_id for r in readers if r.queue.topic == topic)

                await asyncio.to_thread(
                    java.wait_for_queues, lambda queues: len(of_topic(queues)) == 2
                )
                await until(lambda: len(ours()) == 2)
                theirs = of_topic(await asyncio.to_thread(java.queues))
                assert sorted(theirs + ours()) == [0, 1, 2, 3]
                # AVG: whoever sorts first has the first queues.
                assert 0 in (min(ours(), theirs))
                await asyncio.to_thread(java.kill)
                await until(lambda: ours() == [0, 1, 2, 3])

    run(main)


@dataclass(frozen=True)
class Pair:
    """One name server with the brokers broker-a and broker-b, and what ends the second."""

    namesrv: str
    kill_second: Callable[[], object]


@pytest.fixture(params=["ours", "original"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    if request.param == "ours":
        with ExitStack() as stack:
            one = start_node(tmp_path / "one")
            stack.callback(one.process.stop)
            two = start_broker(tmp_path / "two", "broker-b", one.namesrv)
            stack.callback(two.process.stop)
            yield Pair(one.namesrv, two.process.kill)
    else:
        with Original(request.getfixturevalue("peer"), tmp_path) as servers:
            namesrv = servers.start_namesrv()
            for name in ("broker-a", "broker-b"):
                servers.start_broker(name)
            yield Pair(namesrv, lambda: servers.kill("broker-b"))


def test_with_one_of_two_brokers_down_every_send_succeeds_on_the_other(pair: Pair) -> None:
    async def main() -> None:
        async with Producer(pair.namesrv, group="shop") as producer:
            used = Counter[str]()
            async with asyncio.timeout(60):
                while len(used) < 2:
                    used[(await producer.send(Message("BenchmarkTest", b"x"))).broker] += 1
            await asyncio.to_thread(pair.kill_second)
            for _ in range(40):
                receipt = await producer.send(Message("BenchmarkTest", b"y"))
                assert receipt.broker == "broker-a"

    run(main)
