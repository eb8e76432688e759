"""The name server over the simulated network: what clients and brokers see of it."""

import asyncio
import random
import zlib

import pytest

from cometmq.nameserver import NameServer, NameServerSettings
from cometmq.net import Address, Channel
from cometmq.protocol import (
    ClusterInfo,
    Command,
    DataVersion,
    GetBrokerClusterInfo,
    GetMaxOffset,
    GetRouteInfo,
    RegisterBroker,
    RegisterBrokerBody,
    ResponseCode,
    TopicConfig,
    TopicConfigWrapper,
    UnregisterBroker,
)
from cometmq.testing import SimulatedNetwork, simulate

BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigWrapper(
        DataVersion(1, 0, 1),
        topic_config_table={name: TopicConfig(topic_name=name) for name in ("T", "U")},
    )
)
HELLO = RegisterBroker(
    broker_name="a",
    broker_addr="10.0.0.1:10911",
    cluster_name="c",
    ha_server_addr="10.0.0.1:10912",
    broker_id=0,
)


def with_server(work, *, host="127.0.0.1", client="127.0.0.1", **settings):
    """Runs `work(ask, channel, server)` against a name server on a virtual clock."""

    async def main():
        network = SimulatedNetwork(random.Random(1))
        server = NameServer(NameServerSettings(host, 9876, **settings), network.machine(host))
        await server.start()
        channel = await Channel.open(network.machine(client), server.address, lambda asked: None)

        async def ask(header, body=b"", **more):
            command = Command.request(header, body)
            for name, value in more.items():
                setattr(command, name, value)
            return await channel.ask(command, 5)

        try:
            return await work(ask, channel, server)
        finally:
            channel.close()
            server.close()

    return simulate(main)


def test_a_route_is_served_in_the_form_that_the_client_reads():
    async def work(ask, channel, server):
        assert (await ask(HELLO, BODY.write())).code == ResponseCode.SUCCESS
        old = await ask(GetRouteInfo("T"), version=317)
        new = await ask(GetRouteInfo("T"), version=401)
        asked = await ask(GetRouteInfo("T", accept_standard_json_only=True), version=317)
        assert b'"brokerAddrs":{0:"10.0.0.1:10911"}' in old.body
        assert b'"brokerAddrs":{"0":"10.0.0.1:10911"}' in new.body
        assert new.body == asked.body

    with_server(work)


