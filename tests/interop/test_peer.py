"""The original's Java clients against the servers: every way to send and to receive, once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import Served
from tests.interop.java_clients import (
    JavaLitePullConsumer,
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    JavaQueue,
    OutgoingMessage,
)
from tests.interop.peer import Peer


@pytest.fixture
def producer(peer: Peer, served: Served, tmp_path: Path) -> Iterator[JavaProducer]:
    with JavaProducer(peer, tmp_path / "producer", served.namesrv, "shop") as producer:
        yield producer


def test_what_java_sends_in_every_way_java_receives_exactly_once(
    peer: Peer, served: Served, producer: JavaProducer, tmp_path: Path
) -> None:
    topic = "every_way"
    bodies = [f"message {number}".encode() for number in range(20)]
    messages = [OutgoingMessage(topic, body, tag="odd", keys=body.decode()) for body in bodies]

    receipts = [producer.send(message) for message in messages[:4]]
    under_way = [producer.start_send(message, mode="async") for message in messages[4:8]]
    receipts += [producer.receipt(number) for number in under_way]
    queue = producer.queues(topic)[1]
    receipts += [producer.send(message, queue=queue) for message in messages[8:10]]
    receipts += [producer.send(message, select=2) for message in messages[10:12]]
    receipts += [producer.send(*messages[12:16], mode="batch")]
    assert {receipt.status for receipt in receipts} == {"SEND_OK"}
    assert [receipt.queue_id for receipt in receipts[8:12]] == [queue.id] * 2 + [2] * 2
    for message in messages[16:]:
        producer.send(message, mode="oneway")

    home = tmp_path / "consumer"
    with JavaPushConsumer(peer, home, served.namesrv, "billing", {topic: "odd"}) as consumer:
        found = consumer.messages(20)
        assert sorted(message.body for message in found) == sorted(bodies)
        assert all(message.keys == message.body.decode() for message in found)
        assert {message.tag for message in found} == {"odd"}
        places = {(message.queue_id, message.queue_offset) for message in found}
        assert len(places) == 20
        assert consumer.unread() == []


def test_only_messages_with_the_wanted_tag_arrive(
    peer: Peer, served: Served, producer: JavaProducer, tmp_path: Path
) -> None:
    for number in range(12):
        tag = "even" if number % 2 == 0 else "odd"
        producer.send(OutgoingMessage("tags", str(number).encode(), tag=tag))
    home = tmp_path / "consumer"
    with JavaPushConsumer(peer, home, served.namesrv, "tagged", {"tags": "even"}) as consumer:
        found = {int(message.body) for message in consumer.messages(6)}
    assert found == {0, 2, 4, 6, 8, 10}


def test_a_pull_consumer_reads_a_queue_and_its_commit_is_kept(
    peer: Peer, served: Served, producer: JavaProducer, tmp_path: Path
) -> None:
    topic = "pulled"
    producer.send(OutgoingMessage(topic, b"creates the topic"))
    queue = producer.queues(topic)[0]
    before = 1 if producer.send(OutgoingMessage(topic, b"first"), queue=queue).queue_offset else 0
    for number in range(4):
        producer.send(OutgoingMessage(topic, str(number).encode()), queue=queue)
    with JavaPullConsumer(peer, tmp_path / "pull", served.namesrv, "puller") as consumer:
        assert queue in consumer.queues(topic)
        pull = consumer.pull(queue, before)
        assert pull.status == "FOUND"
        assert [message.body for message in pull.messages] == [b"first", b"0", b"1", b"2", b"3"]
        assert (pull.next_offset, pull.min_offset, pull.max_offset) == (before + 5, 0, before + 5)
        assert consumer.offsets(queue) == (0, before + 5)
        consumer.commit(queue, before + 3)
        assert consumer.committed(queue) == before + 3


def test_a_lite_pull_consumer_gets_everything_once(
    peer: Peer, served: Served, producer: JavaProducer, tmp_path: Path
) -> None:
    for number in range(10):
        producer.send(OutgoingMessage("lite", str(number).encode()))
    home = tmp_path / "lite"
    with JavaLitePullConsumer(peer, home, served.namesrv, "lite", {"lite": "*"}) as consumer:
        found = sorted(int(message.body) for message in consumer.poll_until(10))
        assert found == list(range(10))
        consumer.commit()


def test_a_second_member_takes_half_of_the_queues_and_all_when_the_first_dies(
    peer: Peer, served: Served, producer: JavaProducer, tmp_path: Path
) -> None:
    topic = "shared"
    producer.send(OutgoingMessage(topic, b"creates the topic"))

    def member(name: str) -> JavaPushConsumer:
        return JavaPushConsumer(
            peer,
            tmp_path / name,
            served.namesrv,
            "sharers",
            {topic: "*"},
            settings={"instanceName": name},
        )

    def of_topic(count: int) -> Callable[[list[JavaQueue]], bool]:
        return lambda queues: sum(queue.topic == topic for queue in queues) == count

    with member("one") as one, member("two") as two:
        one.wait_for_queues(of_topic(2))
        two.wait_for_queues(of_topic(2))
        one.kill()
        two.wait_for_queues(of_topic(4))
