"""Consumers: where they begin, what is acknowledged, comes again or is handed over, and when."""

import asyncio

import pytest

from cometmq.client import Consumer, NotRunning
from cometmq.filtering import BadExpression
from cometmq.message import BadMessage
from cometmq.protocol import (
    ConsumerSendMsgBack,
    HeartBeat,
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from tests.unit.client.conftest import (
    BACK,
    PULL,
    bodies,
    done,
    now,
    play_pulls,
    play_queue,
    pulled,
    pulls_of,
    record,
    reply,
    route,
    send,
)

ALL_COLD = {"store": {"physical_memory": 0}}
"""Nothing counts as in memory, so that a new group begins where it says."""


async def committed(node, group="test", topic="T", queue=0):
    ask = QueryConsumerOffset(group, topic, queue, set_zero_if_not_found=False)
    answer = await node.ask(ask)
    return OffsetAnswer.read(answer.fields).offset if answer.code == 0 else None


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"group": ""}, BadMessage, "the specified group is blank"),
        ({"subscribe": {}}, BadMessage, "subscribe to at least one topic"),
        ({"subscribe": {"a b": "*"}}, BadMessage, "contains illegal characters"),
        ({"subscribe": {"T": "*", "a b": "*"}}, BadMessage, "contains illegal characters"),
        ({"subscribe": {"T": "||"}}, BadExpression, "names no tag"),
    ],
)
def test_a_consumer_that_cannot_work_is_not_made(given, error, text):
    with pytest.raises(error, match=text):
        Consumer(**{"namesrv": "127.0.0.1:1", "group": "g", "subscribe": {"T": "*"}, **given})


def test_a_consumer_works_inside_its_block_only(node):
    async def work(node):
        await node.fill("T", 1)
        consumer = node.consumer({"T": "*"})
        with pytest.raises(NotRunning, match="the consumer is not running"):
            await anext(consumer)
        async with consumer:
            pass
        with pytest.raises(NotRunning):
            await anext(consumer)

    node(work)


def test_who_waits_for_a_message_when_the_block_ends_is_told_so(node):
    async def work(node):
        async with node.consumer({"T": "*"}) as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(1)
        with pytest.raises(NotRunning):
            await waiting

    node(work)


@pytest.mark.spec("C25", "C26")
@pytest.mark.parametrize(
    ("start", "settings", "expected"),
    [
        ("earliest", ALL_COLD, [b"before", b"after"]),
        ("latest", ALL_COLD, [b"after"]),
        ("latest", {}, [b"before", b"after"]),
    ],
    ids=["earliest", "latest", "latest of a young topic"],
)
def test_a_new_group_begins_where_it_wants(node, start, settings, expected):
    async def work(node):
        await node.make_topic("T", 1)
        await send(node, b"before")
        async with node.consumer({"T": "*"}, start=start) as consumer:
            await asyncio.sleep(1)
            await send(node, b"after")
            assert await bodies(consumer, 3) == expected

    node(work, **settings)


def test_a_group_begins_at_the_newest_message_if_it_says_nothing(stage):
    async def work(stage):
        peer = stage.brokers["broker-2"]
        consumer = stage.consumer()
        fresh = Consumer(stage.namesrv, group="g", subscribe={"T": "*"}, network=stage.client())
        for one in (consumer, fresh):
            async with one:
                await asyncio.sleep(1)
        said = [one.body for one in peer.of(HeartBeat.code)]
        assert b"CONSUME_FROM_LAST_OFFSET" in said[-1]

    stage(work)


def test_a_group_that_was_here_before_goes_on_where_it_was(node):
    async def work(node):
        await node.make_topic("T", 1)
        await send(node, b"a", b"b", b"c")
        for expected in ([b"a", b"b"], [b"b", b"c"]):  # the last of them was not acknowledged
            async with node.consumer({"T": "*"}) as consumer:
                assert await bodies(consumer, 2) == expected

    node(work)


def test_an_offset_beyond_the_end_is_given_up_for_the_end(node):
    async def work(node):
        await node.fill("T", 3)
        async with node.consumer({"T": "*"}) as consumer:
            await bodies(consumer, 1)  # the group is known
        await node.ask(UpdateConsumerOffset("test", "T", 0, 1000))
        async with node.consumer({"T": "*"}) as consumer:
            await asyncio.sleep(1)
            await send(node, b"new")
            assert await bodies(consumer, 2) == [b"new"]

    node(work)


