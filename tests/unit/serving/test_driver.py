"""The driver over the simulated network: waiting, limits, permission, errors, one-way."""

import asyncio
import random
import types

import pytest

from cometmq.net import Channel, Limits, Server
from cometmq.protocol import (
    Command,
    GetMaxOffset,
    GetMinOffset,
    HeartBeat,
    OffsetAnswer,
    QueryConsumerOffset,
    ViewMessageById,
)
from cometmq.runtime import Clock, Signal
from cometmq.serving import (
    OPEN,
    Answer,
    Driver,
    Gate,
    Refused,
    Wait,
    handler_table,
    handles,
)
from cometmq.testing import SimulatedNetwork, simulate


class Bell:
    """What the waiting handler waits for."""

    def __init__(self):
        self.rings = Signal()
        self.looked = 0


@handles(GetMaxOffset, needs=OPEN, most_waiting=3)
def wait_for_the_bell(bell: Bell, ask: GetMaxOffset, now_ms: int):
    """Answers at the third look, or when the time is over."""

    def look(now_ms):
        bell.looked += 1
        if bell.looked == 3 or now_ms >= until:
            return OffsetAnswer(bell.looked)
        return Wait(bell.rings, until, look)

    until = now_ms + 10_000
    return look(now_ms)


@handles(ViewMessageById, needs=OPEN)
def wait_for_ever(bell: Bell, ask: ViewMessageById, now_ms: int):
    """Has another bug: it waits on when its time is over."""
    return Wait(bell.rings, now_ms + 5_000, lambda now_ms: Wait(bell.rings, now_ms + 5_000, None))


@handles(GetMinOffset, needs=OPEN)
def fail(ask: GetMinOffset):
    """Has a bug."""
    raise ZeroDivisionError("a bug")


@handles(HeartBeat, needs=OPEN, largest_body=10)
def echo(ask: HeartBeat, request: Command):
    """Gives the body back."""
    return Answer(body=request.body)


@handles(QueryConsumerOffset, needs=OPEN)
def say_no(ask: QueryConsumerOffset):
    """Refuses."""
    raise Refused(22, "no")


def with_driver(work, closed=lambda bell, table: None, **limits):
    """Runs `work(channel, bell, table)`, and `closed(bell, table)` once the driver is closed."""

    async def main():
        network = SimulatedNetwork(random.Random(2))
        bell = Bell()
        module = types.ModuleType("handlers")
        for one in (wait_for_the_bell, wait_for_ever, fail, echo, say_no):
            setattr(module, one.__name__, one)
        table = handler_table([module], [bell])
        driver = Driver(table, Gate("127.0.0.1"), Clock(), **limits)
        server = Server(driver.took, Limits())
        await server.start(network.machine(), "127.0.0.1", 1)
        channel = await Channel.open(network.machine(), server.address, lambda asked: None)
        try:
            return await work(channel, bell, table)
        finally:
            driver.close()
            closed(bell, table)
            channel.close()
            server.close()

    return simulate(main)


def ask(channel, header=None, body=b"", within_s=60):
    return channel.ask(Command.request(header or GetMaxOffset("T", 0), body), within_s)


def test_a_handler_waits_again_and_answers_on_the_state_of_then():
    async def work(channel, bell, table):
        answer = asyncio.ensure_future(ask(channel))
        for _ in range(2):
            await asyncio.sleep(1)
            bell.rings.fire(None)
        assert OffsetAnswer.read((await answer).fields).offset == 3
        assert table[30].waiting == 0
        assert not bell.rings

    with_driver(work)


def test_the_deadline_does_not_move_when_a_handler_waits_again():
    async def work(channel, bell, table):
        began = asyncio.get_running_loop().time()
        answer = asyncio.ensure_future(ask(channel))
        await asyncio.sleep(9)
        bell.rings.fire(None)
        await answer
        assert asyncio.get_running_loop().time() - began == pytest.approx(10, abs=0.1)

    with_driver(work)


def test_what_a_closed_connection_waits_for_is_dropped():
    async def work(channel, bell, table):
        answer = asyncio.ensure_future(ask(channel))
        await asyncio.sleep(1)
        assert table[30].waiting == 1
        channel.close()
        await asyncio.sleep(1)
        assert table[30].waiting == 0
        assert not bell.rings
        answer.cancel()

    with_driver(work)


@pytest.mark.spec("RN57")
@pytest.mark.parametrize(("limits", "taken"), [({}, 3), ({"most_waiting": 2}, 2)])
def test_more_than_may_wait_are_told_to_come_later(limits, taken):
    async def work(channel, bell, table):
        bell.looked = -1000
        answers = [asyncio.ensure_future(ask(channel)) for _ in range(5)]
        await asyncio.sleep(1)
        busy = [one.result() for one in answers if one.done()]
        assert len(busy) == 5 - taken
        assert {one.code for one in busy} == {2}
        assert busy[0].remark.startswith("[OVERLOAD]")
        for one in answers:
            await one

    with_driver(work, **limits)


