"""Who is told when the members of a group are others, what a heartbeat changes, who is silent."""

import asyncio

import pytest

from cometmq.protocol import (
    ConsumerData,
    ConsumerIds,
    GetConsumerListByGroup,
    GetMaxOffset,
    GetTopicConfig,
    HeartBeat,
    HeartBeatAnswer,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicFilterType,
    UnregisterClient,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateTopic,
)
from tests.unit.broker.conftest import connect


def wants(topic="T", version=1, text="*"):
    return SubscriptionData(topic=topic, sub_string=text, sub_version=version)


def beat(me, *wanted, group="g", model="CLUSTERING", unit=False, **more):
    consumer = ConsumerData(
        group_name=group, message_model=model, subscription_data_set=wanted, unit_mode=unit
    )
    return HeartbeatData(client_id=me, consumer_data_set=(consumer,), **more).write()


def producing(me, group="p"):
    return HeartbeatData(client_id=me, producer_data_set=(ProducerData(group),)).write()


async def told(*askers):
    """How often each was told that the group has changed, since this was asked last."""
    await asyncio.sleep(0.5)
    heard = [[one.code for one in asker.heard] for asker in askers]
    assert {code for codes in heard for code in codes} <= {40}
    for asker in askers:
        asker.heard.clear()
    return [len(codes) for codes in heard]


async def two_members(asker, **settings):
    """Another one; both are members, and everybody knows."""
    other = await connect(asker.node)
    for one, name in ((asker, "one"), (other, "two")):
        await one.ask(HeartBeat(), beat(name, wants(), **settings))
    await told(asker, other)
    return other


async def members(asker):
    answer = await asker.ask(GetConsumerListByGroup("g"))
    return ConsumerIds.read(answer.body).consumer_id_list if answer.code == 0 else []


@pytest.mark.parametrize(
    ("wanted", "times"),
    [
        ([wants()], 0),
        ([wants(version=2, text="a")], 0),
        ([wants(), wants("U")], 1),
        ([wants("U")], 1),
        ([wants("U"), wants("V")], 1),
        ([], 1),
    ],
    ids=["the same", "a newer text", "one came", "one for another", "two for one", "one went"],
)
def test_all_members_are_told_once_when_a_subscribed_topic_came_or_went(broker, wanted, times):
    async def work(one):
        two = await two_members(one)
        await two.ask(HeartBeat(), beat("two", *wanted))
        assert await told(one, two) == [times, times]

    broker(work)


@pytest.mark.parametrize(
    ("model", "times"), [("CLUSTERING", [2, 1]), ("BROADCASTING", [0, 0]), (None, [2, 1])]
)
def test_members_that_come_are_told_of_where_they_share_the_queues(broker, model, times):
    async def work(one):
        two = await connect(one.node)
        await one.ask(HeartBeat(), beat("one", wants(), model=model))
        await two.ask(HeartBeat(), beat("two", wants(), model=model))
        assert await told(one, two) == times

    broker(work)


def goodbye(group="g"):
    return UnregisterClient("whoever", consumer_group=group)


@pytest.mark.parametrize(("model", "times"), [("CLUSTERING", 1), ("BROADCASTING", 0)])
def test_who_stays_is_told_of_who_goes(broker, model, times):
    async def work(one):
        two = await two_members(one, model=model)
        await two.ask(goodbye())
        assert await told(one, two) == [times, 0]
        await two.ask(goodbye())  # it is no member any more
        assert await told(one, two) == [0, 0]

    broker(work)


def test_a_model_that_a_heartbeat_does_not_name_stays_as_it_was(broker):
    async def work(one):
        two = await two_members(one, model="BROADCASTING")
        await two.ask(HeartBeat(), beat("two", wants("U"), model=None))
        assert await told(one, two) == [0, 0]

    broker(work)


SILENT = SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=False).write()


