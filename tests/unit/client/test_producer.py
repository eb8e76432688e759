"""Producers: which queue gets a message, what is tried again and for how long, what is said."""

import asyncio

import pytest

from cometmq.client import (
    BrokerRefused,
    MessageQueue,
    NoRoute,
    NotConfirmed,
    NotRunning,
    Producer,
    SendFailed,
)
from cometmq.message import BadMessage, Message, properties
from cometmq.protocol import SendMessageV2
from cometmq.runtime import BadSetting
from tests.unit.client.conftest import SENDS, now, reply, route, stored

HI = Message("T", b"hi")
SEND = SendMessageV2.code


def all_say(stage, code):
    for broker in stage.brokers.values():
        broker.says |= dict.fromkeys(SENDS, lambda asked: code)


def first_says(stage, *codes):
    """Whoever is asked first answers with these codes, and then takes all."""
    left = list(codes)

    def say(asked):
        return left.pop(0) if left else stored(asked)

    for broker in stage.brokers.values():
        broker.says |= dict.fromkeys(SENDS, say)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"group": ""}, BadMessage, "the specified group is blank"),
        ({"group": "a b"}, BadMessage, "illegal characters"),
        ({"group": "x" * 256}, BadMessage, "longer than group max length"),
        ({"namesrv": ""}, BadSetting, "no name server is given"),
        ({"namesrv": ";"}, BadSetting, "no name server is given"),
        ({"namesrv": "nowhere"}, BadSetting, "name servers 'nowhere': expected HOST:PORT"),
    ],
)
def test_a_producer_that_cannot_work_is_not_made(given, error, text):
    with pytest.raises(error, match=text):
        Producer(**{"namesrv": "127.0.0.1:1", "group": "p", **given})


def test_a_producer_works_inside_its_block_only(stage):
    async def work(stage):
        producer = stage.producer()
        with pytest.raises(NotRunning, match="the producer is not running"):
            await producer.send(HI)
        async with producer:
            await producer.send(HI)
        with pytest.raises(NotRunning):
            await producer.send_oneway(HI)

    stage(work)


@pytest.mark.parametrize("brokers", [1, 2])
def test_messages_go_round_all_queues_of_their_topic(stage, brokers):
    async def work(stage):
        stage.routes["U"] = stage.routes["T"]
        async with stage.producer() as producer:
            for _ in range(8 * brokers):
                await producer.send(HI)
                await producer.send(Message("U", b"hi"))
        for sent in (stage.sent()[::2], stage.sent()[1::2]):
            round_ = sent[: 4 * brokers]
            assert sorted(round_) == [(name, n) for name in stage.brokers for n in range(4)]
            assert sent == round_ * 2

    stage(work, brokers=brokers)


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205])
def test_what_may_go_better_elsewhere_is_tried_at_the_other_broker(stage, code):
    async def work(stage):
        first_says(stage, code)
        async with stage.producer() as producer:
            receipt = await producer.send(HI)
        (one, _), (other, queue) = stage.sent()
        assert one != other
        assert (receipt.broker, receipt.queue_id) == (other, queue)

    stage(work, brokers=2)


@pytest.mark.parametrize("code", [3, 13, 15, 18, 26, 29, 206])
def test_what_goes_no_better_elsewhere_is_said_at_once(stage, code):
    async def work(stage):
        all_say(stage, code)
        async with stage.producer() as producer:
            with pytest.raises(BrokerRefused, match=f"refused with code {code}: so") as refused:
                await producer.send(HI)
        assert (refused.value.code, refused.value.remark) == (code, "so")
        [(broker, queue)] = stage.sent()
        where = f"send to 'T', queue {queue}: {broker} at {stage.brokers[broker].address}"
        assert where in str(refused.value)

    stage(work, brokers=2)


def test_a_refusal_without_a_reason_says_that(stage):
    async def work(stage):
        all_say(stage, reply(13, remark=""))
        async with stage.producer() as producer:
            with pytest.raises(BrokerRefused, match="refused with code 13: no remark"):
                await producer.send(HI)

    stage(work)


@pytest.mark.parametrize(
    ("code", "text"),
    [(10, "it is not on the disk yet"), (11, "no slave is there"), (12, "no slave has taken it")],
)
def test_what_is_stored_less_surely_than_promised_is_said_and_not_sent_again(stage, code, text):
    async def work(stage):
        def say(asked):
            return reply(code, **stored(asked).fields)

        for broker in stage.brokers.values():
            broker.says[SEND] = say
        async with stage.producer() as producer:
            with pytest.raises(NotConfirmed, match=text) as unsure:
                await producer.send(HI)
        [(broker, queue)] = stage.sent()
        receipt = unsure.value.receipt
        assert (unsure.value.code, receipt.broker, receipt.queue_id) == (code, broker, queue)
        assert receipt.queue_offset == 7

    stage(work, brokers=2)


