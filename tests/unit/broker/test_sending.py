"""Sends as a broker takes them: what is stored, what is refused, and with which words."""

import asyncio
import re

import pytest

from cometmq.kernel import headers
from cometmq.message import encode_batch, offset_id, properties
from cometmq.protocol import (
    Command,
    GetTopicConfig,
    SendAnswer,
    TopicConfig,
    TopicFilterType,
    UpdateAndCreateTopic,
)
from tests.kernels import encode
from tests.unit.broker.conftest import sending


def test_a_message_is_stored_as_it_was_sent_with_what_the_broker_adds(broker):
    async def work(asker):
        told = SendAnswer.read(
            (
                await asker.send(
                    properties={"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U" * 32, "color": "red"},
                    message_flag=7,
                )
            ).fields
        )
        [record] = await asker.stored()
        assert (record.body, record.flag, record.born_ms) == (b"body", 7, 1_700_000_000_000)
        stored = properties.parse(record.properties)
        assert stored == {
            "TAGS": "a",
            "KEYS": "k",
            "UNIQ_KEY": "U" * 32,
            "color": "red",
            "MSG_REGION": "DefaultRegion",
            "CLUSTER": "DefaultCluster",
            "TRACE_ON": "true",
        }
        assert told.msg_id == offset_id(record.store_host, record.position)
        assert (told.queue_id, told.queue_offset, told.transaction_id) == (0, 0, "U" * 32)
        assert (told.region, told.trace_on) == ("DefaultRegion", True)

    broker(work)


@pytest.mark.spec("PR51")
def test_a_message_without_an_id_gets_one(broker):
    async def work(asker):
        await asker.send(properties={"color": "red"})
        await asker.send(properties="color\x01red")
        for record in await asker.stored():
            stored = properties.parse(record.properties)
            assert len(stored["UNIQ_KEY"]) == 32
            assert stored["color"] == "red"

    broker(work)


@pytest.mark.spec("PR38")
def test_the_brokers_own_properties_win_over_the_clients(broker):
    async def work(asker):
        sent = {"CLUSTER": "mine", "TRACE_ON": "false", "POP_CK": "x", "__RMQ.TRANSIENT.a": "b"}
        await asker.send(properties=sent)
        [record] = await asker.stored()
        stored = properties.parse(record.properties)
        assert stored["CLUSTER"] == "DefaultCluster"
        assert stored["TRACE_ON"] == "true"
        assert "POP_CK" not in stored
        assert "__RMQ.TRANSIENT.a" not in stored

    broker(work)


@pytest.mark.spec("RN14")
def test_the_long_and_the_short_header_store_equal_messages(broker):
    async def work(asker):
        for short in (False, True):
            await asker.send(short=short, properties={"TAGS": "t", "UNIQ_KEY": "U" * 32})
        one, other = await asker.stored()
        for name in ("body", "flag", "sys_flag", "born_ms", "properties", "reconsume_times"):
            assert getattr(one, name) == getattr(other, name)

    broker(work)


@pytest.mark.spec("PR36")
@pytest.mark.parametrize(("wanted", "queues"), [(4, 4), (16, 8), (1, 1)])
def test_an_unknown_topic_is_made_from_the_template(broker, wanted, queues):
    async def work(asker):
        answer = await asker.send("New", default_topic_queues=wanted)
        assert answer.code == 0
        config = TopicConfig.read((await asker.ask(GetTopicConfig("New"))).body)
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (queues, queues, 6)

    broker(work)