def test_what_is_acknowledged_is_committed_every_five_seconds(node):
    async def work(node):
        await node.fill("T", 4)
        async with node.consumer({"T": "*"}) as consumer:
            messages = [await anext(consumer) for _ in range(3)]
            assert await committed(node) is None
            await asyncio.sleep(5.5)
            assert await committed(node) == 2  # asking for the third acknowledged two
            await messages[2].ack()
            await asyncio.sleep(5)
            assert await committed(node) == 3

    node(work)


def test_what_was_acknowledged_last_is_committed_when_the_block_is_cancelled(node):
    async def work(node):
        await node.fill("T", 4)

        async def consume():
            async with node.consumer({"T": "*"}) as consumer:
                await (await anext(consumer)).ack()
                await asyncio.sleep(100)

        task = asyncio.ensure_future(consume())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(1)
        assert await committed(node) == 1

    node(work)


def test_a_message_that_comes_again_is_committed_before_those_behind_it(node):
    async def work(node):
        await node.fill("T", 2)
        async with node.consumer({"T": "*"}) as consumer:
            await (await anext(consumer)).retry(after=60)
            await (await anext(consumer)).ack()
            await asyncio.sleep(50)
            assert await committed(node) == 0
            await (await anext(consumer)).ack()
            await asyncio.sleep(6)
            assert await committed(node) == 2

    node(work)


@pytest.mark.parametrize(("error", "sent_back"), [(ValueError, 1), (asyncio.CancelledError, 0)])
def test_a_message_whose_work_did_not_end_comes_to_the_next_consumer(node, error, sent_back):
    async def work(node):
        await node.fill("T", 2)
        with pytest.raises(error):
            async with node.consumer({"T": "*"}) as consumer:
                await anext(consumer)
                await anext(consumer)
                raise error
        assert len(node.client_network.of(BACK)) == sent_back
        async with node.consumer({"T": "*"}) as consumer:
            assert await bodies(consumer, 1) == [b"message 1"]

    node(work)


def test_a_message_whose_block_failed_comes_again_after_five_seconds(node):
    async def work(node):
        await node.fill("T", 1)
        async with node.consumer({"T": "*"}) as consumer:
            for attempt in (1, 2, 3):
                message = await anext(consumer)
                assert message.attempt == attempt
                began = now()
                async with message:
                    raise ValueError("failed")
            await anext(consumer)
            assert now() - began == pytest.approx(5, abs=0.1)
            assert await committed(node) in (None, 0)

    node(work)


@pytest.mark.parametrize("after", [0.5, 1, 60])
def test_a_message_comes_again_when_it_was_wanted(node, after):
    async def work(node):
        await node.fill("T", 1)
        async with node.consumer({"T": "*"}) as consumer:
            await (await anext(consumer)).retry(after=after)
            began = now()
            assert (await anext(consumer)).attempt == 2
            assert now() - began == pytest.approx(after, abs=0.1)

    node(work)


def test_what_was_settled_stays_so_whatever_is_said_later(node):
    async def work(node):
        await node.fill("T", 1)
        async with node.consumer({"T": "*"}) as consumer:
            message = await anext(consumer)
            async with message:
                await message.ack()
                raise ValueError("too late")
            await message.retry(after=1)
            await message.ack()
            assert await bodies(consumer, 1, within_s=30) == []
            assert await committed(node) == 1
        assert node.client_network.of(ConsumerSendMsgBack.code) == []

    node(work)


def test_a_block_that_ends_well_acknowledges_and_one_that_is_cancelled_does_not(node):
    async def work(node):
        await node.fill("T", 2)
        async with node.consumer({"T": "*"}) as consumer:
            async with await anext(consumer) as message:
                pass
            assert message.settled
            message = await anext(consumer)
            with pytest.raises(asyncio.CancelledError):
                async with message:
                    raise asyncio.CancelledError
            assert not message.settled

    node(work)