@pytest.mark.spec("C35")
def test_nobody_is_told_of_who_comes_to_a_group_that_wants_to_hear_nothing(broker):
    async def work(one):
        await one.ask(UpdateAndCreateSubscriptionGroup(), SILENT)
        two = await connect(one.node)
        await one.ask(HeartBeat(), beat("one", wants()))
        await two.ask(HeartBeat(), beat("two", wants()))
        await two.ask(HeartBeat(), beat("two", wants("U")))
        assert await told(one, two) == [0, 0]

    broker(work)


@pytest.mark.spec("C35")
def test_nobody_is_told_of_who_leaves_a_group_that_wants_to_hear_nothing(broker):
    async def work(one):
        await one.ask(UpdateAndCreateSubscriptionGroup(), SILENT)
        two = await two_members(one)
        await two.ask(goodbye())
        assert await told(one) == [0]

    broker(work)


@pytest.mark.parametrize(
    ("version", "text", "found"),
    [(2, "a", 0), (1, "a", 20), (0, "a", 20)],
    ids=["newer", "same", "older"],
)
def test_only_a_newer_subscription_replaces_what_the_group_said_before(
    broker, version, text, found
):
    async def work(asker):
        await asker.send(properties={"TAGS": "a"})
        await asker.stored()
        await asker.ask(HeartBeat(), beat("one", wants(version=1, text="b")))
        await asker.ask(HeartBeat(), beat("one", wants(version=version, text=text)))
        assert (await asker.pull(tags=None)).code == found

    broker(work)


def test_a_topic_that_is_not_subscribed_any_more_is_not_pulled_by_the_heartbeat(broker):
    async def work(asker):
        for topic in ("T", "U"):
            await asker.send(topic)
            await asker.stored(topic)
        await asker.ask(HeartBeat(), beat("one", wants("T"), wants("U")))
        assert [(await asker.pull(one, tags=None)).code for one in ("T", "U")] == [0, 0]
        await asker.ask(HeartBeat(), beat("one", wants("U")))
        assert [(await asker.pull(one, tags=None)).code for one in ("T", "U")] == [24, 0]

    broker(work)


def test_a_client_with_another_id_on_its_connection_is_one_member(broker):
    async def work(one):
        two = await two_members(one)
        await two.ask(HeartBeat(), beat("three", wants()))
        assert await members(one) == ["one", "three"]
        assert await told(one, two) == [0, 0]

    broker(work)


def test_a_group_whose_last_member_left_begins_anew(broker):
    async def work(asker):
        await asker.send()
        await asker.stored()
        await asker.ask(HeartBeat(), beat("one", wants(version=9, text="a")))
        await asker.ask(goodbye())
        assert (await asker.pull(tags=None)).code == 24
        await asker.ask(HeartBeat(), beat("one", wants(version=1)))
        assert (await asker.pull(tags=None)).code == 0

    broker(work)


@pytest.mark.parametrize(
    ("settings", "group"), [({}, "bad name"), ({"auto_create_subscription_group": False}, "g")]
)
def test_a_group_that_cannot_be_is_passed_over_in_a_heartbeat(broker, settings, group):
    async def work(asker):
        consumers = tuple(
            ConsumerData(group_name=name, subscription_data_set=(wants(),))
            for name in (group, "SELF_TEST_C_GROUP")
        )
        body = HeartbeatData(client_id="one", consumer_data_set=consumers).write()
        assert (await asker.ask(HeartBeat(), body)).code == 0
        answers = [
            await asker.ask(GetConsumerListByGroup(name)) for name in (group, "SELF_TEST_C_GROUP")
        ]
        assert [one.code for one in answers] == [1, 0]

    broker(work, broker=settings)