def test_without_automatic_creation_an_unknown_topic_is_17(broker):
    async def work(asker):
        answer = await asker.send("New")
        assert answer.code == 17
        assert answer.remark.startswith("topic[New] not exist, apply first please!\nSee https://")
        assert answer.fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}

    broker(work, broker={"auto_create_topic_enable": False})


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"topic": "a b"}, 29, "contains illegal characters"),
        ({"topic": "x" * 128}, 29, "longer than topic max length"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16, "is forbidden"),
        ({"body": b""}, 13, "the message is illegal"),
        ({"body": bytes(4097)}, 13, "msg body length limit 4096B"),
        ({"properties": {"a": "x" * 32760}}, 13, "the message is illegal"),
        ({"queue_id": 99}, 29, "request queueId[99] is illegal"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_code(broker, fields, code, text):
    async def work(asker):
        answer = await asker.send(**fields)
        assert answer.code == code
        assert text in answer.remark
        assert answer.fields["TRACE_ON"] == "true"

    broker(work, store={"max_message_size": 4096})


@pytest.mark.spec("STO-10", "STO-12")
@pytest.mark.parametrize(
    "fields",
    [
        {"properties": {"DELAY": "3"}},
        {"properties": {"TIMER_DELAY_SEC": "1"}},
        {"properties": {"TIMER_DELAY_MS": "1"}},
        {"properties": {"TIMER_DELIVER_MS": "1"}},
        {"properties": {"TRAN_MSG": "true"}},
        {"properties": {"INNER_NUM": "2"}},
        {"sys_flag": 0x4},
        {"sys_flag": 0x8},
        {"sys_flag": 0x40},
        {"sys_flag": 0x80},
    ],
)
def test_what_is_not_built_yet_is_never_stored_as_something_else(broker, fields):
    async def work(asker):
        answer = await asker.send(**fields)
        assert (answer.code, "not built yet" in answer.remark) == (13, True)
        member = (0, b"x", properties.encode(fields.get("properties", {})))
        body = encode_batch([(0, b"fine", b""), member])
        batch = await asker.send(body=body, batch=True, sys_flag=fields.get("sys_flag", 0))
        assert batch.code == 13
        assert await asker.stored() == []

    broker(work)


def test_a_negative_delay_level_is_no_delay(broker):
    async def work(asker):
        assert (await asker.send(properties={"DELAY": "0"})).code == 0
        assert (await asker.send(properties={"TRAN_MSG": "false"})).code == 0

    broker(work)


@pytest.mark.spec("PR37")
def test_a_negative_queue_is_one_of_them_by_chance(broker):
    async def work(asker):
        queues = set()
        for _ in range(40):
            queues.add(SendAnswer.read((await asker.send(queue_id=-1)).fields).queue_id)
        assert queues == {0, 1, 2, 3}

    broker(work)


@pytest.mark.spec("RN15", "PR33")
@pytest.mark.parametrize("code", [310, 320])
def test_a_batch_is_stored_as_its_members_side_by_side(broker, code):
    async def work(asker):
        await asker.send()
        members = [
            (n, b"member %d" % n, properties.encode({"UNIQ_KEY": f"{n}" * 32, "TAGS": "t"}))
            for n in range(3)
        ]
        header, body = sending("T", encode_batch(members), batch=True)
        answer = await asker.ask(header, body, code=code)
        told = SendAnswer.read(answer.fields)
        stored = (await asker.stored())[1:]
        assert [one.body for one in stored] == [b"member 0", b"member 1", b"member 2"]
        assert [one.queue_offset for one in stored] == [1, 2, 3]
        assert [one.flag for one in stored] == [0, 1, 2]
        assert told.queue_offset == 1
        assert told.msg_id.split(",") == [offset_id(one.store_host, one.position) for one in stored]

    broker(work)


@pytest.mark.spec("PR56")
def test_every_member_keeps_its_own_id_and_gets_what_the_batch_says(broker):
    async def work(asker):
        member = (0, b"x", properties.encode({"UNIQ_KEY": "M" * 32}))
        body = encode_batch([member, (0, b"y", b"")])
        await asker.send(
            body=body, batch=True, properties={"UNIQ_KEY": "B" * 32, "WAIT": "true", "by": "batch"}
        )
        one, other = (properties.parse(record.properties) for record in await asker.stored())
        assert (one["UNIQ_KEY"], one["by"]) == ("M" * 32, "batch")
        assert (other["UNIQ_KEY"], other["by"]) == ("B" * 32, "batch")

    broker(work)


def test_code_320_without_the_batch_field_is_one_message(broker):
    async def work(asker):
        body = encode_batch([(0, b"x", b"")])
        header, body = sending("T", body)
        assert (await asker.ask(header, body, code=320)).code == 0
        assert [one.body for one in await asker.stored()] == [body]

    broker(work)


def test_a_batch_that_cannot_be_read_is_refused_whole(broker):
    async def work(asker):
        answer = await asker.send(body=b"\x00\x00\x00\x10garbage", batch=True)
        assert answer.code == 1
        assert "the batch cannot be read" in answer.remark
        assert await asker.stored() == []

    broker(work)


def test_a_batch_for_a_retry_topic_is_refused(broker):
    async def work(asker):
        answer = await asker.send("%RETRY%g", encode_batch([(0, b"x", b"")]), batch=True)
        assert answer.code == 13
        assert answer.remark == "batch request does not support retry group %RETRY%g"

    broker(work)


@pytest.mark.spec("PR55")
def test_sends_of_one_connection_are_stored_in_their_order(broker):
    async def work(asker):
        sends = [
            asyncio.ensure_future(asker.send("New", b"%d" % n, queue_id=0)) for n in range(300)
        ]
        for one in sends:
            assert (await one).code == 0
        assert [one.body for one in await asker.stored("New")] == [b"%d" % n for n in range(300)]

    broker(work)


def test_both_lanes_give_the_same_answers_and_the_same_records(broker):
    """A field that the kernel does not know is what keeps a send off the fast lane."""
    props = {"TAGS": "t", "UNIQ_KEY": "U" * 32}
    shapes = [
        {"properties": props},
        {"properties": {**props, "CLUSTER": "mine"}},
        {"properties": {**props, "DELAY": "2"}},
        {"properties": props, "queue_id": 99},
        {"properties": props, "sys_flag": 4},
        {"properties": props, "body": b""},
        {"properties": props, "topic": "SELF_TEST_TOPIC"},
        {"properties": {**props, "WAIT": "false"}},
    ]

    async def work(asker, off_the_fast_lane):
        answers = []
        for shape in shapes:
            header, body = sending(**{"topic": "T", "body": b"body", **shape})
            fields = {**header.fields(), **off_the_fast_lane}
            frame = Command.request(header, body)
            frame.fields = fields
            [item], _ = headers.requests(frame.write(), 1 << 20)
            assert isinstance(item, headers.Send) is not bool(off_the_fast_lane)
            answers.append(await asker.ask(header, body, fields=fields))
        stored = await asker.stored()
        return [(one.code, one.remark, one.fields) for one in answers], [
            encode(one) for one in stored
        ]

    fast = broker(lambda asker: work(asker, {}))
    slow = broker(lambda asker: work(asker, {"unknown": "1"}))
    # Store times differ by the frames' lengths on the simulated wire; nothing else may.
    assert fast[0] == slow[0]
    assert [strip_times(one) for one in fast[1]] == [strip_times(one) for one in slow[1]]
    assert len(fast[1]) == 3


def strip_times(record: bytes) -> bytes:
    return record[:52] + record[64:]  # the born port and the store time


@pytest.mark.spec("RN57")
def test_too_much_in_flight_is_answered_busy(broker):
    async def work(asker):
        await asker.send()
        sends = [asyncio.ensure_future(asker.send(body=bytes(1000))) for _ in range(100)]
        codes = [(await one).code for one in sends]
        assert codes.count(2) > 50
        assert codes.count(0) > 5

    broker(work, broker={"max_bytes_in_flight": 10_000})


ADDED = len(
    properties.encode(
        {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    )
)
"""Bytes that the broker adds to the properties of each message."""

WITH_ID = {"UNIQ_KEY": "U" * 32}
AS_LONG_AS_CAN_BE = (
    properties.LONGEST - ADDED - 1 - len(properties.encode(WITH_ID)) - len("a\x01\x02")
)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"body": bytes(4096)}, 0),
        ({"body": bytes(4097)}, 13),
        ({"properties": {**WITH_ID, "a": "x" * AS_LONG_AS_CAN_BE}}, 0),
        ({"properties": {**WITH_ID, "a": "x" * (AS_LONG_AS_CAN_BE + 1)}}, 13),
        ({"topic": "x" * 127}, 0),
        ({"queue_id": 3}, 0),
        ({"queue_id": 4}, 29),
        ({"reconsume_times": 3, "max_reconsume_times": 3}, 0),
        ({"reconsume_times": 4, "max_reconsume_times": 3}, 13),
        ({"reconsume_times": 1, "max_reconsume_times": 0}, 13),
        ({"reconsume_times": 4, "max_reconsume_times": -1}, 0),
    ],
)
def test_the_limits_of_a_send_are_themselves_allowed(broker, fields, code):
    async def work(asker):
        assert (await asker.send(**fields)).code == code

    broker(work, store={"max_message_size": 4096})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"body": encode_batch([(0, bytes(5000), b"")])}, "the message is illegal"),
        ({"body": encode_batch([(0, b"", b"")])}, "the message is illegal"),
        ({"body": b""}, "the message is illegal"),
        ({"reconsume_times": 1, "max_reconsume_times": 0}, "dead letters are not built yet"),
        ({"properties": {"DELAY": "1"}}, "not built yet"),
        ({"queue_id": 99}, "queueId[99] is illegal"),
    ],
)
def test_a_batch_is_refused_for_what_its_members_would_be(broker, fields, text):
    async def work(asker):
        fine = encode_batch([(0, b"fine", b"")])
        answer = await asker.send(**{"body": fine, "batch": True, **fields})
        assert text in answer.remark
        assert await asker.stored() == []

    broker(work, store={"max_message_size": 4096})


