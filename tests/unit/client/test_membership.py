"""Members of a group: who reads which queues, and what happens when that changes."""

import asyncio

import pytest

from cometmq.protocol import (
    ConsumerIds,
    GetMaxOffset,
    HeartBeat,
    QueryConsumerOffset,
    UpdateAndCreateSubscriptionGroup,
)
from tests.unit.client.conftest import (
    MEMBERS,
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


async def refuse(node, group="test", *, enabled=False):
    body = b'{"groupName":"%s","consumeEnable":%s}'
    said = body % (group.encode(), str(enabled).lower().encode())
    assert (await node.ask(UpdateAndCreateSubscriptionGroup(), said)).code == 0


async def apart(first, second):
    """What two consumers get that take all they can, until nothing has come for a while."""
    found = [], []

    async def take(consumer, into):
        async for message in consumer:
            into.append(message.body)

    tasks = [
        asyncio.ensure_future(take(consumer, into))
        for consumer, into in zip((first, second), found, strict=True)
    ]
    await asyncio.sleep(3)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return found


def test_two_members_share_the_queues_as_soon_as_the_second_comes(node):
    async def work(node):
        await node.make_topic("T", 4)
        async with node.consumer({"T": "*"}) as first:
            await asyncio.sleep(2)
            async with node.consumer({"T": "*"}) as second:
                await asyncio.sleep(2)
                await send(node, *[b"%d" % n for n in range(16)])
                one, other = await apart(first, second)
        assert (len(one), len(other)) == (8, 8)
        assert len({*one, *other}) == 16

    node(work)


def test_what_a_member_had_fetched_of_a_queue_that_it_gives_up_is_the_others(node):
    async def work(node):
        await node.fill("T", 16, queues=4)
        async with node.consumer({"T": "*"}) as first:
            await asyncio.sleep(2)
            async with node.consumer({"T": "*"}) as second:
                await asyncio.sleep(2)
                one, other = await apart(first, second)
        assert (len(one), len(other)) == (8, 8)
        assert len({*one, *other}) == 16

    node(work)


@pytest.mark.parametrize("how", ["retry", "ack"])
@pytest.mark.parametrize("error", [None, asyncio.CancelledError])
def test_a_message_that_outlives_its_block_can_be_settled_and_nothing_happens(node, error, how):
    async def work(node):
        await node.fill("T", 1)
        before = asyncio.all_tasks()
        try:
            async with node.consumer({"T": "*"}) as consumer:
                message = await anext(consumer)
                if error is not None:
                    raise error
        except asyncio.CancelledError:
            pass
        began = now()
        await getattr(message, how)()
        assert now() == began
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == before

    node(work)


def test_who_stays_goes_on_exactly_where_who_left_had_come(node):
    async def work(node):
        await node.make_topic("T", 2)
        async with node.consumer({"T": "*"}) as first:
            async with node.consumer({"T": "*"}) as second:
                await asyncio.sleep(2)
                await send(node, *[b"%d" % n for n in range(16)])
                one, other = await apart(first, second)
            left = now()
            await send(node, b"later", b"later too")
            after = await bodies(first, 3, within_s=3)
            assert now() - left < 4
        assert sorted(map(int, one + other)) == list(range(16))
        assert sorted(after) == [b"later", b"later too"]

    node(work)


def test_a_topic_that_is_made_later_is_read_as_soon_as_it_is_there(node):
    async def work(node):
        async with node.consumer({"T": "*"}) as consumer:
            await asyncio.sleep(100)
            await send(node, b"first")
            began = now()
            assert await bodies(consumer, 1) == [b"first"]
            assert now() - began < 2

    node(work)


def test_queues_that_a_topic_gets_later_are_read_within_a_minute(node):
    async def work(node):
        await node.make_topic("T", 1)
        async with node.consumer({"T": "*"}) as consumer:
            await asyncio.sleep(5)
            await node.make_topic("T", 4)
            await asyncio.sleep(60)
            await send(node, *[b"x"] * 8)
            assert len(await bodies(consumer, 9)) == 8

    node(work)


def test_a_group_that_may_not_consume_gets_its_messages_once_it_may(node):
    async def work(node):
        await node.fill("T", 1)
        await refuse(node)
        async with node.consumer({"T": "*"}) as consumer:
            assert await bodies(consumer, 1, within_s=20) == []
            await refuse(node, enabled=True)
            began = now()
            assert await bodies(consumer, 1) == [b"message 0"]
            assert now() - began < 1.5

    node(work)


def test_a_consumer_goes_on_when_its_broker_is_back(node):
    async def work(node):
        await node.fill("T", 1)
        async with node.consumer({"T": "*"}) as consumer:
            await (await anext(consumer)).ack()
            await asyncio.sleep(6)
            await node.kill()
            await asyncio.sleep(30)
            await node.start()
            await send(node, b"after")
            assert await bodies(consumer, 2, within_s=10) == [b"after"]

    node(work)


def moves(stage):
    """The two brokers of a topic that is on the first, and a way to have it on the second."""
    old, new = stage.brokers.values()
    play_pulls(old)
    play_pulls(new, pulled(1, record(0, b"moved")))
    stage.routes |= {topic: route(old, queues=1) for topic in ("T", "%RETRY%g")}

    def move():
        stage.routes["T"] = route(new, queues=1)

    return old, move


def test_a_queue_that_its_broker_refuses_is_looked_for_at_once(stage):
    async def work(stage):
        old, move = moves(stage)
        async with stage.consumer() as consumer:
            await asyncio.sleep(2)
            move()
            old.says[PULL] = lambda asked: 17
            for connection in old.connections:
                connection.close()
            assert await bodies(consumer, 1, within_s=4) == [b"moved"]

    stage(work, brokers=2)


def test_a_topic_that_has_moved_is_read_where_it_is_within_a_minute(stage):
    async def work(stage):
        _, move = moves(stage)
        async with stage.consumer() as consumer:
            await asyncio.sleep(2)
            move()
            assert await bodies(consumer, 1, within_s=60) == [b"moved"]
            await asyncio.sleep(60)

    stage(work, brokers=2)


def test_a_route_without_brokers_is_asked_for_again_until_it_has_one(stage):
    async def work(stage):
        broker = play_queue(stage, pulled(1, record(0, b"a")))
        whole = stage.routes["T"]
        stage.routes["T"] = whole.but(broker_datas=[])
        async with stage.consumer() as consumer:
            assert await bodies(consumer, 1, within_s=5) == []
            stage.routes["T"] = whole
            assert await bodies(consumer, 1, within_s=60) == [b"a"]
            assert pulls_of(broker)[0] == 0

    stage(work)


@pytest.mark.spec("C32")
@pytest.mark.parametrize(("other", "mine"), [("~", "broker-2"), ("!", "broker-3")])
def test_all_members_count_queues_in_one_order_whatever_the_order_of_the_route(stage, other, mine):
    async def work(stage):
        stage.routes["T"] = route(*reversed(stage.brokers.values()), queues=2)
        for broker in stage.brokers.values():
            play_pulls(broker)
            told = broker.says[MEMBERS]
            broker.says[MEMBERS] = lambda asked, told=told: and_another(told(asked), other)
        async with stage.consumer():
            await asyncio.sleep(2)
        pulled_from = {name for name, one in stage.brokers.items() if one.of(PULL)}
        assert pulled_from == {mine}

    stage(work, brokers=2)


def and_another(answer, member):
    ids = ConsumerIds.read(answer.body).consumer_id_list
    return reply(body=ConsumerIds(consumer_id_list=[member, *ids]).write())


def test_a_broker_that_has_forgotten_a_member_is_told_of_it_again(stage):
    async def work(stage):
        broker = play_queue(stage, pulled(1, record(0, b"a")))
        told = broker.says[MEMBERS]
        broker.says[MEMBERS] = lambda asked: 1
        async with stage.consumer() as consumer:
            await asyncio.sleep(3.5)
            beats = broker.times_of(HeartBeat.code)
            assert {round(at - beats[0]) for at in beats} == {0, 1, 2, 3}
            assert pulls_of(broker) == []
            broker.says[MEMBERS] = told
            assert await bodies(consumer, 1) == [b"a"]

    stage(work)


@pytest.mark.parametrize(
    ("perm", "read"), [(6, True), (4, True), (5, True), (2, False), (3, False)]
)
def test_only_queues_that_may_be_read_are_pulled(stage, perm, read):
    async def work(stage):
        broker = play_queue(stage)
        stage.routes["T"] = route(broker, queues=1, perm=perm)
        async with stage.consumer():
            await asyncio.sleep(1)
        assert bool(pulls_of(broker)) is read

    stage(work)


def test_a_queue_whose_offset_is_not_known_is_not_read_until_it_is(stage):
    async def work(stage):
        broker = play_queue(stage, pulled(6, record(5, b"a")))
        broker.says[QueryConsumerOffset.code] = lambda asked: 1
        async with stage.consumer() as consumer:
            assert await bodies(consumer, 1, within_s=10) == []
            assert pulls_of(broker) == []
            broker.says[QueryConsumerOffset.code] = lambda asked: reply(offset=5)
            assert await bodies(consumer, 1, within_s=2) == [b"a"]
            assert pulls_of(broker)[0] == 5

    stage(work)


def test_the_retry_topic_is_read_from_its_first_message_whatever_the_group_wants(stage):
    async def work(stage):
        broker = play_queue(stage)
        stage.routes["%RETRY%g"] = route(broker, queues=1)
        broker.says[QueryConsumerOffset.code] = lambda asked: 22
        broker.says[GetMaxOffset.code] = lambda asked: reply(offset=9)
        async with stage.consumer(start="latest"):
            await asyncio.sleep(1)
        began = {one.fields["topic"]: one.fields["queueOffset"] for one in broker.of(PULL)}
        assert began == {"T": "9", "%RETRY%g": "0"}

    stage(work)


def test_what_is_not_done_when_the_block_ends_is_not_committed(stage):
    async def work(stage):
        broker = play_queue(stage, pulled(3, record(0), record(1), record(2)))
        async with stage.consumer() as consumer:
            await bodies(consumer, 2)
        assert [(one.fields["commitOffset"], one.is_oneway) for one in done(broker)] == [
            ("1", False)
        ]

    stage(work)
