"""Topics and groups: how those are made that nobody ordered, and what operators are told."""

import asyncio
import random

import pytest

from cometmq.protocol import (
    DataVersion,
    GetTopicConfig,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigWrapper,
    TopicFilterType,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateTopic,
)
from cometmq.testing import ForgetfulDisk


@pytest.fixture
def disk():
    return ForgetfulDisk(random.Random(1))


def making(topic, *, queues=4, perm=6, kind=TopicFilterType.SINGLE_TAG, **more):
    return UpdateAndCreateTopic(topic, "TBW102", queues, queues, perm, kind, **more)


async def config_of(asker, topic):
    answer = await asker.ask(GetTopicConfig(topic))
    return TopicConfig.read(answer.body) if answer.code == 0 else None


@pytest.mark.spec("PR36")
@pytest.mark.parametrize(
    ("topic", "unit", "flag"),
    [("New", False, 0), ("New", True, 1), ("%RETRY%g", False, 0), ("%RETRY%g", True, 2)],
)
def test_a_topic_that_a_send_makes_is_marked_with_its_unit(broker, topic, unit, flag):
    async def work(asker):
        assert (await asker.send(topic, unit_mode=unit)).code == 0
        assert (await config_of(asker, topic)).topic_sys_flag == flag

    broker(work)


def test_the_retry_topic_that_a_send_makes_has_one_queue_to_read_and_write(broker):
    async def work(asker):
        await asker.send("%RETRY%g", default_topic_queues=4)
        made = await config_of(asker, "%RETRY%g")
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (1, 1, 6)

    broker(work)


@pytest.mark.spec("PR36")
@pytest.mark.parametrize(
    ("perm", "inherited"), [(7, 6), (5, 4), (3, 2), (1, 0), (6, None), (0, None)]
)
def test_a_new_topic_has_the_permission_of_its_template_if_that_may_be_inherited(
    broker, perm, inherited
):
    async def work(asker):
        await asker.ask(making("Template", perm=perm))
        answer = await asker.send("New", default_topic="Template")
        assert answer.code == (17 if inherited is None else 0)
        made = await config_of(asker, "New")
        assert (made and made.perm) == inherited

    broker(work)


@pytest.mark.parametrize(
    ("template", "code"),
    [("TBW102", 0), ("DefaultCluster", 0), ("broker-a", 0), ("BenchmarkTest", 17), ("nobody", 17)],
)
def test_only_some_topics_are_templates_for_others(broker, template, code):
    async def work(asker):
        assert (await asker.send("New", default_topic=template)).code == code

    broker(work)


@pytest.mark.parametrize(("wanted", "queues"), [(-1, None), (0, None), (1, 1), (8, 8), (9, 8)])
def test_a_new_topic_has_as_many_queues_as_are_wanted_and_its_template_has(broker, wanted, queues):
    async def work(asker):
        answer = await asker.send("New", default_topic_queues=wanted)
        assert answer.code == (17 if queues is None else 0)
        made = await config_of(asker, "New")
        assert (made and made.write_queue_nums) == queues

    broker(work)


def test_a_new_topic_has_as_many_tags_as_its_template(broker):
    async def work(asker):
        await asker.ask(making("Template", perm=7, kind=TopicFilterType.MULTI_TAG))
        await asker.send("New", default_topic="Template")
        assert (await config_of(asker, "New")).topic_filter_type == "MULTI_TAG"

    broker(work)


def test_the_template_follows_its_setting_from_one_start_to_the_next(broker, disk):
    async def look(asker):
        return (await config_of(asker, "TBW102")).write_queue_nums

    found = [
        broker(look, disk=disk, broker={"default_topic_queue_nums": queues}) for queues in (8, 16)
    ]
    assert found == [8, 16]