def test_the_member_of_a_batch_that_is_too_large_takes_the_others_with_it(broker):
    async def work(asker):
        longest = {**WITH_ID, "a": "x" * (AS_LONG_AS_CAN_BE + 1)}
        members = [(0, b"fine", b""), (0, b"too much", properties.encode(longest))]
        assert (await asker.send(body=encode_batch(members), batch=True)).code == 13
        assert await asker.stored() == []

    broker(work)


def test_the_answer_to_a_batch_has_the_id_that_the_batch_had(broker):
    async def work(asker):
        body = encode_batch([(0, b"x", b"")])
        for given, told in ((WITH_ID, "U" * 32), ("", None)):
            answer = await asker.send(body=body, batch=True, properties=given)
            assert SendAnswer.read(answer.fields).transaction_id == told
            assert (answer.fields["TRACE_ON"], answer.fields["MSG_REGION"]) == (
                "true",
                "DefaultRegion",
            )

    broker(work)


@pytest.mark.parametrize("text", ["", "color\x01red", "color\x01red\x02"])
def test_an_id_is_put_behind_what_the_client_said(broker, text):
    async def work(asker):
        await asker.send(properties=text)
        [record] = await asker.stored()
        said = b"color\x01red\x02" if text else b""
        assert re.match(said + rb"UNIQ_KEY\x01[0-9A-F]{32}\x02MSG_REGION", record.properties)

    broker(work)