@pytest.mark.parametrize(("tries", "asked"), [(1, 1), (2, 2), (3, 3), (5, 5), (0, 1)])
def test_a_send_is_tried_as_often_as_was_asked_for(stage, tries, asked):
    async def work(stage):
        all_say(stage, 1)
        async with stage.producer(tries=tries) as producer:
            with pytest.raises(SendFailed, match=rf"Send \[{asked}\] times") as failed:
                await producer.send(HI)
        assert len(stage.sent()) == asked
        assert failed.value.code == 1
        assert str(failed.value).endswith("see what each broker said")

    stage(work)


def test_three_tries_in_three_seconds_are_what_a_send_gets_by_itself(stage):
    async def work(stage):
        async with stage.producer() as producer:
            await producer.send(HI)
            all_say(stage, 1)
            with pytest.raises(SendFailed, match=r"Send \[3\] times"):
                await producer.send(HI)
            all_say(stage, None)
            began = now()
            with pytest.raises(SendFailed, match="did not answer in time"):
                await producer.send(HI)
            assert now() - began == pytest.approx(3, abs=0.1)

    stage(work)


def test_a_message_for_a_certain_queue_is_tried_there_and_once(stage):
    async def work(stage):
        queue = MessageQueue("T", next(iter(stage.brokers)), 2)
        async with stage.producer() as producer:
            receipt = await producer.send(HI, queue=queue)
            assert (receipt.broker, receipt.queue_id) == (queue.broker, 2)
            await producer.send_oneway(HI, queue=queue)
            all_say(stage, 1)
            with pytest.raises(SendFailed, match=r"Send \[1\] times"):
                await producer.send(HI, queue=queue)
            with pytest.raises(BadMessage, match="message's topic not equal mq's topic"):
                await producer.send(Message("U", b"hi"), queue=queue)
        assert stage.sent() == [(queue.broker, 2)] * 3

    stage(work, brokers=2)


def test_a_silent_broker_does_not_get_the_time_of_the_next_one(stage):
    async def work(stage):
        first_says(stage, None)
        async with stage.producer() as producer:
            began = now()
            await producer.send(HI)
            assert now() - began == pytest.approx(1, abs=0.1)
        (one, _), (other, _) = stage.sent()
        assert one != other

    stage(work, brokers=2)


@pytest.mark.parametrize(("given", "waits_s"), [({}, 3), ({"timeout_ms": 500}, 0.5)])
def test_the_only_broker_gets_all_the_time(stage, given, waits_s):
    async def work(stage):
        async with stage.producer() as producer:
            await producer.send(HI)
            all_say(stage, None)
            began = now()
            with pytest.raises(SendFailed, match=r"Send \[1\] times") as failed:
                await producer.send(HI, **given)
            assert now() - began == pytest.approx(waits_s, abs=0.01)
            assert f"cost [{waits_s * 1000:.0f}]ms, Topic: T" in str(failed.value)

    stage(work)


def test_the_time_of_a_producers_sends_is_a_setting(stage):
    async def work(stage):
        all_say(stage, None)
        async with stage.producer(timeout_ms=700) as producer:
            began = now()
            with pytest.raises(SendFailed):
                await producer.send(HI)
            assert now() - began == pytest.approx(0.7, abs=0.01)

    stage(work)


@pytest.mark.parametrize(
    ("given", "size", "compressed"),
    [
        ({}, 4095, False),
        ({}, 4096, True),
        ({"compress_above": 10}, 9, False),
        ({"compress_above": 10}, 10, True),
    ],
)
def test_large_bodies_travel_compressed(stage, given, size, compressed):
    async def work(stage):
        async with stage.producer(**given) as producer:
            await producer.send(Message("T", bytes(size)))
        [sent] = stage.brokers["broker-2"].of(SEND)
        assert (sent.body != bytes(size)) is compressed
        assert bool(int(sent.fields["f"]) & 1) is compressed

    stage(work)


def test_a_list_travels_as_one_batch(stage):
    async def work(stage):
        async with stage.producer() as producer:
            pair = [Message("T", b"a" * 5000), Message("T", b"b")]
            receipt = await producer.send(pair)
            await producer.send(HI)
        batch, one = stage.brokers["broker-2"].of(*SENDS)
        assert (batch.code, batch.fields["m"]) == (320, "true")
        assert (one.code, one.fields["m"]) == (310, "false")
        assert properties.parse(batch.fields["i"].encode()) == {"WAIT": "true"}
        assert b"a" * 5000 in batch.body
        assert len(set(receipt.message_id.split(","))) == 2

    stage(work)