def test_a_bug_is_code_1_and_the_connection_lives_on():
    async def work(channel, bell, table):
        answer = await ask(channel, GetMinOffset("T", 0))
        assert (answer.code, answer.remark) == (1, "ZeroDivisionError: a bug")
        assert (await ask(channel, HeartBeat(), b"abc")).body == b"abc"

    with_driver(work)


def test_a_handler_that_waits_on_when_its_time_is_over_is_a_bug_and_leaves_nobody_waiting():
    async def work(channel, bell, table):
        answer = await ask(channel, ViewMessageById(0))
        assert (answer.code, table[33].waiting) == (1, 0)
        assert "wait_for_ever must answer when its time is over" in answer.remark

    with_driver(work)


def test_a_body_may_be_as_large_as_its_limit():
    async def work(channel, bell, table):
        assert (await ask(channel, HeartBeat(), bytes(10))).body == bytes(10)

    with_driver(work)


def test_a_body_beyond_its_limit_is_refused_with_the_limit():
    async def work(channel, bell, table):
        answer = await ask(channel, HeartBeat(), bytes(11))
        assert answer.code == 1
        assert answer.remark.endswith("11 bytes is too large for code 34, which takes 10 at most")

    with_driver(work)


@pytest.mark.spec("RN8")
def test_a_oneway_request_is_never_answered_whatever_becomes_of_it():
    async def work(channel, bell, table):
        heard = []
        took = channel._took
        channel._took = lambda connection, items: (
            heard.extend(items),
            took(connection, items),
        )
        for header in (HeartBeat(), GetMinOffset("T", 0), QueryConsumerOffset("g", "T", 0)):
            channel.tell(Command.request(header))
        channel.tell(Command(code=9999))
        channel.tell(Command(code=30))
        await asyncio.sleep(1)
        assert heard == []
        assert (await ask(channel, QueryConsumerOffset("g", "T", 0))).code == 22
        assert len(heard) == 1

    with_driver(work)


@pytest.mark.spec("RN9")
def test_a_thousand_pipelined_requests_are_all_answered_each_once():
    async def work(channel, bell, table):
        answers = [asyncio.ensure_future(ask(channel, HeartBeat(), b"%d" % n)) for n in range(1000)]
        bodies = [(await one).body for one in answers]
        assert bodies == [b"%d" % n for n in range(1000)]

    with_driver(work)


@pytest.mark.spec("RN22")
def test_all_pending_calls_fail_at_once_when_their_connection_closes():
    async def work(channel, bell, table):
        bell.looked = -1000
        answers = [asyncio.ensure_future(ask(channel)) for _ in range(3)]
        await asyncio.sleep(0.5)
        began = asyncio.get_running_loop().time()
        channel.close()
        for one in answers:
            with pytest.raises(Exception, match=r"the connection to 127\.0\.0\.1:1 ended"):
                await one
        assert asyncio.get_running_loop().time() == began

    with_driver(work)


@pytest.mark.spec("RN23")
def test_a_call_ends_at_its_time_and_a_late_answer_harms_nobody():
    async def work(channel, bell, table):
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(TimeoutError):
            await ask(channel, within_s=2)
        assert loop.time() - began == pytest.approx(2, abs=1e-6)
        await asyncio.sleep(20)
        assert (await ask(channel, HeartBeat(), b"x")).body == b"x"

    with_driver(work)


def test_what_waits_when_the_driver_is_closed_is_dropped():
    async def work(channel, bell, table):
        asyncio.ensure_future(ask(channel)).add_done_callback(lambda one: one.exception())
        await asyncio.sleep(1)
        assert (table[30].waiting, bool(bell.rings)) == (1, True)

    def closed(bell, table):
        assert (table[30].waiting, bool(bell.rings)) == (0, False)

    with_driver(work, closed)


def test_a_place_that_was_left_is_free_for_the_next_who_waits():
    async def work(channel, bell, table):
        bell.looked = -1000
        for _ in range(3):
            answers = [asyncio.ensure_future(ask(channel)) for _ in range(3)]
            await asyncio.sleep(20)
            assert {one.result().code for one in answers} == {0}

    with_driver(work)


def test_who_need_not_wait_is_served_while_no_more_may_wait():
    async def work(channel, bell, table):
        first = asyncio.ensure_future(ask(channel))
        await asyncio.sleep(1)
        assert (await ask(channel)).code == 2
        assert (await ask(channel)).code == 0  # the bell's third look
        await first

    with_driver(work, most_waiting=1)