def make(topic, *, read=4, write=4, perm=6, kind=TopicFilterType.SINGLE_TAG):
    return UpdateAndCreateTopic(topic, "TBW102", read, write, perm, kind)


@pytest.mark.spec("PR37")
def test_a_send_may_name_any_queue_that_is_read_or_written_and_chance_only_those_written(broker):
    async def work(asker):
        await asker.ask(make("T", read=4, write=2))
        codes = [(await asker.send(queue_id=n)).code for n in range(5)]
        assert codes == [0, 0, 0, 0, 29]
        chosen = {
            SendAnswer.read((await asker.send(queue_id=-1)).fields).queue_id for _ in range(30)
        }
        assert chosen == {0, 1}
        await asker.ask(make("T", read=4, write=0))
        assert (await asker.send(queue_id=-1)).code == 29

    broker(work)


def test_the_queues_of_a_topic_are_those_of_its_newest_configuration(broker):
    async def work(asker):
        for queues, code in ((1, 29), (4, 0), (1, 29)):
            await asker.ask(make("T", read=queues, write=queues))
            assert (await asker.send(queue_id=3)).code == code

    broker(work)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        (TopicFilterType.SINGLE_TAG, 1, 1),
        (TopicFilterType.MULTI_TAG, 1, 3),
        (TopicFilterType.MULTI_TAG, 3, 3),
    ],
)
def test_messages_of_a_topic_with_several_tags_are_marked_so(broker, kind, given, stored, batch):
    async def work(asker):
        await asker.ask(make("T", kind=kind))
        body = encode_batch([(0, b"x", properties.encode(WITH_ID))]) if batch else b"x"
        await asker.send(body=body, batch=batch, sys_flag=given, properties=WITH_ID)
        [record] = await asker.stored()
        assert record.sys_flag & 7 == stored

    broker(work)


def test_a_retry_topic_of_a_group_that_cannot_be_is_refused(broker):
    async def work(asker):
        answer = await asker.send("%RETRY%nobody")
        assert answer.code == 26
        assert answer.remark.startswith("subscription group not exist, nobody")
        assert (await asker.send("%RETRY%SELF_TEST_C_GROUP")).code == 0  # a group of the system

    broker(work, broker={"auto_create_subscription_group": False})
