"""The broker's tables: what is said while they cannot be saved, and that they are saved again."""

import asyncio
import random

import pytest

from cometmq.protocol import (
    GetTopicConfig,
    TopicFilterType,
    UpdateAndCreateTopic,
    UpdateConsumerOffset,
)
from cometmq.runtime import BadSetting
from cometmq.store import StoreRefused
from cometmq.testing import ForgetfulDisk, Node, SimulatedNetwork, simulate

MAKE = UpdateAndCreateTopic("Ordered", "TBW102", 4, 4, 6, TopicFilterType.SINGLE_TAG)


def test_a_topic_whose_save_failed_is_saved_when_it_is_asked_for_again(broker):
    disk = ForgetfulDisk(random.Random(1))

    async def work(asker):
        disk.fail_once("pwrite", "comet/new-config-topics")
        answer = await asker.ask(MAKE)
        assert answer.code == 1
        assert "config/topics.json could not be saved" in answer.remark
        assert (await asker.ask(MAKE)).code == 0
        return b'"Ordered"' in disk.content("config/topics.json")

    assert broker(work, disk=disk)


def test_a_failure_of_the_past_refuses_no_later_change(broker):
    disk = ForgetfulDisk(random.Random(1))

    async def work(asker):
        disk.fail_once("pwrite", "comet/new-config-topics")
        assert (await asker.ask(MAKE)).code == 1
        other = UpdateAndCreateTopic("Other", "TBW102", 4, 4, 6, TopicFilterType.SINGLE_TAG)
        assert (await asker.ask(other)).code == 0

    broker(work, disk=disk)


def test_sends_to_a_topic_that_could_not_be_saved_are_answered_and_later_taken(broker):
    disk = ForgetfulDisk(random.Random(1))

    async def work(asker):
        disk.fail_once("pwrite", "comet/new-config-topics")
        refused = await asker.send("New")
        assert refused.code == 14
        assert "could not be saved" in refused.remark
        assert (await asker.send("New")).code == 0
        return b'"New"' in disk.content("config/topics.json")

    assert broker(work, disk=disk)


def test_what_waits_for_a_new_topic_is_bounded(broker):
    disk = ForgetfulDisk(random.Random(1))

    async def work(asker):
        disk.sync_s = 1.0
        sends = [asyncio.ensure_future(asker.send("New", bytes(1000))) for _ in range(100)]
        await asyncio.sleep(0.5)
        assert sum(one.done() for one in sends) > 50
        disk.sync_s = 0.0
        codes = [(await one).code for one in sends]
        assert codes.count(2) > 50
        assert codes.count(0) > 5
        assert (await asker.send("New")).code == 0

    broker(work, disk=disk, broker={"max_bytes_in_flight": 10_000})


def test_offsets_that_could_not_be_saved_are_saved_at_the_next_time_or_at_the_end(broker):
    disk = ForgetfulDisk(random.Random(1))

    async def commit(asker, offset):
        await asker.pull("T")  # makes the group known
        assert (await asker.ask(UpdateConsumerOffset("g", "T", 0, offset))).code == 0

    async def work(asker):
        await asker.send()
        disk.fail_once("pwrite", "comet/new-config-consumerOffset")
        await commit(asker, 1)
        await asyncio.sleep(6)
        assert "config/consumerOffset.json" not in disk.names
        await asyncio.sleep(5)
        assert b"0:1" in disk.content("config/consumerOffset.json")
        disk.fail_once("pwrite", "comet/new-config-consumerOffset")
        await commit(asker, 0)
        await asyncio.sleep(6)

    broker(work, disk=disk)
    assert b"0:0" in disk.content("config/consumerOffset.json")


def test_a_start_that_fails_late_leaves_neither_a_port_nor_a_lock(broker):
    disk = ForgetfulDisk(random.Random(1))
    broker(lambda asker: asker.send(), disk=disk)
    whole = bytes(disk.content("config/topics.json"))

    async def main():
        machine = SimulatedNetwork(random.Random(2)).machine()
        for path in ("config/topics.json", "config/topics.json.bak"):
            if path in disk.names:
                disk.names[path].write(b"}", 0)
        node = Node(machine=machine, disk=disk)
        with pytest.raises(StoreRefused, match="damaged"):
            await node.start()
        assert machine.network.listeners == {}
        disk.names["config/topics.json"].write(whole, 0)
        await node.start()
        assert (await node.ask(GetTopicConfig("T"))).code == 0
        await node.close()

    simulate(main)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"admin_allowed_addresses": ("nowhere",)}, "adminAllowedAddresses=nowhere"),
        ({"namesrv_addr": "nowhere"}, "illegal"),
        ({"broker_ip1": "no such name"}, "brokerIP1=no such name: this name has no address"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_before_the_directory_is_touched(setting, text):
    async def main():
        disk = ForgetfulDisk(random.Random(1))
        node = Node(machine=SimulatedNetwork(random.Random(2)).machine(), disk=disk, broker=setting)
        with pytest.raises(BadSetting, match=text):
            await node.start()
        assert list(disk.names) == [""]

    simulate(main)


def test_the_version_of_the_tables_outlives_a_restart(broker):
    disk = ForgetfulDisk(random.Random(1))
    broker(lambda asker: asker.ask(MAKE), disk=disk)
    before = disk.content("config/topics.json")
    broker(lambda asker: asker.ask(MAKE), disk=disk)
    assert disk.content("config/topics.json") == before
