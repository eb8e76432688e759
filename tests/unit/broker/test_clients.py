"""Clients that come and go, offsets, groups and topics: what a broker remembers of them."""

import asyncio

import pytest

from cometmq.kernel import frames
from cometmq.message import host_text
from cometmq.protocol import (
    Command,
    ConsumerData,
    ConsumerIds,
    ConsumerSendMsgBack,
    GetConsumerListByGroup,
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfo,
    GetTopicConfig,
    HeartBeat,
    HeartBeatAnswer,
    HeartbeatData,
    OffsetAnswer,
    QueryConsumerOffset,
    SendAnswer,
    SubscriptionData,
    TopicConfig,
    TopicFilterType,
    TopicRouteData,
    UnregisterClient,
    UpdateAndCreateTopic,
    UpdateConsumerOffset,
    ViewMessageById,
)
from cometmq.store import MemoryDisk
from tests.unit.broker.conftest import connect, wire


def beat(me, *topics, group="g", **more):
    wanted = tuple(SubscriptionData(topic=one, sub_string="*", sub_version=1) for one in topics)
    consumer = ConsumerData(
        group_name=group, message_model="CLUSTERING", subscription_data_set=wanted
    )
    return HeartbeatData(client_id=me, consumer_data_set=(consumer,), **more).write()


async def members(asker):
    answer = await asker.ask(GetConsumerListByGroup("g"))
    return ConsumerIds.read(answer.body).consumer_id_list if answer.code == 0 else answer.remark


def test_members_are_listed_and_told_of_each_other(broker):
    async def work(one):
        assert await members(one) == "no consumer for this group, g"
        two = await connect(one.node)
        await one.ask(HeartBeat(), beat("one", "T"))
        await two.ask(HeartBeat(), beat("two", "T"))
        assert await members(one) == ["one", "two"]
        assert [command.code for command in one.heard] == [40, 40]
        assert one.heard[0].fields == {"consumerGroup": "g"}
        assert [command.code for command in two.heard] == [40]
        await two.ask(HeartBeat(), beat("two", "T"))
        assert len(two.heard) == 1  # nothing has changed

    broker(work)


def test_a_member_whose_connection_ends_is_gone_at_once(broker):
    async def work(one):
        two = await connect(one.node)
        await one.ask(HeartBeat(), beat("one", "T"))
        await two.ask(HeartBeat(), beat("two", "T"))
        two.channel.close()
        await asyncio.sleep(0.5)
        assert await members(one) == ["one"]
        assert len(one.heard) == 3

    broker(work)


def test_a_member_that_says_goodbye_is_gone(broker):
    async def work(one):
        await one.ask(HeartBeat(), beat("one", "T"))
        assert (await one.ask(UnregisterClient("whatever", consumer_group="g"))).code == 0
        assert await members(one) == "no consumer for this group, g"
        assert (await one.ask(UnregisterClient("me", consumer_group="unknown"))).code == 0

    broker(work)


@pytest.mark.spec("C34")
def test_a_silent_member_is_gone_after_two_minutes(broker):
    async def work(one):
        two = await connect(one.node)
        await two.ask(HeartBeat(), beat("two", "T"))
        for _ in range(14):
            await one.ask(HeartBeat(), beat("one", "T"))
            if two.channel.usable:
                await two.ask(GetMaxOffset("T", 0))  # traffic alone is no heartbeat
            await asyncio.sleep(10)
        assert await members(one) == ["one"]
        assert not two.channel.usable
        assert len(one.heard) == 2  # of its own coming, and of the other's going

    broker(work)


def test_a_heartbeat_makes_the_retry_topic(broker):
    async def work(asker):
        await asker.ask(HeartBeat(), beat("one", "T"))
        config = TopicConfig.read((await asker.ask(GetTopicConfig("%RETRY%g"))).body)
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)

    broker(work)


@pytest.mark.spec("RN56")
def test_heartbeats_with_a_fingerprint_are_told_when_to_send_all_again(broker):
    async def work(asker):
        async def changed(body):
            answer = await asker.ask(HeartBeat(), body)
            told = HeartBeatAnswer.read(answer.fields)
            assert told.knows_fingerprints
            return told.changed

        assert await changed(beat("one", "T"))
        assert not await changed(beat("one", "T", heartbeat_fingerprint=7))
        assert not await changed(beat("one", heartbeat_fingerprint=7, without_sub=True))
        assert await changed(beat("one", heartbeat_fingerprint=8, without_sub=True))
        assert (await asker.pull("TBW102", tags=None)).code == 24

    broker(work)


def test_a_heartbeat_without_client_id_is_refused(broker):
    async def work(asker):
        assert (await asker.ask(HeartBeat())).code == 1
        assert (await asker.ask(HeartBeat(), b"{}")).code == 1

    broker(work)