@pytest.mark.parametrize("waits", [True, False])
def test_a_batch_waits_for_the_disk_as_its_messages_do(stage, waits):
    async def work(stage):
        async with stage.producer() as producer:
            await producer.send([Message("T", b"a", wait_stored=waits)])
        [batch] = stage.brokers["broker-2"].of(*SENDS)
        said = properties.parse(batch.fields["i"].encode())
        assert said == {"WAIT": "true" if waits else "false"}

    stage(work)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "a batch needs at least one message"),
        ([HI, Message("U", b"x")], "The topic of the messages in one batch should be the same"),
        ([HI, Message("T", b"x", wait_stored=False)], "waitStoreMsgOK"),
        ([Message("T", bytes(3 << 20)), Message("T", bytes(3 << 20))], "over max value"),
        (Message("T", b""), "the message body length is zero"),
        (Message("T", bytes((4 << 20) + 1)), "over max value"),
        (Message("SELF_TEST_TOPIC", b"x"), "is forbidden"),
    ],
)
@pytest.mark.parametrize("how", ["send", "send_oneway"])
def test_what_brokers_would_refuse_does_not_travel(stage, given, text, how):
    async def work(stage):
        async with stage.producer() as producer:
            with pytest.raises(BadMessage, match=text):
                await getattr(producer, how)(given)
        assert stage.names[0].asked == []

    stage(work)


def test_a_message_says_who_sends_it_when_and_how_its_topic_would_be_made(stage):
    async def work(stage):
        async with stage.producer(group="shop") as producer:
            await asyncio.sleep(100)
            await producer.send(Message("T", b"hi", tag="t", keys=["k"], flag=9))
        [sent] = stage.brokers["broker-2"].of(SEND)
        said = {name: sent.fields[name] for name in "abcdfhn"}
        assert said == {
            "a": "shop",
            "b": "T",
            "c": "TBW102",
            "d": "4",
            "f": "0",
            "h": "9",
            "n": "broker-2",
        }
        loop = asyncio.get_running_loop()
        assert int(sent.fields["g"]) == pytest.approx(loop.wall_time() * 1000, abs=100)
        pairs = properties.parse(sent.fields["i"].encode())
        assert pairs | {"UNIQ_KEY": ""} == {
            "TAGS": "t",
            "KEYS": "k",
            "WAIT": "true",
            "UNIQ_KEY": "",
        }

    stage(work)


def test_a_message_that_is_tried_again_has_the_same_id(stage):
    async def work(stage):
        first_says(stage, 1, 1)
        async with stage.producer() as producer:
            receipt = await producer.send(HI)
        sent = stage.brokers["broker-2"].of(SEND)
        ids = [properties.parse(one.fields["i"].encode())["UNIQ_KEY"] for one in sent]
        assert ids == [receipt.message_id] * 3

    stage(work)


def test_a_message_without_answer_is_sent_once_and_not_waited_for(stage):
    async def work(stage):
        all_say(stage, None)
        async with stage.producer() as producer:
            await producer.send_oneway(HI)
            await producer.send_oneway([HI, HI])
            began = now()
        await asyncio.sleep(5)
        sent = stage.brokers["broker-2"].of(*SENDS)
        assert [(one.code, one.is_oneway) for one in sent] == [(310, True), (320, True)]
        assert now() - began < 5.1

    stage(work)


@pytest.mark.parametrize(("perm", "queues"), [(6, 4), (2, 4), (4, 0), (5, 0), (1, 0)])
def test_only_queues_that_may_be_written_get_messages(stage, perm, queues):
    async def work(stage):
        stage.routes["T"] = route(*stage.brokers.values(), perm=perm)
        async with stage.producer() as producer:
            if queues:
                await producer.send(HI)
            else:
                with pytest.raises(NoRoute, match="none of them may be written to"):
                    await producer.send(HI)

    stage(work)


def test_a_broker_without_master_gets_no_messages(stage):
    async def work(stage):
        one, other = stage.brokers.values()
        slave, master = route(one, number=1), route(other)
        both = master.but(
            broker_datas=slave.broker_datas + master.broker_datas,
            queue_datas=slave.queue_datas + master.queue_datas,
        )
        stage.routes["T"] = both
        async with stage.producer() as producer:
            for _ in range(8):
                assert (await producer.send(HI)).broker == "broker-3"

    stage(work, brokers=2)


@pytest.mark.parametrize(("template", "queues"), [(8, 4), (4, 4), (2, 2)])
def test_a_new_topic_is_sent_to_where_its_template_is(stage, template, queues):
    async def work(stage):
        stage.routes["TBW102"] = route(*stage.brokers.values(), queues=template, perm=7)
        async with stage.producer() as producer:
            for _ in range(16):
                await producer.send(Message("New", b"x"))
        assert {queue for _, queue in stage.sent()} == set(range(queues))

    stage(work)


def test_a_topic_that_nobody_has_or_makes_is_no_route(stage):
    async def work(stage):
        async with stage.producer() as producer:
            for how in (producer.send, producer.send_oneway):
                with pytest.raises(NoRoute, match="no route for topic 'New': name server") as no:
                    await how(Message("New", b"x"))
                assert "mqadmin updateTopic" in str(no.value)

    stage(work)


def test_a_broker_that_has_moved_is_found_at_the_next_try(stage):
    async def work(stage):
        old, new = stage.brokers.values()
        stage.routes["T"] = route(old)
        async with stage.producer() as producer:
            await producer.send(HI)
            old.close()
            stage.routes["T"] = route(new)
            assert (await producer.send(HI)).broker == "broker-3"

    stage(work, brokers=2)
