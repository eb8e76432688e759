"""Offsets over restarts: what is lowered, what is kept, and how their table is numbered."""

import asyncio
import random

import pytest

from cometmq.protocol import (
    ConsumerOffsetWrapper,
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from cometmq.testing import ForgetfulDisk

TABLE = "config/consumerOffset.json"


@pytest.fixture
def disk():
    return ForgetfulDisk(random.Random(1))


async def commit(asker, offset, *, topic="T", queue=0, group="g"):
    assert (await asker.ask(UpdateConsumerOffset(group, topic, queue, offset))).code == 0


async def committed(asker, *, topic="T", queue=0):
    answer = await asker.ask(QueryConsumerOffset("g", topic, queue, set_zero_if_not_found=False))
    return OffsetAnswer.read(answer.fields).offset if answer.code == 0 else None


async def fill(asker, messages):
    for _ in range(messages):
        await asker.send()
    await asker.stored()  # and the group is known


@pytest.mark.parametrize(
    ("queue", "before", "after"),
    [(0, 2, 2), (0, 3, 3), (0, 4, 3), (0, 1000, 3), (0, 0, 0), (1, 5, 0), (1, 0, 0), (99, 5, 0)],
)
def test_an_offset_beyond_its_queues_end_is_lowered_to_it_at_the_start(
    broker, disk, queue, before, after
):
    async def work(asker):
        await fill(asker, 3)
        await commit(asker, before, queue=queue)
        assert await committed(asker, queue=queue) == before

    async def look(asker):
        return await committed(asker, queue=queue)

    broker(work, disk=disk)
    assert broker(look, disk=disk) == after


def test_an_offset_that_was_lowered_is_lowered_on_the_disk_too(broker, disk):
    async def work(asker):
        await fill(asker, 3)
        await commit(asker, 1000)

    async def nothing(asker): ...

    broker(work, disk=disk)
    broker(nothing, disk=disk)
    assert table(disk).offset_table == {"T@g": {0: 3}}


def table(disk):
    return ConsumerOffsetWrapper.read(disk.content(TABLE))


@pytest.mark.parametrize(("commits", "counter"), [(499, 0), (500, 1), (1000, 2)])
def test_the_version_of_the_offsets_grows_with_each_500th_commit(broker, disk, commits, counter):
    async def work(asker):
        await fill(asker, 1)
        await asyncio.gather(*(commit(asker, n % 2) for n in range(commits)))

    broker(work, disk=disk)
    assert table(disk).data_version.counter == counter


def test_the_table_lists_the_topics_of_each_group_for_people(broker, disk):
    async def work(asker):
        for topic in ("T", "U"):
            for group in ("g", "h"):
                await asker.send(topic)
                await asker.pull(topic, group=group)
        await commit(asker, 0, topic="T")
        await commit(asker, 0, topic="U")
        await commit(asker, 0, topic="U", group="h")

    broker(work, disk=disk)
    assert table(disk).group_topic_map == {"g": ("T", "U"), "h": ("U",)}
