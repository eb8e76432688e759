"""Pulls as a broker answers them: at once, held, by tag, and refused."""

import asyncio
import random
import types
from dataclasses import replace

import pytest

from cometmq.broker.handlers.pulling import view_message_by_id
from cometmq.kernel import records
from cometmq.protocol import (
    ConsumerData,
    HeartBeat,
    HeartbeatData,
    OffsetAnswer,
    PullAnswer,
    QueryConsumerOffset,
    SubscriptionData,
    TopicFilterType,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateTopic,
    ViewMessageById,
)
from cometmq.serving import Refused, Wait
from cometmq.store import Cold
from cometmq.testing import ForgetfulDisk
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


COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


@pytest.mark.parametrize("others", [0, SUSPEND, SUBSCRIPTION, SUSPEND | SUBSCRIPTION])
@pytest.mark.parametrize(("commit", "committed"), [(0, -1), (COMMIT, 7)])
def test_a_pull_commits_the_offset_it_carries_if_its_bit_says_so(broker, others, commit, committed):
    async def work(asker):
        await fill(asker, 1)
        await asker.ask(HeartBeat(), subscribing())
        ask = QueryConsumerOffset("g", "T", 0, set_zero_if_not_found=False)
        pull = replace(pulling("T", 0, 0, commit=7, hold_ms=100), sys_flag=commit | others)
        assert (await asker.ask(pull)).code == 0
        answer = await asker.ask(ask)
        known = OffsetAnswer.read(answer.fields).offset if answer.code == 0 else -1
        assert known == committed

    broker(work)


def test_a_pull_that_is_refused_commits_nothing(broker):
    async def work(asker):
        await fill(asker, 1)
        assert (await asker.pull(commit=7, tags="||")).code == 23
        ask = QueryConsumerOffset("g", "T", 0, set_zero_if_not_found=False)
        assert (await asker.ask(ask)).code == 22

    broker(work)


def subscribing(text="*", *, group="g", model="CLUSTERING", kind="TAG"):
    wanted = SubscriptionData(topic="T", sub_string=text, sub_version=1, expression_type=kind)
    consumer = ConsumerData(group_name=group, message_model=model, subscription_data_set=(wanted,))
    return HeartbeatData(client_id="me", consumer_data_set=(consumer,)).write()


@pytest.mark.parametrize("others", [0, COMMIT])
def test_a_pull_without_its_bit_is_not_held_whatever_time_it_names(broker, others):
    async def work(asker):
        await fill(asker, 1)
        began = now()
        pull = replace(pulling("T", 0, 1, hold_ms=15_000), sys_flag=SUBSCRIPTION | others)
        assert (await asker.ask(pull)).code == 19
        assert now() - began < 0.1

    broker(work)


@pytest.mark.parametrize(
    ("bit", "bodies"), [(0, [1, 3]), (COMMIT | SUSPEND, [1, 3]), (SUBSCRIPTION, [0, 2])]
)
def test_whose_subscription_counts_is_said_by_a_bit_of_the_pull(broker, bit, bodies):
    async def work(asker):
        await fill(asker, 4, tag=lambda n: "even" if n % 2 == 0 else "odd")
        await asker.ask(HeartBeat(), subscribing("odd"))
        answer = await asker.ask(replace(pulling("T", 0, 0, tags="even"), sys_flag=bit))
        assert [int(one.body) for one in records.decode_all(answer.body)] == bodies

    broker(work)


@pytest.mark.parametrize(("most", "found"), [(-1, 1), (0, 1), (1, 1), (2, 2), (32, 32), (33, 32)])
def test_a_pull_brings_as_many_as_it_asks_for_and_one_at_least(broker, most, found):
    async def work(asker):
        await fill(asker, 40)
        assert len(records.decode_all((await asker.pull(most=most)).body)) == found

    broker(work)


@pytest.mark.parametrize(("perm", "code"), [(6, 0), (4, 0), (2, 16), (0, 16)])
def test_a_topic_is_read_where_its_permission_allows_it(broker, perm, code):
    async def work(asker):
        await fill(asker, 1)
        kind = TopicFilterType.SINGLE_TAG
        await asker.ask(UpdateAndCreateTopic("T", "TBW102", 4, 4, perm, kind))
        assert (await asker.pull()).code == code

    broker(work)