@pytest.mark.parametrize(
    ("settings", "topic", "expected"),
    [
        ({}, "TBW102", (8, 7)),
        ({"default_topic_queue_nums": 3}, "TBW102", (3, 7)),
        ({"auto_create_topic_enable": False}, "TBW102", None),
        ({}, "DefaultCluster", (16, 7)),
        ({}, "broker-a", (1, 7)),
        ({}, "RMQ_SYS_TRACE_TOPIC", None),
        ({}, "BenchmarkTest", (1024, 6)),
        ({}, "SCHEDULE_TOPIC_XXXX", (18, 6)),
        ({}, "SELF_TEST_TOPIC", (1, 6)),
        ({}, "OFFSET_MOVED_EVENT", (1, 6)),
        ({}, "RMQ_SYS_TRANS_HALF_TOPIC", (1, 6)),
        ({}, "RMQ_SYS_TRANS_OP_HALF_TOPIC", (1, 6)),
        ({}, "DefaultCluster_REPLY_TOPIC", (1, 6)),
        ({}, "rmq_sys_REVIVE_LOG_DefaultCluster", (8, 6)),
        ({}, "rmq_sys_SYNC_BROKER_MEMBER_broker-a", (1, 1)),
        ({}, "rmq_sys_wheel_timer", (1, 6)),
    ],
)
def test_the_topics_of_the_system_are_those_of_the_original(broker, settings, topic, expected):
    async def work(asker):
        made = await config_of(asker, topic)
        assert (made and (made.write_queue_nums, made.perm)) == expected

    broker(work, broker=settings)


@pytest.mark.parametrize(
    "topic", ["TBW102", "DefaultCluster", "broker-a", "rmq_sys_anything", "SELF_TEST_TOPIC"]
)
def test_no_operator_changes_a_topic_of_the_system(broker, topic):
    async def work(asker):
        before = await config_of(asker, topic)
        assert (await asker.ask(making(topic, perm=4))).code == 29
        assert await config_of(asker, topic) == before

    broker(work)


def test_a_topic_is_made_as_it_was_ordered(broker):
    async def work(asker):
        wanted = making("T", queues=3, perm=2, order=True, topic_sys_flag=3)
        await asker.ask(wanted)
        made = await config_of(asker, "T")
        assert (made.order, made.perm, made.topic_sys_flag) == (True, 2, 3)

    broker(work)


@pytest.mark.parametrize(("name", "code"), [("g", 0), ("a b", 29), ("", 29), ("x" * 256, 29)])
def test_a_group_is_made_if_its_name_is_one(broker, name, code):
    async def work(asker):
        body = SubscriptionGroupConfig(group_name=name).write()
        assert (await asker.ask(UpdateAndCreateSubscriptionGroup(), body)).code == code

    broker(work)


def test_a_group_that_was_made_survives_the_broker(broker, disk):
    async def make(asker):
        await asker.send()
        body = SubscriptionGroupConfig(group_name="g", consume_enable=False).write()
        assert (await asker.ask(UpdateAndCreateSubscriptionGroup(), body)).code == 0

    async def look(asker):
        return (await asker.pull()).code

    broker(make, disk=disk)
    assert broker(look, disk=disk) == 16


GROUP = SubscriptionGroupConfig(group_name="g").write()


@pytest.mark.parametrize("ask", [(making("T"),), (UpdateAndCreateSubscriptionGroup(), GROUP)])
def test_an_operator_whose_change_is_not_on_disk_in_time_is_told_so(broker, disk, ask):
    async def work(asker):
        disk.sync_s = 20.0
        began = asyncio.get_running_loop().time()
        answer = await asker.ask(*ask)
        assert answer.code == 1
        assert answer.remark.startswith("the change is not on disk yet")
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)
        disk.sync_s = 0.0

    broker(work, disk=disk)


def version(disk):
    return TopicConfigWrapper.read(disk.content("config/topics.json")).data_version


def test_the_version_of_the_topics_grows_with_each_change_and_with_no_repetition(broker, disk):
    versions = []

    async def work(asker):
        for queues in (4, 4, 5, 5):
            assert (await asker.ask(making("T", queues=queues))).code == 0
            versions.append(version(disk))

    broker(work, disk=disk)
    first = versions[0].counter
    assert [one.counter - first for one in versions] == [0, 0, 1, 1]
    assert versions[0] != DataVersion()
