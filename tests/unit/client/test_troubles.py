"""The client where something is silent, away or cancelled: deadlines, buffers, leftovers."""

import asyncio
import random

import pytest

from cometmq.client import NotRunning, SendFailed
from cometmq.message import Message
from cometmq.net import Address, ChannelClosed
from cometmq.testing import Node, SimulatedNetwork, simulate


class Moody:
    """A client's network on which some addresses are silent, or refuse for so many times."""

    def __init__(self, network):
        self._network = network
        self.silent = set()
        self.refuses = {}

    async def connect(self, host, port, make):
        address = Address(host, port)
        if self.refuses.get(address, 0) > 0:
            self.refuses[address] -= 1
            raise ConnectionRefusedError(111, "Connection refused")
        if address in self.silent:
            await asyncio.sleep(1000)
        return await self._network.connect(host, port, make)


def with_node(work, **settings):
    async def main():
        machine = SimulatedNetwork(random.Random(1)).machine()
        async with Node(machine=machine, chance=random.Random(2), **settings) as node:
            node.client_network = moody = Moody(node.client_network)
            return await work(node, moody)

    return simulate(main)


def cut(node):
    """Whoever is connected has to connect again."""
    node.network.cut_connections()
    return asyncio.sleep(0.1)


def test_many_sends_to_a_silent_broker_end_at_their_own_deadline():
    async def work(node, moody):
        await node.make_topic("T")
        async with node.producer() as producer:
            await producer.send(Message("T", b"before"))
            moody.silent.add(node.address)
            await cut(node)
            loop = asyncio.get_running_loop()
            began = loop.time()
            sends = [producer.send(Message("T", b"x"), timeout_ms=1000) for _ in range(20)]
            found = await asyncio.gather(*sends, return_exceptions=True)
            assert {type(one) for one in found} == {SendFailed}
            assert loop.time() - began < 1.5

    with_node(work)


def test_a_silent_name_server_is_said_with_its_address():
    async def work(node, moody):
        moody.silent.add(Address.parse(node.namesrv))
        async with node.producer() as producer:
            with pytest.raises(SendFailed, match="no name server of") as failed:
                await producer.send(Message("T", b"x"), timeout_ms=500)
        assert f"{node.namesrv} has said where" in str(failed.value)

    with_node(work)


def test_a_silent_name_server_does_not_cost_the_next_try():
    async def work(node, moody):
        await node.make_topic("T")
        async with node.producer() as producer:
            await producer.send(Message("T", b"before"))
            moody.silent.add(Address.parse(node.namesrv))
            moody.refuses[node.address] = 1
            await cut(node)
            await producer.send(Message("T", b"x"), timeout_ms=2000)

    with_node(work)


def test_a_send_in_another_task_opens_nothing_after_the_block():
    async def work(node, moody):
        await node.make_topic("T")
        async with node.producer() as producer:
            await producer.send(Message("T", b"before"))
            moody.silent.add(node.address)
            await cut(node)
            late = asyncio.ensure_future(producer.send(Message("T", b"x")))
            await asyncio.sleep(0.1)
        with pytest.raises((SendFailed, NotRunning)):
            await late
        await asyncio.sleep(10)
        assert not producer._session.pool._channels

    with_node(work)


def test_failing_messages_that_wait_here_are_part_of_the_buffer():
    async def work(node, moody):
        await node.fill("T", 200)
        async with node.consumer({"T": "*"}, buffer_messages=10, pull_batch=5) as consumer:
            seen = 0
            try:
                async with asyncio.timeout(60):
                    async for message in consumer:
                        seen += 1
                        await message.retry(after=3600)
            except TimeoutError:
                pass
        assert 10 <= seen < 20

    with_node(work)


def test_a_message_that_waits_to_come_again_does_not_outlive_the_block():
    async def work(node, moody):
        await node.fill("T", 1)
        before = asyncio.all_tasks()
        async with node.consumer({"T": "*"}) as consumer:
            message = await anext(consumer)
            await message.retry(after=3600)
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == before
        scheduled = asyncio.get_running_loop()._scheduled
        assert not [one for one in scheduled if not one.cancelled() and one.when() > 3000]

    with_node(work)


def test_a_retry_that_was_cancelled_can_be_made_again():
    async def work(node, moody):
        await node.fill("T", 1)
        async with node.consumer({"T": "*"}) as consumer:
            message = await anext(consumer)
            moody.silent.add(node.address)
            await cut(node)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await message.retry()
            assert not message.settled
            moody.silent.clear()
            await message.retry(after=1)
            assert (await anext(consumer)).attempt == 2

    with_node(work)


@pytest.mark.parametrize("cancelled", [False, True])
def test_leaving_while_the_broker_is_silent_takes_no_longer_than_one_question(cancelled):
    async def work(node, moody):
        await node.fill("T", 1, queues=8)
        loop = asyncio.get_running_loop()
        began = 0.0

        async def consume():
            nonlocal began
            async with node.consumer({"T": "*"}) as consumer:
                await (await anext(consumer)).ack()
                await asyncio.sleep(2)
                moody.silent.add(node.address)
                await cut(node)
                began = loop.time()
                if cancelled:
                    raise asyncio.CancelledError

        if cancelled:
            with pytest.raises(asyncio.CancelledError):
                await consume()
        else:
            await consume()
        assert loop.time() - began < (0.1 if cancelled else 7)

    with_node(work)


def test_a_block_that_has_ended_says_so():
    async def work(node, moody):
        async with node.producer() as producer:
            pass
        with pytest.raises(NotRunning):
            await producer.send(Message("T", b"x"))
        with pytest.raises(ChannelClosed):
            await producer._session.pool.ask(node.address, None)

    with_node(work)


def test_connections_that_come_and_go_keep_no_heartbeat_from_the_others():
    async def work(node, moody):
        await node.make_topic("T")
        async with node.producer(group="steady") as producer:
            await producer.send(Message("T", b"x"))
            session = producer._session
            beats = []
            tell = session._tell
            session._tell = lambda where, *what: beats.append(where) or tell(where, *what)
            for _ in range(10):
                await asyncio.sleep(20)
                session._opened(Address("127.0.0.9", 1))
            assert beats.count(node.address) >= 6

    with_node(work)
