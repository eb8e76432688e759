"""Registration at a name server that says no, is away, or stays silent."""

import asyncio
import logging
import random
import types

import pytest

from cometmq.net import Address, Connection, Server
from cometmq.protocol import (
    Command,
    RegisterBroker,
    RegisterBrokerAnswer,
    RegisterBrokerBody,
    TopicFilterType,
    UnregisterBroker,
    UpdateAndCreateTopic,
)
from cometmq.runtime import Clock
from cometmq.serving import OPEN, Answer, Driver, Gate, Refused, handler_table, handles
from cometmq.testing import Node, SimulatedNetwork, simulate

HERE = Address("127.0.0.1", 1)


class Registry:
    """A name server that says what it is told to, and keeps what it is asked."""

    def __init__(self, machine):
        self.machine = machine
        self.codes = []
        """What it answers first; then it takes every registration."""
        self.asked = []
        self.left = []
        self.connections = []
        self.server = None

    async def open(self):
        module = types.ModuleType("handlers")
        module.register, module.unregister = register, unregister
        driver = Driver(handler_table([module], [self]), Gate(HERE.host), Clock())
        self.server = Server(driver.took)
        await self.server.start(self.machine, *HERE)

    @property
    def times(self):
        """When it was asked, in seconds after the first time."""
        return [round(at - self.asked[0][0], 1) for at, _ in self.asked]


@handles(RegisterBroker, needs=OPEN, largest_body=1 << 20)
def register(registry: Registry, ask: RegisterBroker, request: Command, connection: Connection):
    registry.connections.append(connection)
    topics = RegisterBrokerBody.read(request.body).topic_config_serialize_wrapper
    registry.asked.append((asyncio.get_running_loop().time(), topics.topic_config_table))
    code = registry.codes.pop(0) if registry.codes else 0
    if code:
        raise Refused(code, "not now")
    return RegisterBrokerAnswer()


@handles(UnregisterBroker, needs=OPEN)
def unregister(registry: Registry, ask: UnregisterBroker):
    registry.left.append(ask.broker_addr)
    return Answer()


def with_registry(work, **settings):
    """Runs `work(node, registry)`; the registry does not listen yet, the node has not started."""

    async def main():
        network = SimulatedNetwork(random.Random(1))
        registry = Registry(network.machine())
        settings.setdefault("namesrv_addr", str(HERE))
        node = Node(machine=network.machine(), chance=random.Random(2), broker=settings)
        try:
            return await work(node, registry)
        finally:
            await node.close()

    return simulate(main)


def test_a_registration_that_was_refused_is_made_again_after_a_second():
    async def work(node, registry):
        registry.codes = [1, 1]
        await registry.open()
        await node.start()
        await asyncio.sleep(20)
        assert registry.times == [0, 1, 2]

    with_registry(work)


@pytest.mark.parametrize(
    ("period_ms", "period_s"),
    [(None, 30), (20_000, 20), (10_000, 10), (1_000, 10), (60_000, 60), (100_000, 60)],
)
def test_a_registration_is_made_again_every_period(period_ms, period_s):
    async def work(node, registry):
        await registry.open()
        await node.start()
        await asyncio.sleep(3.5 * period_s)
        assert registry.times == pytest.approx([n * period_s for n in range(4)], abs=0.5)

    with_registry(work, **({"register_name_server_period": period_ms} if period_ms else {}))


def test_a_name_server_that_was_away_has_the_broker_a_second_after_it_is_back():
    async def work(node, registry):
        await node.start()
        await asyncio.sleep(100)
        back = asyncio.get_running_loop().time()
        await registry.open()
        await asyncio.sleep(2)
        assert registry.asked[0][0] - back < 1.1

    with_registry(work)


def test_a_name_server_that_is_silent_is_asked_again_after_its_time():
    async def work(node, registry):
        await registry.open()
        await node.start()
        registry.machine.slow_s = 5.0
        registry.asked.clear()
        await asyncio.sleep(40)
        assert registry.times[:4] == pytest.approx([0, 3, 6, 9], abs=0.5)

    with_registry(work, register_name_server_period=10_000, register_broker_timeout_mills=2_000)


def test_each_change_of_a_topic_is_told_at_once_and_a_clean_stop_too():
    async def work(node, registry):
        await registry.open()
        await node.start()
        await asyncio.sleep(1)
        for queues in (2, 3):
            kind = TopicFilterType.SINGLE_TAG
            await node.ask(UpdateAndCreateTopic("T", "TBW102", queues, queues, 6, kind))
            await asyncio.sleep(0.1)
            assert registry.asked[-1][1]["T"].write_queue_nums == queues
        assert registry.left == []
        await node.close()
        assert registry.left == [str(node.address)]
        await asyncio.sleep(1)
        assert not registry.connections[-1].usable

    with_registry(work)


def test_a_name_server_that_refuses_is_named_once_until_it_has_taken_the_broker(caplog):
    async def work(node, registry):
        registry.codes = [1, 1, 1, 0, 1, 1]
        await registry.open()
        await node.start()
        await asyncio.sleep(120)
        assert len(registry.asked) > 6

    with caplog.at_level(logging.WARNING, "cometmq.broker"):
        with_registry(work)
    said = [one.getMessage() for one in caplog.records if str(HERE) in one.getMessage()]
    assert len(said) == 2
    assert "refused with code 1: not now" in said[0]


@pytest.mark.parametrize("away", [True, False])
def test_a_broker_starts_and_stops_whatever_its_name_server_does(away):
    async def work(node, registry):
        if not away:
            await registry.open()
        await node.start()
        registry.machine.slow_s = 1000.0
        began = asyncio.get_running_loop().time()
        await node.close()
        assert asyncio.get_running_loop().time() - began < 4

    with_registry(work)
