"""Channels and their pool, against servers that are slow, away, or talk nonsense."""

import asyncio
import random

import pytest

from cometmq.kernel import frames
from cometmq.net import Address, Channel, ChannelClosed, NotConnected, Pool, Server
from cometmq.protocol import Command, GetMaxOffset, HeartBeat
from cometmq.runtime import TimedOut
from cometmq.testing import SimulatedNetwork, simulate

HERE = Address("127.0.0.1", 1)
ASK = GetMaxOffset("T", 0)


def now():
    return asyncio.get_running_loop().time()


class Slow:
    """A client's network on which connecting takes its time."""

    def __init__(self, network):
        self._network = network
        self.takes_s = 0.0
        self.connected = 0

    async def connect(self, host, port, accept):
        await asyncio.sleep(self.takes_s)
        self.connected += 1
        return await self._network.connect(host, port, accept)


class World:
    """A server that keeps what it is asked and answers what a test says, and a client's network."""

    def __init__(self):
        network = SimulatedNetwork(random.Random(4))
        self.machine = network.machine()
        self.network = Slow(network.machine())
        self.asked = []
        self.connections = []
        self.says = lambda asked: Command.answer(0, asked.opaque, 0, None).write()

    async def open(self):
        self.server = Server(self.took)
        await self.server.start(self.machine, *HERE)

    def took(self, connection, items):
        if connection not in self.connections:
            self.connections.append(connection)
        for frame in items:
            asked = Command.read(frame)
            self.asked.append(asked)
            said = self.says(asked)
            if said is not None:
                connection.write(said)


def run(work):
    async def main():
        world = World()
        await world.open()
        try:
            return await work(world)
        finally:
            world.server.close()

    return simulate(main)


def silent(asked):
    return None


def test_answers_find_who_asked_in_whatever_order_they_come():
    async def work(world):
        held = []

        def reversed_pairs(asked):
            body = asked.fields["queueId"].encode()
            held.append(Command.answer(0, asked.opaque, 0, None, {}, body).write())
            if len(held) < 10:
                return None
            return b"".join(reversed(held))

        world.says = reversed_pairs
        pool = Pool(world.network)
        answers = await asyncio.gather(*(pool.ask(HERE, GetMaxOffset("T", n)) for n in range(10)))
        assert [one.body for one in answers] == [b"%d" % n for n in range(10)]
        pool.close()

    run(work)


def test_all_who_ask_at_once_share_one_connection():
    async def work(world):
        world.network.takes_s = 1.0
        opened = []
        pool = Pool(world.network, opened=opened.append)
        await asyncio.gather(*(pool.ask(HERE, ASK) for _ in range(10)))
        await pool.ask(HERE, ASK)
        assert (world.network.connected, opened) == (1, [HERE])
        pool.close()

    run(work)


def test_a_connection_that_was_lost_is_made_again():
    async def work(world):
        opened = []
        pool = Pool(world.network, opened=opened.append)
        assert not pool.is_open(HERE)
        await pool.ask(HERE, ASK)
        assert pool.is_open(HERE)
        world.connections[0].close()
        await asyncio.sleep(1)
        assert not pool.is_open(HERE)
        await pool.ask(HERE, ASK)
        assert opened == [HERE, HERE]
        pool.close()

    run(work)


@pytest.mark.parametrize(
    ("within_s", "waits_s"), [(1.0, 1.0), (3.0, 3.0), (10.0, 3.0), (None, 3.0)]
)
def test_connecting_takes_no_longer_than_asking_may_and_three_seconds(within_s, waits_s):
    async def work(world):
        world.network.takes_s = 1000.0
        pool = Pool(world.network)
        began = now()
        with pytest.raises(NotConnected, match=f"no answer within {within_s or 3.0:.1f} s"):
            await (pool.ask(HERE, ASK) if within_s is None else pool.ask(HERE, ASK, within_s))
        assert now() - began == pytest.approx(waits_s, abs=0.01)
        pool.close()

    run(work)


def test_connecting_counts_against_the_time_of_a_question():
    async def work(world):
        world.network.takes_s = 1.5
        world.says = silent
        pool = Pool(world.network)
        began = now()
        with pytest.raises(TimedOut):
            await pool.ask(HERE, ASK, 2.0)
        assert now() - began == pytest.approx(2.0, abs=0.01)
        pool.close()

    run(work)


@pytest.mark.parametrize(("given", "waits_s"), [((), 3.0), ((0.25,), 0.25)])
def test_a_question_that_is_not_answered_in_time_says_where_and_how_long(given, waits_s):
    async def work(world):
        world.says = silent
        pool = Pool(world.network)
        began = now()
        with pytest.raises(TimedOut, match=r"on the channel 127\.0\.0\.1:1 timeout"):
            await pool.ask(HERE, ASK, *given)
        assert now() - began == pytest.approx(waits_s, abs=0.01)
        pool.close()

    run(work)


def test_who_is_not_there_is_named():
    async def work(world):
        pool = Pool(world.network)
        nobody = Address("127.0.0.1", 7)
        for work in (pool.ask(nobody, ASK), pool.tell(nobody, ASK)):
            with pytest.raises(
                NotConnected, match=r"connect to 127\.0\.0\.1:7 failed: Connection ref"
            ):
                await work
        pool.close()

    run(work)


