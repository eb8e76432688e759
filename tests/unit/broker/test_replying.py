"""When sends are answered: in the order of the log, each once, late, and when the disk fails."""

import asyncio
import random

import pytest

from cometmq.message import encode_batch, offset_id, properties
from cometmq.protocol import Command, SendAnswer
from cometmq.runtime import CometError
from cometmq.testing import ForgetfulDisk
from tests.unit.broker.conftest import connect, sending, wire

WITH_ID = {"UNIQ_KEY": "U" * 32}
TWO = encode_batch([(0, b"one", properties.encode(WITH_ID)), (0, b"two", b"")])
EITHER = pytest.mark.parametrize(
    "what", [{"properties": WITH_ID}, {"body": TWO, "batch": True}], ids=["message", "batch"]
)


@pytest.fixture
def disk():
    return ForgetfulDisk(random.Random(1))


def now():
    return asyncio.get_running_loop().time()


def start(work):
    return asyncio.ensure_future(work)


async def promised(asker):
    """A topic that is there already, so that what comes next concerns the log alone."""
    assert (await asker.send()).code == 0
    await asker.stored()


def test_sends_of_all_kinds_in_one_read_are_each_answered_in_the_order_of_the_log(broker):
    kinds = [
        {"properties": WITH_ID},
        {"properties": {**WITH_ID, "TAGS": "t"}},
        {"properties": {"color": "red"}},
        {"properties": WITH_ID, "queue_id": 99},
        {"properties": {**WITH_ID, "CLUSTER": "mine"}},
        {"properties": WITH_ID},
        {"batch": True},
        {"properties": {**WITH_ID, "DELAY": "1"}},
    ]

    async def work(asker):
        await promised(asker)
        sends = []
        for n in range(10):
            for number, kind in enumerate(kinds):
                one = b"%d" % (n * len(kinds) + number)
                body = encode_batch([(0, one, b"")]) if "batch" in kind else one
                sends.append(start(asker.send(body=body, **kind)))
        answers = [await one for one in sends]
        assert [one.code for one in answers] == [0, 0, 0, 29, 0, 0, 0, 13] * 10
        taken = [n for n, one in enumerate(answers) if one.code == 0]
        offsets = [SendAnswer.read(answers[n].fields).queue_offset for n in taken]
        assert offsets == list(range(1, len(taken) + 1))
        assert [one.body for one in (await asker.stored())[1:]] == [b"%d" % n for n in taken]

    broker(work)


