"""Pulls as a broker answers them: at once, held, by tag, and refused."""

import asyncio
import types

import pytest

from cometmq.broker.handlers.pulling import view_message_by_id
from cometmq.kernel import records
from cometmq.protocol import (
    ConsumerData,
    HeartBeat,
    HeartbeatData,
    PullAnswer,
    SubscriptionData,
    UpdateAndCreateSubscriptionGroup,
    ViewMessageById,
)
from cometmq.serving import Refused, Wait
from cometmq.store import Cold
from tests.unit.broker.conftest import connect, pulling


def now():
    return asyncio.get_running_loop().time()


async def fill(asker, count, tag=lambda n: "", topic="T"):
    for n in range(count):
        answer = await asker.send(topic, b"%d" % n, properties={"TAGS": tag(n)} if tag(n) else "")
        assert answer.code == 0
    await asker.stored(topic)  # and visible


@pytest.mark.spec("C1")
def test_at_most_32_messages_come_at_once_and_the_next_offset_follows_them(broker):
    async def work(asker):
        await fill(asker, 100)
        answer = await asker.pull(most=100)
        told = PullAnswer.read(answer.fields)
        assert (answer.code, answer.remark) == (0, "FOUND")
        assert (told.next_begin_offset, told.min_offset, told.max_offset) == (32, 0, 100)
        assert [one.queue_offset for one in records.decode_all(answer.body)] == list(range(32))

    broker(work)


@pytest.mark.spec("C9")
def test_a_tag_is_found_by_its_hash_and_progress_goes_over_the_others(broker):
    async def work(asker):
        await fill(asker, 100, tag=lambda n: "even" if n % 2 == 0 else "odd")
        answer = await asker.pull(most=100, tags="even")
        assert PullAnswer.read(answer.fields).next_begin_offset == 63
        bodies = [int(one.body) for one in records.decode_all(answer.body)]
        assert bodies == list(range(0, 64, 2))
        none = await asker.pull(most=100, tags="none")
        assert (none.code, none.remark) == (20, "NO_MATCHED_MESSAGE")
        assert PullAnswer.read(none.fields).next_begin_offset == 100

    broker(work)


@pytest.mark.spec("C4", "C5")
@pytest.mark.parametrize(
    ("offset", "code", "remark", "following"),
    [
        (-1, 21, "OFFSET_TOO_SMALL", 0),
        (10, 19, "OFFSET_OVERFLOW_ONE", 10),
        (11, 21, "OFFSET_OVERFLOW_BADLY", 10),
    ],
)
def test_an_offset_beside_the_queue_is_told_where_to_go_on(broker, offset, code, remark, following):
    async def work(asker):
        await fill(asker, 10)
        answer = await asker.pull(offset=offset)
        assert (answer.code, answer.remark) == (code, remark)
        assert PullAnswer.read(answer.fields).next_begin_offset == following

    broker(work)


@pytest.mark.spec("C6")
def test_a_queue_without_messages_is_19_at_0_and_21_elsewhere(broker):
    async def work(asker):
        await fill(asker, 1)
        assert (await asker.pull(queue=1)).code == 19
        assert (await asker.pull(queue=1, offset=5)).code == 21

    broker(work)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"topic": "nobody"}, 17, "topic[nobody] not exist"),
        ({"queue": 99}, 29, "queueId[99] is illegal"),
        ({"queue": -1}, 29, "queueId[-1] is illegal"),
        ({"group": "bad group!"}, 26, "bad group!"),
        ({"tags": None}, 24, "the consumer's group info not exist"),
    ],
)
def test_what_cannot_be_pulled_is_refused(broker, fields, code, text):
    async def work(asker):
        await fill(asker, 1)
        answer = await asker.pull(**fields)
        assert answer.code == code
        assert text in answer.remark

    broker(work)


def test_a_group_that_may_not_consume_gets_16(broker):
    async def work(asker):
        await fill(asker, 1)
        body = b'{"groupName":"g","consumeEnable":false}'
        assert (await asker.ask(UpdateAndCreateSubscriptionGroup(), body)).code == 0
        assert (await asker.pull()).code == 16

    broker(work)


def test_without_the_bit_the_subscription_is_that_of_the_heartbeat(broker):
    async def work(asker):
        await fill(asker, 10, tag=lambda n: "even" if n % 2 == 0 else "odd")
        wanted = SubscriptionData(topic="T", sub_string="odd", sub_version=5)
        consumer = ConsumerData(
            group_name="g", message_model="CLUSTERING", subscription_data_set=(wanted,)
        )
        beat = HeartbeatData(client_id="me", consumer_data_set=(consumer,))
        await asker.ask(HeartBeat(), beat.write())
        answer = await asker.pull(tags=None, version=5)
        assert [int(one.body) for one in records.decode_all(answer.body)] == [1, 3, 5, 7, 9]
        assert (await asker.pull(tags=None, version=6)).code == 25
        assert (await asker.pull("TBW102", tags=None)).code == 24

    broker(work)