def test_what_is_told_is_not_waited_for_and_asks_for_no_answer():
    async def work(world):
        world.says = silent
        pool = Pool(world.network)
        began = now()
        await pool.tell(HERE, HeartBeat(), b"body")
        assert now() - began < 0.1
        await asyncio.sleep(1)
        [told] = world.asked
        assert (told.code, told.is_oneway, told.body) == (HeartBeat.code, True, b"body")
        pool.close()

    run(work)


def test_a_question_may_go_by_another_code_with_the_same_fields():
    async def work(world):
        pool = Pool(world.network)
        await pool.ask(HERE, ASK, code=999)
        await pool.tell(HERE, ASK, code=998)
        await asyncio.sleep(1)
        assert [one.code for one in world.asked] == [999, 998]
        assert world.asked[0].fields == world.asked[1].fields
        pool.close()

    run(work)


@pytest.mark.parametrize("nonsense", [frames.join(0, b"no JSON"), b"\xff" * 16])
def test_a_server_that_talks_nonsense_is_hung_up_on(nonsense):
    async def work(world):
        world.says = lambda asked: nonsense
        pool = Pool(world.network)
        began = now()
        with pytest.raises(ChannelClosed, match=r"the connection to 127\.0\.0\.1:1 ended"):
            await pool.ask(HERE, ASK)
        assert now() - began < 1
        await asyncio.sleep(1)
        assert not world.connections[0].usable
        world.says = World().says
        assert (await pool.ask(HERE, ASK)).code == 0
        pool.close()

    run(work)


def test_an_answer_that_comes_twice_or_late_or_to_nobody_is_passed_over():
    async def work(world):
        def often(asked):
            stray = Command.answer(0, asked.opaque + 1000, 1, None).write()
            return stray + Command.answer(0, asked.opaque, 0, None).write() * 2

        world.says = often
        pool = Pool(world.network)
        for _ in range(3):
            assert (await pool.ask(HERE, ASK)).code == 0
        assert pool.is_open(HERE)
        pool.close()

    run(work)


@pytest.mark.parametrize("oneway", [False, True])
def test_what_the_server_asks_is_answered_unless_it_wants_none(oneway):
    async def work(world):
        def asked(command):
            return Command.answer(command.codec, command.opaque, 3, "no")

        pool = Pool(world.network, asked)
        await pool.ask(HERE, ASK)
        command = Command(code=220, opaque=7)
        world.says = silent
        world.connections[0].write((command.oneway() if oneway else command).write())
        await asyncio.sleep(1)
        answers = [(one.opaque, one.code, one.remark) for one in world.asked if one.is_answer]
        assert answers == ([] if oneway else [(7, 3, "no")])
        pool.close()

    run(work)


def test_what_the_server_asks_may_be_left_without_an_answer():
    async def work(world):
        pool = Pool(world.network)
        await pool.ask(HERE, ASK)
        world.connections[0].write(Command(code=220, opaque=7).write())
        await asyncio.sleep(1)
        assert [one for one in world.asked if one.is_answer] == []
        pool.close()

    run(work)


@pytest.mark.parametrize("when", ["asking", "connecting", "after"])
def test_a_pool_that_is_closed_fails_who_waits_and_who_comes_later(when):
    async def work(world):
        pool = Pool(world.network)
        world.says = silent
        if when == "connecting":
            world.network.takes_s = 1.0
        if when == "after":
            pool.close()
        asking = asyncio.ensure_future(pool.ask(HERE, ASK))
        await asyncio.sleep(0.5)
        pool.close()
        with pytest.raises(ChannelClosed):
            await asking
        await asyncio.sleep(5)
        assert all(not one.usable for one in world.connections)
        assert not pool.is_open(HERE)

    run(work)


def test_a_channel_that_has_ended_sends_nothing_more():
    async def work(world):
        channel = await Channel.open(world.network, HERE, lambda asked: None)
        assert channel.usable
        channel.close()
        assert not channel.usable
        command = Command.request(ASK)
        with pytest.raises(ChannelClosed, match=r"send request to 127\.0\.0\.1:1 failed"):
            await channel.ask(command, 1)
        with pytest.raises(ChannelClosed):
            channel.tell(command)

    run(work)


def test_what_was_told_before_the_end_still_leaves():
    async def work(world):
        channel = await Channel.open(world.network, HERE, lambda asked: None)
        for _ in range(3):
            channel.tell(Command.request(ASK))
        channel.close()
        await asyncio.sleep(1)
        assert len(world.asked) == 3

    run(work)


def test_a_client_reads_on_while_its_server_takes_nothing():
    """Each would wait for the other for ever, if a client stopped reading as servers do."""

    async def work(world):
        world.says = lambda asked: Command.answer(0, asked.opaque, 0, None, {}, asked.body).write()
        pool = Pool(world.network)
        large = bytes(512 << 10)
        answers = await asyncio.gather(*(pool.ask(HERE, ASK, 60.0, large) for _ in range(8)))
        assert [one.body for one in answers] == [large] * 8
        pool.close()

    run(work)