def test_what_one_read_brought_is_answered_in_its_order(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 0.5
        answered = []
        for n in range(12):
            given = WITH_ID if n % 2 else {"color": "red"}
            start(asker.send(properties=given)).add_done_callback(lambda _, n=n: answered.append(n))
        await asyncio.sleep(3)
        assert answered == list(range(12))

    broker(work, disk=disk)


@EITHER
def test_a_send_that_is_not_synced_in_time_is_told_so_once_and_where_it_is(broker, disk, what):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 20.0
        began = now()
        first = start(asker.send(**what))
        await asyncio.sleep(0.5)
        second = start(asker.send(**what))
        late = await first
        assert now() - began == pytest.approx(5, abs=0.1)
        assert late.code == 10
        assert (await second).code == 10
        assert now() - began == pytest.approx(5.5, abs=0.1)
        told = SendAnswer.read(late.fields)
        disk.sync_s = 0.0
        await asyncio.sleep(60)
        stored = [one for one in await asker.stored() if one.queue_offset >= told.queue_offset]
        places = [offset_id(one.store_host, one.position) for one in stored]
        assert told.msg_id.split(",") == places[: len(places) // 2]

    broker(work, disk=disk)


def test_the_time_that_a_sync_may_take_is_a_setting(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 20.0
        began = now()
        assert (await asker.send()).code == 10
        assert now() - began == pytest.approx(2, abs=0.1)

    broker(work, disk=disk, store={"sync_flush_timeout": 2_000})


def test_who_does_not_wait_for_the_disk_is_answered_before_it(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 3.0
        began = now()
        waits = start(asker.send(properties=WITH_ID))
        await asyncio.sleep(0)
        answer = await asker.send(properties={**WITH_ID, "WAIT": "false"})
        assert (answer.code, SendAnswer.read(answer.fields).queue_offset) == (0, 2)
        assert now() - began < 0.1
        assert (await waits).code == 0
        assert now() - began >= 3

    broker(work, disk=disk)


@EITHER
def test_a_send_whose_sync_fails_is_stored_and_not_promised(broker, disk, what):
    async def work(asker):
        await promised(asker)
        disk.fail_once("sync", "commitlog/")
        answer = await asker.send(**what)
        assert answer.code == 10
        assert "the commit log could not be synced" in answer.remark
        assert SendAnswer.read(answer.fields).queue_offset == 1

    broker(work, disk=disk)


@EITHER
def test_a_send_that_could_not_be_written_is_told_that_it_is_not_stored(broker, disk, what):
    async def work(asker):
        await promised(asker)
        disk.fail_once("pwrite", "commitlog/")
        answer = await asker.send(**what)
        assert answer.code == 14
        assert "the commit log could not be written" in answer.remark
        assert "msgId" not in answer.fields
        assert len(await asker.stored()) == 1

    broker(work, disk=disk)


@EITHER
def test_a_store_that_takes_nothing_more_says_why(broker, disk, what):
    async def work(asker):
        await promised(asker)
        disk.fail_once("sync", "commitlog/")
        assert (await asker.send()).code == 10
        answer = await asker.send(**what)
        assert answer.code == 14
        assert answer.remark.startswith("the store is read-only: the commit log could not be")

    broker(work, disk=disk)


def test_what_was_answered_or_refused_is_in_flight_no_more(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 8.0
        assert (await asker.send(body=bytes(6_000))).code == 10
        disk.sync_s = 0.0
        await asyncio.sleep(20)
        for _ in range(20):
            assert (await asker.send(body=bytes(6_000))).code == 0

    broker(work, disk=disk, broker={"max_bytes_in_flight": 10_000})


@pytest.mark.parametrize(
    "what",
    [
        {"properties": WITH_ID},
        {"properties": {"color": "red"}},
        {"body": TWO, "batch": True},
        {"queue_id": 99},
        {"body": b"", "batch": True},
    ],
)
def test_a_send_that_asks_for_no_answer_gets_none(broker, what):
    async def work(asker):
        await promised(asker)
        header, body = sending(**{"topic": "T", "body": b"body", **what})
        mute = await wire(asker.node)
        mute.write(Command.request(header, body).oneway().write())
        mute.write(Command.request(*sending("T", b"last", properties=WITH_ID)).write())
        await asyncio.sleep(1)
        assert [one.code for one in mute.heard] == [0]

    broker(work)


def test_a_broker_that_stops_acknowledges_nothing_that_comes_then(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 3.0
        before = start(asker.send(body=b"before"))
        await asyncio.sleep(0.5)
        stopping = start(asker.node.close())
        await asyncio.sleep(1)
        after = start(asker.send(body=b"after"))
        await stopping
        assert (await before).code == 0
        with pytest.raises(CometError, match="ended"):
            await after

    async def look(asker):
        assert [one.body for one in await asker.stored()] == [b"body", b"before"]

    broker(work, disk=disk)
    broker(look, disk=disk.after_kill())


def test_another_connections_sends_go_on_while_one_has_ended(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 1.0
        other = await connect(asker.node)
        gone = start(other.send(body=b"gone"))
        stays = start(asker.send(body=b"stays"))
        await asyncio.sleep(0.2)
        other.channel.close()
        assert (await stays).code == 0
        with pytest.raises(CometError):
            await gone

    broker(work, disk=disk)


@pytest.mark.spec("STO-15")
def test_a_write_that_fails_answers_nobody_whose_sync_is_still_running(broker, disk):
    async def work(asker):
        await promised(asker)
        disk.sync_s = 1.0
        before = start(asker.send(body=b"before"))
        await asyncio.sleep(0.3)
        disk.fail_once("pwrite", "commitlog")
        assert (await asker.send(body=b"not written")).code == 14
        assert not before.done()
        assert (await before).code == 0
        assert [one.body for one in await asker.stored()][-1:] == [b"before"]

    broker(work, disk=disk)