@pytest.mark.parametrize(
    ("model", "enabled", "code"),
    [
        ("BROADCASTING", True, 0),
        ("BROADCASTING", False, 16),
        ("CLUSTERING", False, 0),
    ],
)
def test_a_group_that_may_not_broadcast_is_refused_when_it_does(broker, model, enabled, code):
    async def work(asker):
        await fill(asker, 1)
        body = b'{"groupName":"g","consumeBroadcastEnable":%s}' % str(enabled).lower().encode()
        await asker.ask(UpdateAndCreateSubscriptionGroup(), body)
        await asker.ask(HeartBeat(), subscribing(model=model))
        assert (await asker.pull(tags=None)).code == code

    broker(work)


@pytest.mark.parametrize("by_pull", [True, False])
@pytest.mark.parametrize(("kind", "code"), [("TAG", 0), ("", 0), ("SQL92", 23)])
def test_only_tags_are_filtered_by(broker, kind, code, by_pull):
    async def work(asker):
        await fill(asker, 1)
        await asker.ask(HeartBeat(), subscribing(kind="TAG" if by_pull else kind))
        answer = await asker.pull(tags="*" if by_pull else None, kind=kind if by_pull else "TAG")
        assert answer.code == code
        assert (
            code == 0 or answer.remark == "filtering by SQL92 is not built yet: subscribe by tags"
        )

    broker(work)


@pytest.mark.parametrize("tags", ["*", "a"])
@pytest.mark.parametrize("end", ["its time", "its connection"])
def test_a_held_pull_that_has_ended_keeps_no_message_from_the_next(broker, tags, end):
    async def work(asker):
        await fill(asker, 1)
        first, second = await connect(asker.node), await connect(asker.node)
        ended = asyncio.ensure_future(first.pull(offset=1, tags=tags, hold_ms=3_000))
        held = asyncio.ensure_future(second.pull(offset=1, tags=tags, hold_ms=30_000))
        await asyncio.sleep(1)
        if end == "its connection":
            first.channel.close()
        await asyncio.wait([ended])
        await asyncio.sleep(5)
        began = now()
        await asker.send(body=b"for the second", properties={"TAGS": "a"})
        assert [one.body for one in records.decode_all((await held).body)] == [b"for the second"]
        assert now() - began < 0.1
        assert ended.exception() or ended.result().code == 19

    broker(work)


def test_a_pull_that_was_answered_is_not_looked_at_again_for_other_tags(broker):
    async def work(asker):
        await fill(asker, 1)
        other = await connect(asker.node)
        held = asyncio.ensure_future(asker.pull(offset=1, tags="a", hold_ms=30_000))
        await asyncio.sleep(1)
        await other.send(properties={"TAGS": "b"})
        await other.send(properties={"TAGS": "a"})
        assert (await held).code == 0
        await asyncio.sleep(30)

    broker(work)


class Files:
    """A broker's messages on a disk, to be read by a broker that has none of them in memory."""

    def __init__(self, broker):
        self.disk = ForgetfulDisk(random.Random(1))
        broker(lambda asker: fill(asker, 3), disk=self.disk)

    def read_by(self, broker, work):
        disk = self.disk

        async def slowly(asker):
            pause = disk.pause
            disk.pause = lambda seconds: pause(self.read_s)
            try:
                return await work(asker)
            finally:
                disk.pause = pause

        self.read_s = 0.0
        return broker(slowly, disk=disk)


@pytest.fixture
def files(broker):
    return Files(broker)


@pytest.mark.parametrize("hold_ms", [0, 15_000])
def test_what_the_disk_delivers_late_is_answered_when_it_comes(broker, files, hold_ms):
    async def work(asker):
        files.read_s = 1.0
        answer = await asker.pull(hold_ms=hold_ms)
        assert [one.body for one in records.decode_all(answer.body)] == [b"0", b"1", b"2"]

    files.read_by(broker, work)


@pytest.mark.parametrize(("hold_ms", "waits_s"), [(0, 5), (15_000, 15), (1_000, 1)])
def test_what_the_disk_does_not_deliver_in_time_is_to_be_asked_for_again(
    broker, files, hold_ms, waits_s
):
    async def work(asker):
        files.read_s = 100.0
        began = now()
        answer = await asker.pull(hold_ms=hold_ms)
        assert (answer.code, answer.remark) == (2, "the disk did not deliver in time, ask again")
        assert now() - began == pytest.approx(waits_s, abs=0.1)

    files.read_by(broker, work)


@pytest.mark.parametrize("folder", ["consumequeue/", "commitlog/"])
def test_a_read_that_failed_is_said_and_the_next_one_succeeds(broker, files, folder):
    async def work(asker):
        files.disk.fail_once("pread", folder)
        answer = await asker.pull()
        assert answer.code == 1
        assert f"pread of '{folder}" in answer.remark
        assert (await asker.pull()).code == 0

    files.read_by(broker, work)