@pytest.mark.spec("C2", "STO-39")
def test_a_held_pull_is_answered_when_its_message_comes(broker):
    async def work(asker):
        await fill(asker, 3)
        held = asyncio.ensure_future(asker.pull(offset=3, hold_ms=15_000))
        await asyncio.sleep(2)
        assert not held.done()
        began = now()
        other = await connect(asker.node)
        await other.send(body=b"at last")
        answer = await held
        assert now() - began < 0.1
        assert [one.body for one in records.decode_all(answer.body)] == [b"at last"]

    broker(work)


@pytest.mark.spec("C3", "STO-39")
def test_a_held_pull_ends_at_its_time(broker):
    async def work(asker):
        await fill(asker, 3)
        for hold_ms in (1_000, 15_000):
            began = now()
            answer = await asker.pull(offset=3, hold_ms=hold_ms)
            assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
            told = PullAnswer.read(answer.fields)
            assert (told.next_begin_offset, told.min_offset, told.max_offset) == (3, 0, 3)
            assert now() - began == pytest.approx(hold_ms / 1000, abs=0.1)

    broker(work)


@pytest.mark.spec("C10", "STO-39")
def test_other_tags_end_a_held_pull_only_at_the_next_scan_and_with_their_offset(broker):
    async def work(asker):
        await fill(asker, 1, tag=lambda n: "a")
        held = asyncio.ensure_future(asker.pull(offset=1, tags="a", hold_ms=30_000))
        other = await connect(asker.node)
        await asyncio.sleep(1)
        began = now()
        await other.send(properties={"TAGS": "b"})
        answer = await held
        assert answer.code == 20
        assert PullAnswer.read(answer.fields).next_begin_offset == 2
        assert 0.5 < now() - began <= 5.1

    broker(work)


def test_another_tag_does_not_delay_the_wanted_one(broker):
    async def work(asker):
        await fill(asker, 1, tag=lambda n: "a")
        held = asyncio.ensure_future(asker.pull(offset=1, tags="a", hold_ms=30_000))
        other = await connect(asker.node)
        await asyncio.sleep(1)
        await other.send(properties={"TAGS": "b"})
        await asyncio.sleep(2)
        began = now()
        await other.send(body=b"wanted", properties={"TAGS": "a"})
        assert [one.body for one in records.decode_all((await held).body)] == [b"wanted"]
        assert now() - began < 0.1
        again = asyncio.ensure_future(asker.pull(offset=3, tags="a", hold_ms=8_000))
        await asyncio.sleep(7)
        assert not again.done()
        assert (await again).code == 19

    broker(work)


@pytest.mark.spec("RN10")
def test_all_pulls_held_on_a_queue_are_answered_by_one_message(broker):
    async def work(asker):
        await fill(asker, 1)
        others = [await connect(asker.node) for _ in range(20)]
        held = [asyncio.ensure_future(one.pull(offset=1, hold_ms=15_000)) for one in others]
        await asyncio.sleep(1)
        await asker.send(body=b"for all")
        assert {(await one).code for one in held} == {0}

    broker(work)


def test_a_pull_is_held_on_a_queue_that_has_no_message_yet(broker):
    async def work(asker):
        await fill(asker, 1)
        held = asyncio.ensure_future(asker.pull(queue=2, hold_ms=15_000))
        await asyncio.sleep(1)
        other = await connect(asker.node)
        await other.send(queue_id=2, body=b"first")
        assert [one.body for one in records.decode_all((await held).body)] == [b"first"]

    broker(work)


@pytest.mark.spec("RN2", "RN3")
def test_both_pull_codes_and_both_lanes_answer_alike(broker):
    async def work(asker):
        await fill(asker, 3)
        header = pulling("T", 0, 0)
        answers = [await asker.ask(header, code=code) for code in (11, 361)]
        answers.append(await asker.ask(header, codec=1))
        assert len({one.body for one in answers}) == 1
        assert answers[0].fields == answers[1].fields == answers[2].fields
        assert answers[2].codec == 1

    broker(work)


def test_an_expression_that_names_no_tag_is_23(broker):
    async def work(asker):
        await fill(asker, 1)
        answer = await asker.pull(tags="||")
        assert answer.code == 23
        assert "names no tag" in answer.remark

    broker(work)


def test_a_record_that_the_disk_does_not_deliver_is_not_said_to_be_missing():
    cold = Cold()
    store = types.SimpleNamespace(message_at=lambda position: cold)
    waits = view_message_by_id(store, ViewMessageById(0), 1_000)
    assert isinstance(waits, Wait)
    with pytest.raises(Refused, match="the disk did not deliver in time, ask again") as late:
        waits.then(waits.until_ms)
    assert late.value.code == 2
    cold.end(b"record", None)
    assert waits.then(1_001).body == b"record"