def test_a_topic_that_nobody_has_is_code_17_with_the_text_that_tools_match():
    async def work(ask, channel, server):
        answer = await ask(GetRouteInfo("nobody"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        expected = "No topic route info in name server for the topic: nobody\nSee https://"
        assert answer.remark.startswith(expected)

    with_server(work)


@pytest.mark.spec("RN29")
def test_a_registration_with_a_wrong_check_sum_is_refused():
    async def work(ask, channel, server):
        body = BODY.write()
        right = zlib.crc32(body) & 0x7FFFFFFF
        for crc, code in ((right, 0), (right ^ 1, 1)):
            header = RegisterBroker(**{**vars(HELLO), "body_crc32": crc})
            answer = await ask(header, body)
            assert answer.code == code
        assert answer.remark == "crc32 not match"

    with_server(work)


@pytest.mark.spec("RN36")
def test_a_broker_whose_connection_ends_is_out_of_the_routes_within_a_second():
    async def work(ask, channel, server):
        await ask(HELLO, BODY.write())
        channel.close()
        await asyncio.sleep(1)
        assert server.routes.route("T") is None

    with_server(work)


@pytest.mark.spec("RN37")
def test_a_silent_broker_is_out_after_its_time_and_at_most_one_scan():
    async def work(ask, channel, server):
        header = RegisterBroker(**{**vars(HELLO), "heartbeat_timeout_millis": 60_000})
        await ask(header, BODY.write())
        await asyncio.sleep(59)
        assert server.routes.route("T") is not None
        await asyncio.sleep(6.1)
        assert server.routes.route("T") is None

    with_server(work)


def test_the_cluster_list_and_the_leaving_of_a_broker():
    async def work(ask, channel, server):
        await ask(HELLO, BODY.write())
        cluster = ClusterInfo.read((await ask(GetBrokerClusterInfo())).body)
        assert cluster.broker_addr_table["a"].broker_addrs == {0: "10.0.0.1:10911"}
        gone = UnregisterBroker("a", "10.0.0.1:10911", "c", 0)
        assert (await ask(gone)).code == ResponseCode.SUCCESS
        assert ClusterInfo.read((await ask(GetBrokerClusterInfo())).body).broker_addr_table == {}

    with_server(work)


@pytest.mark.spec("RN7")
def test_a_code_that_nobody_serves_is_code_3_with_its_number():
    async def work(ask, channel, server):
        answer = await ask(GetMaxOffset("T", 0))
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == " request type 30 not supported"

    with_server(work)


@pytest.mark.spec("RN13")
def test_a_missing_field_is_named():
    async def work(ask, channel, server):
        command = Command(code=105)
        answer = await channel.ask(command, 5)
        assert (answer.code, answer.remark) == (1, "the custom field topic is null")

    with_server(work)


def test_beyond_loopback_only_named_addresses_may_register():
    async def work(ask, channel, server):
        return await ask(HELLO, BODY.write())

    refused = with_server(work, host="10.0.0.7", client="10.0.0.8")
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "adminAllowedAddresses" in refused.remark
    allowed = with_server(
        work, host="10.0.0.7", client="10.0.0.8", admin_allowed_addresses=("10.0.0.0/24",)
    )
    assert allowed.code == ResponseCode.SUCCESS
    assert with_server(work, host="10.0.0.7", client="10.0.0.7").code == ResponseCode.SUCCESS


def test_a_closed_connection_fails_what_waits_on_it():
    async def work(ask, channel, server):
        assert Address.parse(str(server.address)) == server.address
        server.close()
        await asyncio.sleep(1)
        assert not channel.usable

    with_server(work)


FOREIGN = {"host": "10.0.0.7", "client": "10.0.0.8"}


@pytest.mark.parametrize(
    ("where", "allowed", "code"),
    [
        ({"host": "127.0.0.1", "client": "127.0.0.1"}, (), 0),
        ({"host": "127.0.0.1", "client": "10.0.0.8"}, (), 0),
        ({"host": "::1", "client": "10.0.0.8"}, (), 0),
        ({"host": "10.0.0.7", "client": "127.0.0.1"}, (), 0),
        ({"host": "10.0.0.7", "client": "127.9.9.9"}, (), 0),
        ({"host": "10.0.0.7", "client": "::1"}, (), 0),
        ({"host": "10.0.0.7", "client": "10.0.0.7"}, (), 0),
        (FOREIGN, (), 16),
        (FOREIGN, ("10.0.0.8",), 0),
        (FOREIGN, ("10.0.0.9",), 16),
        (FOREIGN, ("10.0.0.0/24",), 0),
        (FOREIGN, ("10.0.1.0/24",), 16),
        (FOREIGN, ("10.0.1.0/24", "10.0.0.1/24"), 0),
        (FOREIGN, ("fd00::/8",), 16),
        ({"host": "0.0.0.0", "client": "10.0.0.8"}, (), 16),
        ({"host": "fd00::7", "client": "fd00::8"}, (), 16),
        ({"host": "fd00::7", "client": "fd00::8"}, ("fd00::/8",), 0),
    ],
)
def test_who_may_make_administrative_requests(where, allowed, code):
    async def work(ask, channel, server):
        return (await ask(HELLO, BODY.write())).code

    assert with_server(work, **where, admin_allowed_addresses=allowed) == code


def test_whoever_may_not_register_a_broker_may_ask_for_routes():
    async def work(ask, channel, server):
        return (await ask(GetBrokerClusterInfo())).code

    assert with_server(work, **FOREIGN) == 0


def test_a_broker_that_was_silent_too_long_has_to_connect_again():
    async def work(ask, channel, server):
        header = RegisterBroker(**{**vars(HELLO), "heartbeat_timeout_millis": 10_000})
        await ask(header, BODY.write())
        await asyncio.sleep(9)
        assert channel.usable
        await asyncio.sleep(7)
        assert not channel.usable

    with_server(work)


@pytest.mark.parametrize(("interval_ms", "latest_s"), [(1_000, 11.1), (20_000, 40.1)])
def test_how_often_silent_brokers_are_looked_for_is_a_setting(interval_ms, latest_s):
    async def work(ask, channel, server):
        header = RegisterBroker(**{**vars(HELLO), "heartbeat_timeout_millis": 10_000})
        began = asyncio.get_running_loop().time()
        await ask(header, BODY.write())
        while channel.usable:
            await asyncio.sleep(0.1)
        passed = asyncio.get_running_loop().time() - began
        assert latest_s - interval_ms / 1000 - 0.2 <= passed <= latest_s

    with_server(work, scan_not_active_broker_interval=interval_ms)


def test_a_name_server_listens_on_loopback_and_the_originals_port_unless_told_otherwise():
    async def main():
        server = NameServer(NameServerSettings(), SimulatedNetwork(random.Random(1)).machine())
        await server.start()
        assert str(server.address) == "127.0.0.1:9876"
        server.close()

    simulate(main)


def test_a_name_server_that_was_closed_does_nothing_more():
    async def main():
        server = NameServer(NameServerSettings(), SimulatedNetwork(random.Random(1)).machine())
        await server.start()
        await asyncio.sleep(10)
        server.close()
        loop = asyncio.get_running_loop()
        turns = loop.turns
        await asyncio.sleep(1000)
        assert loop.turns - turns < 10

    simulate(main)


def test_a_broker_may_have_ten_thousand_topics():
    async def work(ask, channel, server):
        names = [f"topic-{n}" for n in range(10_000)]
        table = {name: TopicConfig(topic_name=name) for name in names}
        wrapper = TopicConfigWrapper(DataVersion(1, 0, 1), topic_config_table=table)
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).write()
        assert len(body) > 1 << 20
        assert (await ask(HELLO, body)).code == 0
        assert (await ask(GetRouteInfo("topic-9999"))).code == 0

    with_server(work)