@pytest.mark.spec("RN56")
@pytest.mark.parametrize(
    ("data", "changed"),
    [
        (HeartbeatData(client_id="me"), True),
        (HeartbeatData(client_id="me", heartbeat_fingerprint=7), False),
        (HeartbeatData(client_id="me", producer_data_set=(ProducerData("p"),)), True),
        (
            HeartbeatData(
                client_id="me",
                heartbeat_fingerprint=7,
                without_sub=True,
                consumer_data_set=(ConsumerData(group_name="new"),),
            ),
            True,
        ),
        (
            HeartbeatData(
                client_id="me",
                heartbeat_fingerprint=7,
                consumer_data_set=(ConsumerData(group_name="new"),),
            ),
            False,
        ),
    ],
    ids=["nothing", "only a fingerprint", "a producer", "unknown and short", "unknown and whole"],
)
def test_a_heartbeat_is_to_be_sent_whole_until_its_fingerprint_is_known(broker, data, changed):
    async def work(asker):
        answer = await asker.ask(HeartBeat(), data.write())
        assert HeartBeatAnswer.read(answer.fields).changed == changed

    broker(work)


def test_of_several_groups_in_a_heartbeat_one_unknown_is_enough_to_want_it_whole(broker):
    async def work(asker):
        def short(*groups):
            consumers = tuple(ConsumerData(group_name=one) for one in groups)
            return HeartbeatData(
                client_id="me",
                heartbeat_fingerprint=7,
                without_sub=True,
                consumer_data_set=consumers,
            ).write()

        await asker.ask(HeartBeat(), beat("me", wants(), group="known", heartbeat_fingerprint=7))
        for groups, changed in ((("known",), False), (("new", "known"), True)):
            answer = await asker.ask(HeartBeat(), short(*groups))
            assert HeartBeatAnswer.read(answer.fields).changed == changed

    broker(work)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("model", ["CLUSTERING", "BROADCASTING"])
@pytest.mark.parametrize("queues", [1, 3])
def test_a_heartbeat_makes_the_retry_topic_as_the_group_wants_it(broker, queues, model, unit):
    async def work(asker):
        config = SubscriptionGroupConfig(group_name="g", retry_queue_nums=queues)
        await asker.ask(UpdateAndCreateSubscriptionGroup(), config.write())
        await asker.ask(HeartBeat(), beat("one", wants(), model=model, unit=unit))
        made = TopicConfig.read((await asker.ask(GetTopicConfig("%RETRY%g"))).body)
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (queues, queues, 6)
        assert made.topic_sys_flag == (2 if unit else 0)

    broker(work)


def test_a_group_without_retry_queues_has_no_retry_topic(broker):
    async def work(asker):
        config = SubscriptionGroupConfig(group_name="g", retry_queue_nums=0)
        await asker.ask(UpdateAndCreateSubscriptionGroup(), config.write())
        await asker.ask(HeartBeat(), beat("one", wants()))
        assert (await asker.ask(GetTopicConfig("%RETRY%g"))).code == 17

    broker(work)


def test_the_retry_topic_of_a_group_with_an_ordered_topic_is_ordered_too(broker):
    async def work(asker):
        kind = TopicFilterType.SINGLE_TAG
        await asker.ask(UpdateAndCreateTopic("T", "TBW102", 4, 4, 6, kind, order=True))
        await asker.ask(HeartBeat(), beat("one", wants("T")))
        made = TopicConfig.read((await asker.ask(GetTopicConfig("%RETRY%g"))).body)
        assert made.order

    broker(work)


@pytest.mark.parametrize(("topics", "code"), [(2_000, 0), (10_000, 1)])
def test_a_client_may_subscribe_to_thousands_of_topics_and_not_to_any_number(broker, topics, code):
    async def work(asker):
        body = beat("one", *(wants(f"topic-{n}") for n in range(topics)))
        assert (await asker.ask(HeartBeat(), body)).code == code

    broker(work)


async def talk(asker, seconds):
    """Traffic that keeps the connection from being idle, and is no heartbeat."""
    for _ in range(seconds // 10):
        if asker.channel.usable:
            await asker.ask(GetMaxOffset("T", 0))
        await asyncio.sleep(10)


@pytest.mark.parametrize(("silent_s", "usable"), [(50, True), (80, False)])
def test_how_long_a_client_may_be_silent_is_a_setting(broker, silent_s, usable):
    async def work(asker):
        await asker.ask(HeartBeat(), beat("one", wants()))
        await talk(asker, silent_s)
        assert asker.channel.usable is usable

    broker(work, broker={"channel_expired_timeout": 60_000})