def test_offsets_are_kept_and_may_go_back(broker):
    async def work(asker):
        await asker.send()
        ask = QueryConsumerOffset("g", "T", 1)
        assert (await asker.ask(ask)).code == 22
        assert (await asker.ask(UpdateConsumerOffset("g", "T", 1, 5))).code == 26
        await asker.pull()  # makes the group
        for offset in (5, 3):
            assert (await asker.ask(UpdateConsumerOffset("g", "T", 1, offset))).code == 0
            assert OffsetAnswer.read((await asker.ask(ask)).fields).offset == offset
        assert (await asker.ask(UpdateConsumerOffset("g", "nobody", 1, 5))).code == 17
        await asker.ask(UpdateConsumerOffset("g", "T", 1, -1))
        assert (await asker.ask(ask)).code == 22

    broker(work)


@pytest.mark.spec("C31")
def test_a_new_group_of_a_young_topic_begins_at_0(broker):
    async def work(asker):
        await asker.send()
        await asker.stored()
        answer = await asker.ask(QueryConsumerOffset("new", "T", 0))
        assert OffsetAnswer.read(answer.fields).offset == 0
        no_zero = QueryConsumerOffset("new", "T", 0, set_zero_if_not_found=False)
        assert (await asker.ask(no_zero)).code == 22

    broker(work)


def test_the_ends_of_queues(broker):
    async def work(asker):
        for _ in range(3):
            await asker.send()
        await asker.stored()
        for header, expected in (
            (GetMaxOffset("T", 0), 3),
            (GetMinOffset("T", 0), 0),
            (GetMaxOffset("nobody", 0), 0),
            (GetMinOffset("T", 77), 0),
        ):
            assert OffsetAnswer.read((await asker.ask(header)).fields).offset == expected

    broker(work)


@pytest.mark.spec("PR19")
def test_a_message_is_found_by_its_place_and_nothing_else_is(broker):
    async def work(asker):
        told = SendAnswer.read((await asker.send(body=b"here")).fields)
        await asker.stored()  # and visible
        place = bytes.fromhex(told.msg_id)
        assert host_text(place[:-8]) == asker.node.address
        position = int.from_bytes(place[-8:], "big")
        found = await asker.ask(ViewMessageById(offset=position))
        assert found.code == 0
        assert b"here" in found.body
        for wrong in (position + 1, 1 << 40, -5):
            answer = await asker.ask(ViewMessageById(offset=wrong))
            assert answer.code == 1
            assert answer.remark == f"can not find message by the offset, {wrong}"

    broker(work)


def test_a_message_that_is_sent_back_is_code_3_until_that_is_built(broker):
    async def work(asker):
        answer = await asker.ask(ConsumerSendMsgBack(0, "g", 0))
        assert (answer.code, answer.remark) == (3, " request type 36 not supported")

    broker(work)


def topic(name, **more):
    kind = TopicFilterType.SINGLE_TAG
    given = {"read_queue_nums": 2, "write_queue_nums": 3, "perm": 6, **more}
    return UpdateAndCreateTopic(topic=name, default_topic="x", topic_filter_type=kind, **given)


def test_a_topic_that_was_made_is_in_the_routes_and_survives_the_broker(broker):
    disk = MemoryDisk()

    async def make(asker):
        assert (await asker.ask(topic("T"))).code == 0
        await asyncio.sleep(1)
        route = await asker.node.ask(GetRouteInfo("T"), at=asker.node.namesrv)
        [queues] = TopicRouteData.read(route.body).queue_datas
        assert (queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (2, 3, 6)

    async def look(asker):
        config = TopicConfig.read((await asker.ask(GetTopicConfig("T"))).body)
        assert (config.read_queue_nums, config.write_queue_nums) == (2, 3)

    broker(make, disk=disk)
    broker(look, disk=disk)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (topic("a b"), "illegal characters"),
        (topic("TBW102"), "is conflict with system topic."),
        (topic("T", attributes="+a=b"), "not built yet"),
    ],
)
def test_a_topic_that_cannot_be_made_is_29(broker, header, text):
    async def work(asker):
        answer = await asker.ask(header)
        assert answer.code == 29
        assert text in answer.remark

    broker(work)


def test_an_unknown_topic_has_no_configuration(broker):
    async def work(asker):
        answer = await asker.ask(GetTopicConfig("nobody"))
        assert (answer.code, answer.remark) == (17, "No topic in this broker. topic: nobody")

    broker(work)


def test_a_message_of_a_new_topic_is_acknowledged_only_when_the_topic_is_on_disk(broker):
    """Or a power cut would leave messages in a topic that nobody knows."""
    disk = MemoryDisk()

    async def work(asker):
        assert (await asker.send("New")).code == 0
        return b'"New"' in bytes(disk.names["config/topics.json"].read(1 << 20, 0))

    assert broker(work, disk=disk)


def test_what_stands_behind_a_broken_frame_is_not_served(broker):
    async def work(asker):
        bare = await wire(asker.node)
        broken = frames.join(0, b"no JSON", b"")
        bare.write(broken + Command.request(HeartBeat(), beat("ghost", "T")).write())
        await asyncio.sleep(1)
        assert await members(asker) == "no consumer for this group, g"

    broker(work)