DELAYS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""In seconds, from level 1 on (spec 04 Annex A)."""


@pytest.mark.parametrize(
    ("after", "level"),
    [
        *[(None, 0), (0, 1), (99999, 18)],
        *[(delay, n) for n, delay in enumerate(DELAYS, 1)],
        *[(delay + 0.5, n) for n, delay in enumerate(DELAYS[:-1], 2)],
    ],
)
def test_a_message_is_sent_back_with_the_first_delay_that_is_long_enough(stage, after, level):
    async def work(stage):
        broker = play_queue(stage, pulled(1, record(0, UNIQ_KEY="id")))
        broker.says[BACK] = lambda asked: 0
        async with stage.consumer() as consumer:
            await (await anext(consumer)).retry(after=after)
        [back] = broker.of(BACK)
        assert int(back.fields["delayLevel"]) == level

    stage(work)


def test_a_message_that_its_broker_takes_back_is_done_here(stage):
    async def work(stage):
        broker = play_queue(stage, pulled(8, record(7, UNIQ_KEY="id", RETRY_TOPIC="T0")))
        broker.says[BACK] = lambda asked: 0
        async with stage.consumer() as consumer:
            await (await anext(consumer)).retry()
            assert await bodies(consumer, 1, within_s=60) == []
        [back] = broker.of(BACK)
        assert back.fields == {
            "offset": "700",
            "group": "g",
            "delayLevel": "0",
            "originMsgId": "id",
            "originTopic": "T0",
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        assert [one.fields["commitOffset"] for one in done(broker)][-1] == "8"

    stage(work)


def test_what_a_broker_says_of_a_message_is_had_by_its_name(stage):
    async def work(stage):
        given = {"TAGS": "t", "KEYS": "k l", "UNIQ_KEY": "id", "color": "red"}
        play_queue(stage, pulled(8, record(7, b"body", reconsumed=2, **given)))
        async with stage.consumer() as consumer:
            message = await anext(consumer)
        assert (message.topic, message.broker, message.queue_id) == ("T", "broker-2", 0)
        assert (message.queue_offset, message.position, message.attempt) == (7, 700, 3)
        assert (message.born_ms, message.stored_ms, message.flag) == (1, 2, 0)
        assert (message.tag, message.keys, message.message_id) == ("t", ("k", "l"), "id")
        assert (message.properties["color"], message.body) == ("red", b"body")
        assert repr(message) == "<message T/0@7 id>"

    stage(work)


def test_a_message_that_says_nothing_of_itself_is_a_message_all_the_same(stage):
    async def work(stage):
        play_queue(stage, pulled(1, record(0)))
        async with stage.consumer() as consumer:
            message = await anext(consumer)
        assert (message.tag, message.keys, message.message_id, message.attempt) == (None, (), "", 1)

    stage(work)


def test_of_tags_with_one_hash_only_the_wanted_one_is_delivered(node):
    async def work(node):
        await node.make_topic("T", 1)
        await send(node, b"other", tag="BB")
        await send(node, b"wanted", tag="Aa")
        async with node.consumer({"T": "Aa"}) as consumer:
            assert await bodies(consumer, 2) == [b"wanted"]
            await asyncio.sleep(6)
            assert await committed(node) == 2

    node(work)


def test_a_pull_says_what_is_wanted_and_how_long_it_may_be_held(stage):
    async def work(stage):
        broker = play_queue(stage)
        async with stage.consumer(pull_batch=7, subscribe={"T": "a"}):
            await asyncio.sleep(1)
        pull = next(one for one in broker.of(PULL) if one.fields["topic"] == "T")
        pull.fields.pop("subVersion")
        assert pull.fields == {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "7",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "15000",
            "subscription": "a",
            "expressionType": "TAG",
        }

    stage(work)


def test_a_silent_broker_is_pulled_from_again_after_thirty_seconds_and_a_pause(stage):
    async def work(stage):
        broker = play_queue(stage)
        async with stage.consumer():
            await asyncio.sleep(80)
        pulls = [
            at
            for at, one in zip(broker.times, broker.asked, strict=True)
            if one.code == PULL and (one.fields["topic"], one.fields["queueId"]) == ("T", "0")
        ]
        assert [round(at - pulls[0]) for at in pulls] == [0, 31, 62]

    stage(work)


@pytest.mark.parametrize(
    "bad",
    [
        reply(1, remark="a bug"),
        reply(0, b"no record", nextBeginOffset=5),
        reply(0, b"\0\0\0\x10garbage", **pulled(5).fields),
        pulled(5, record(0)[:-1]),
    ],
    ids=["refused", "a field is missing", "garbage", "cut off"],
)
def test_an_answer_that_cannot_be_used_is_asked_for_again_after_a_second(stage, bad):
    async def work(stage):
        broker = play_queue(stage, bad, pulled(1, record(0, b"good")))
        async with stage.consumer() as consumer:
            await asyncio.sleep(0.5)
            assert pulls_of(broker) == [0]
            assert await bodies(consumer, 1) == [b"good"]
            await asyncio.sleep(0.1)
            assert pulls_of(broker) == [0, 0, 1]

    stage(work)


@pytest.mark.parametrize("code", [19, 20])
def test_an_answer_without_messages_says_where_to_go_on(stage, code):
    async def work(stage):
        broker = play_queue(stage, pulled(5, code=code), pulled(9, code=code))
        async with stage.consumer():
            await asyncio.sleep(0.5)
            assert pulls_of(broker) == [0, 5, 9]

    stage(work)


def test_a_queue_that_was_moved_is_gone_on_with_where_the_broker_says(stage):
    async def work(stage):
        two = pulled(2, record(0), record(1))
        moved = pulled(50, code=21)
        broker = play_queue(stage, two, moved, pulled(52, record(50), record(51)))
        async with stage.consumer(buffer_messages=3) as consumer:
            await asyncio.sleep(1)
            # What came before is not counted any more: there is room for what comes now.
            assert pulls_of(broker) == [0, 2, 50, 52]
            await asyncio.sleep(5)
            assert [one.fields["commitOffset"] for one in done(broker)][-1] == "50"
            assert len(await bodies(consumer, 9)) == 4

    stage(work)


def test_records_before_the_offset_that_was_asked_for_are_not_delivered(stage):
    async def work(stage):
        again = pulled(3, record(1, b"old"), record(2, b"new"))
        play_queue(stage, pulled(2, record(0, b"a"), record(1, b"b")), again)
        async with stage.consumer() as consumer:
            assert await bodies(consumer, 9) == [b"a", b"b", b"new"]

    stage(work)


def test_a_pull_goes_to_the_broker_that_was_suggested_if_it_is_there(stage):
    async def work(stage):
        master, slave = stage.brokers.values()
        both = {0: str(master.address), 1: str(slave.address)}
        named = route(master, queues=1)
        broker = named.broker_datas[0].but(broker_addrs=both)
        stage.routes["T"] = named.but(broker_datas=[broker])
        play_pulls(slave, pulled(2, record(1), suggested=0))
        play_pulls(master, pulled(1, record(0), suggested=1), pulled(3, record(2), suggested=9))
        async with stage.consumer() as consumer:
            await bodies(consumer, 3)
            await asyncio.sleep(0.1)
            assert (pulls_of(master), pulls_of(slave)) == ([0, 2, 3], [1])

    stage(work, brokers=2)


@pytest.mark.parametrize(
    ("limits", "offsets"),
    [
        ({"buffer_messages": 10, "pull_batch": 5}, [0, 5]),
        ({"buffer_messages": 11, "pull_batch": 5}, [0, 5, 10]),
        ({"buffer_bytes": 2_000, "pull_batch": 1}, [0, 1]),
        ({"buffer_bytes": 1, "pull_batch": 4}, [0]),
        ({}, [0, 32, 40]),
    ],
)
def test_no_more_is_pulled_than_the_buffer_takes_until_something_is_done(node, limits, offsets):
    async def work(node):
        await node.make_topic("T", 1)
        await send(node, *[bytes(1000)] * 40)
        async with node.consumer({"T": "*"}, **limits) as consumer:
            await asyncio.sleep(1)
            pulls = [one for one in node.client_network.of(PULL) if one.fields["topic"] == "T"]
            assert [int(one.fields["queueOffset"]) for one in pulls] == offsets
            assert len(await bodies(consumer, 40)) == 40

    node(work)


def test_the_buffer_takes_no_more_after_a_hundred_messages_than_at_first(node):
    async def work(node):
        await node.fill("T", 100)
        async with node.consumer({"T": "*"}, buffer_messages=10, pull_batch=1) as consumer:
            for done_before in range(80):
                await anext(consumer)
                await asyncio.sleep(0.1)
                pulls = [one for one in node.client_network.of(PULL) if one.fields["topic"] == "T"]
                assert int(pulls[-1].fields["queueOffset"]) == done_before + 9

    node(work)
