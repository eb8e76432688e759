"""What servers see of a client besides its work: name servers in turn, heartbeats, a goodbye."""

import asyncio
import random

import pytest

from cometmq.client import BrokerRefused, ClientError, MessageQueue
from cometmq.message import Message
from cometmq.protocol import (
    BrokerData,
    Command,
    GetRouteInfo,
    HeartBeat,
    HeartbeatData,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from tests.unit.client.conftest import now, reply, route

HI = Message("T", b"hi")
ROUTE, BEAT, BYE = (
    GetRouteInfo.code,
    HeartBeat.code,
    UnregisterClient.code,
)


def asked(stage):
    return [len(one.of(ROUTE)) for one in stage.names]


@pytest.mark.parametrize("trouble", ["silent", "away"])
def test_the_next_name_server_is_asked_while_one_gives_no_answer(stage, trouble):
    async def work(stage):
        for one in stage.names[:2]:
            one.says = {}
            if trouble == "away":
                one.close()
        async with stage.producer(timeout_ms=10_000) as producer:
            await producer.send(HI)
            assert asked(stage)[2] == 1
            await asyncio.sleep(95)  # and stays the one that is asked
        assert asked(stage)[2] == 4
        assert max(asked(stage)[:2]) <= 1

    stage(work, names=3)


def test_clients_do_not_all_begin_with_the_same_name_server(stage):
    async def work(stage):
        for n in range(12):
            async with stage.producer(random=random.Random(n)) as producer:
                await producer.send(HI)
        assert min(asked(stage)) > 0

    stage(work, names=2)


def test_that_no_name_server_answers_is_said_with_all_their_addresses(stage):
    async def work(stage):
        for one in stage.names:
            one.close()
        async with stage.producer() as producer:
            with pytest.raises(ClientError, match="no name server answers for topic 'T'") as failed:
                await producer.send(HI)
        for one in stage.names:
            assert f"connect to {one.address} failed" in str(failed.value)

    stage(work, names=2)


def test_a_name_server_that_refuses_is_said_with_its_code(stage):
    async def work(stage):
        stage.names[0].says[ROUTE] = lambda asked: reply(16)
        async with stage.producer() as producer:
            with pytest.raises(BrokerRefused, match="route of 'T'") as refused:
                await producer.send(HI)
        assert refused.value.code == 16

    stage(work)


def test_a_topic_that_a_name_server_has_forgotten_keeps_its_route(stage):
    async def work(stage):
        async with stage.producer() as producer:
            await producer.send(HI)
            del stage.routes["T"]
            await asyncio.sleep(100)
            await producer.send(HI)

    stage(work)


def test_routes_are_asked_for_again_every_half_minute(stage):
    async def work(stage):
        old, new = stage.brokers.values()
        stage.routes["T"] = route(old)
        async with stage.producer() as producer:
            await producer.send(HI)
            stage.routes["T"] = route(new)
            await asyncio.sleep(29)
            assert (await producer.send(HI)).broker == "broker-2"
            await asyncio.sleep(2)
            assert (await producer.send(HI)).broker == "broker-3"
        times = stage.names[0].times_of(ROUTE)
        assert times[1] - times[0] == pytest.approx(30, abs=0.1)

    stage(work, brokers=2)


def beats(broker):
    return [HeartbeatData.read(one.body) for one in broker.of(BEAT)]


def with_slave(stage):
    """A topic on a broker with a master and a slave."""
    master, slave = stage.brokers.values()
    both = BrokerData(
        broker_name="broker-2",
        broker_addrs={0: str(master.address), 1: str(slave.address)},
        cluster="c",
    )
    stage.routes["T"] = route(master).but(broker_datas=[both])
    return master, slave


def test_a_producer_is_known_to_its_masters_at_once_and_every_half_minute(stage):
    async def work(stage):
        master, slave = with_slave(stage)
        async with stage.producer(group="shop") as producer:
            await producer.send(HI)
            began = now()
            await asyncio.sleep(95)
        assert [round(at - began) for at in master.times_of(BEAT)] == [0, 30, 60, 90]
        assert slave.asked == []
        [said] = {one.write() for one in beats(master)}
        told = HeartbeatData.read(said)
        assert [one.group_name for one in told.producer_data_set] == ["shop"]
        assert told.consumer_data_set == ()

    stage(work, brokers=2)


def test_a_consumer_is_known_to_masters_and_slaves_with_all_it_wants(stage):
    async def work(stage):
        master, slave = with_slave(stage)
        wanted = {"T": "b || a", "U": "*"}
        async with stage.consumer(group="g", subscribe=wanted, start="latest"):
            await asyncio.sleep(10)
        for broker in (master, slave):
            told = beats(broker)[0]
            [consumer] = told.consumer_data_set
            assert told.producer_data_set == ()
            assert (consumer.group_name, consumer.message_model) == ("g", "CLUSTERING")
            assert consumer.consume_type == "CONSUME_PASSIVELY"
            assert consumer.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
            subscribed = {one.topic: one for one in consumer.subscription_data_set}
            assert set(subscribed) == {"T", "U", "%RETRY%g"}
            assert set(subscribed["T"].tags_set) == {"a", "b"}
            assert set(subscribed["T"].code_set) == {97, 98}
            assert subscribed["%RETRY%g"].sub_string == "*"

    stage(work, brokers=2)


@pytest.mark.parametrize(
    ("start", "said"),
    [("earliest", "CONSUME_FROM_FIRST_OFFSET"), ("latest", "CONSUME_FROM_LAST_OFFSET")],
)
def test_a_consumer_says_from_where_it_begins(stage, start, said):
    async def work(stage):
        async with stage.consumer(start=start):
            await asyncio.sleep(1)
        [told, *_] = beats(stage.brokers["broker-2"])
        assert told.consumer_data_set[0].consume_from_where == said

    stage(work)


def test_a_broker_whose_connection_was_lost_is_told_again_who_we_are(stage):
    async def work(stage):
        broker = stage.brokers["broker-2"]
        async with stage.producer() as producer:
            await producer.send(HI)
            await asyncio.sleep(1)
            assert len(beats(broker)) == 1
            for connection in broker.connections:
                connection.close()
            await asyncio.sleep(1)
            await producer.send(HI)
            await asyncio.sleep(1)
            assert len(beats(broker)) == 2

    stage(work)


def leave(kind, stage):
    return stage.producer(group="g") if kind == "producer" else stage.consumer(group="g")


@pytest.mark.parametrize("kind", ["producer", "consumer"])
@pytest.mark.parametrize("error", [None, ValueError])
def test_a_client_that_goes_says_goodbye_for_its_group(stage, kind, error):
    async def work(stage):
        try:
            async with leave(kind, stage) as client:
                if kind == "producer":
                    await client.send(HI)
                await asyncio.sleep(1)
                if error is not None:
                    raise error
        except ValueError:
            pass
        [told, *_] = beats(stage.brokers["broker-2"])
        [bye] = stage.brokers["broker-2"].of(BYE)
        assert bye.fields == {"clientID": told.client_id, f"{kind}Group": "g"}

    stage(work)


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_client_that_is_cancelled_goes_without_a_word(stage, kind):
    async def work(stage):
        async def stay():
            async with leave(kind, stage) as client:
                if kind == "producer":
                    await client.send(HI)
                await asyncio.sleep(100)

        task = asyncio.ensure_future(stay())
        await asyncio.sleep(1)
        began = now()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert now() == began
        await asyncio.sleep(1)
        assert stage.brokers["broker-2"].of(BYE) == []

    stage(work)


def test_a_client_that_has_ended_does_nothing_more(stage):
    async def work(stage):
        async with stage.producer() as producer, stage.consumer():
            await producer.send(HI)
            await asyncio.sleep(1)
        for peer in (*stage.names, *stage.brokers.values()):
            peer.close()
        await asyncio.sleep(5)
        loop = asyncio.get_running_loop()
        turns = loop.turns
        await asyncio.sleep(1000)
        assert loop.turns - turns < 10

    stage(work)


def test_two_clients_of_one_machine_have_different_ids(stage):
    async def work(stage):
        for n in range(2):
            async with stage.producer(random=random.Random(n)) as producer:
                await producer.send(HI)
                await asyncio.sleep(1)
        ids = {one.client_id for one in beats(stage.brokers["broker-2"])}
        assert len(ids) == 2
        assert all(one.startswith("127.0.0.1@") for one in ids)

    stage(work)


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        (Command.request(NotifyConsumerIdsChanged("g")), []),
        (Command(code=220, opaque=7), [3]),
        (Command(code=220, opaque=7).oneway(), []),
    ],
)
def test_what_a_broker_asks_of_a_client_and_is_not_built_is_code_3(stage, command, codes):
    async def work(stage):
        broker = stage.brokers["broker-2"]
        async with stage.producer() as producer:
            await producer.send(HI)
            broker.asked.clear()
            broker.connections[0].write(command.write())
            await asyncio.sleep(1)
            answers = [one for one in broker.asked if one.is_answer]
            assert [one.code for one in answers] == codes
            assert not answers or answers[0].remark == " request type 220 not supported"

    stage(work)


def test_a_broker_that_is_in_no_route_any_more_is_named(stage):
    async def work(stage):
        async with stage.producer() as producer:
            await producer.send(HI)
            nobody = MessageQueue("T", "nobody", 0)
            with pytest.raises(ClientError, match=r"The broker\[nobody\] not exist"):
                await producer.send_oneway(HI, queue=nobody)

    stage(work)


def test_all_who_ask_while_a_name_server_is_away_are_answered_by_another(stage):
    async def work(stage):
        stage.names[0].close()
        for n in range(4):
            async with stage.producer(random=random.Random(n)) as producer:
                found = await asyncio.gather(*(producer.send(HI) for _ in range(8)))
                assert len(found) == 8

    stage(work, names=2)
