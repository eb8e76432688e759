"""Registrations in, routes out: the rules of the name server's tables, without any I/O."""

import pytest

from cometmq.nameserver.routes import Routes
from cometmq.protocol import (
    DataVersion,
    RegisterBroker,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from cometmq.serving import Refused

NOW = 1_000_000


def hello(address="10.0.0.1:10911", *, number=0, name="a", timeout_ms=None):
    return RegisterBroker(
        broker_name=name,
        broker_addr=address,
        cluster_name="c",
        ha_server_addr=address.replace("10911", "10912"),
        broker_id=number,
        heartbeat_timeout_millis=timeout_ms,
    )


def topics(*names, version=1, state=0, queues=4, perm=6):
    table = {
        one: TopicConfig(topic_name=one, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
        for one in names
    }
    wrapper = TopicConfigWrapper(DataVersion(version, state, 7), topic_config_table=table)
    return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)


@pytest.fixture
def routes():
    return Routes()


@pytest.mark.spec("RN30")
def test_a_registered_broker_is_in_the_routes_of_its_topics_and_in_the_cluster(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    route = routes.route("T")
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert (route.queue_datas[0].broker_name, route.queue_datas[0].read_queue_nums) == ("a", 4)
    assert routes.cluster().cluster_addr_table == {"c": ("a",)}


@pytest.mark.spec("RN31")
def test_a_slave_is_told_its_living_master(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    told = routes.register(hello("10.0.0.2:10911", number=1), topics("T", "U"), 2, NOW)
    assert (told.master_addr, told.ha_server_addr) == ("10.0.0.1:10911", "10.0.0.1:10912")


def test_a_slave_alone_is_in_the_cluster_and_makes_no_routes(routes):
    routes.register(hello("10.0.0.2:10911", number=1), topics("T", "U"), 1, NOW)
    assert routes.cluster().broker_addr_table["a"].broker_addrs == {1: "10.0.0.2:10911"}
    assert routes.route("T") is None


@pytest.mark.spec("RN33")
def test_a_broker_that_comes_back_with_another_id_is_listed_once(routes):
    routes.register(hello(number=1), topics("T", "U"), 1, NOW)
    routes.register(hello(number=0), topics("T", "U", version=2), 1, NOW)
    assert routes.route("T").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


@pytest.mark.spec("RN34")
def test_a_master_that_was_replaced_is_ignored(routes):
    routes.register(hello(), topics("T", "U", state=2), 1, NOW)
    routes.register(hello("10.0.0.9:10911"), topics("T", "U", state=1), 2, NOW)
    assert routes.route("T").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


@pytest.mark.spec("RN35")
def test_one_topic_before_the_full_registration_is_refused_and_leaves_nothing(routes):
    with pytest.raises(Refused, match="register broker failed"):
        routes.register(hello(), topics("T"), 1, NOW)
    assert routes.cluster().broker_addr_table == {}


def test_one_topic_after_the_full_registration_is_added(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello(), topics("V", version=2), 1, NOW)
    assert routes.route("V") is not None
    assert routes.route("T") is not None


def test_an_unchanged_version_changes_no_queues(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello(), topics("T", "U", queues=8), 1, NOW)
    assert routes.route("T").queue_datas[0].read_queue_nums == 4
    routes.register(hello(), topics("T", "U", queues=8, version=2), 1, NOW)
    assert routes.route("T").queue_datas[0].read_queue_nums == 8


@pytest.mark.spec("RN39", "RN40")
def test_a_broker_that_leaves_takes_its_address_then_its_name_then_its_cluster(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.2:10911", number=1), topics("T", "U"), 2, NOW)
    routes.unregister("10.0.0.2:10911")
    assert routes.route("T").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    routes.unregister("10.0.0.1:10911")
    assert routes.route("T") is None
    assert routes.cluster().cluster_addr_table == {}


def test_the_end_of_a_connection_takes_what_was_registered_through_it(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.connection_ended(2)
    assert routes.route("T") is not None
    routes.connection_ended(1)
    assert routes.route("T") is None


def test_a_silent_broker_goes_after_120_seconds_or_the_time_it_asked_for(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.2:10911", name="b", timeout_ms=10_000), topics("T", "U"), 2, NOW)
    assert routes.expire(NOW + 10_000) == []
    assert routes.expire(NOW + 10_001) == [2]
    assert routes.expire(NOW + 120_000) == []
    assert routes.expire(NOW + 120_001) == [1]
    assert routes.route("T") is None


def test_a_broker_that_outlives_its_name_goes_without_harm(routes):
    """Another broker took its place under the same name and id, and left again."""
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.9:10911"), topics("T", "U", version=2), 2, NOW)
    routes.unregister("10.0.0.9:10911")
    assert routes.expire(NOW + 120_001) == [1]
    assert routes.route("T") is None


SLAVE = "10.0.0.2:10911"


def perms(routes, topic="T"):
    route = routes.route(topic)
    return {} if route is None else {one.broker_name: one.perm for one in route.queue_datas}


@pytest.mark.parametrize("before", [6, 7])
def test_when_a_master_leaves_its_queues_stay_as_they_are_while_its_slave_is_there(routes, before):
    routes.register(hello(), topics("T", "U", perm=before), 1, NOW)
    routes.register(hello(SLAVE, number=1), topics("T", "U"), 2, NOW)
    routes.unregister("10.0.0.1:10911")
    assert perms(routes) == {"a": before}
    routes.register(hello(), topics("T", "U", version=2), 1, NOW)
    assert perms(routes) == {"a": 6}


def test_when_a_slave_leaves_its_masters_queues_stay_as_they_are(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello(SLAVE, number=1), topics("T", "U"), 2, NOW)
    routes.unregister(SLAVE)
    assert perms(routes) == {"a": 6}
    routes.unregister("10.0.0.1:10911")
    assert perms(routes) == {}


@pytest.mark.spec("RN34")
@pytest.mark.parametrize(("state", "address"), [(1, "1"), (2, "9"), (3, "9")])
def test_of_two_masters_the_one_with_the_newer_state_is_listed(routes, state, address):
    routes.register(hello(), topics("T", "U", state=2), 1, NOW)
    routes.register(hello("10.0.0.9:10911"), topics("T", "U", state=state), 2, NOW)
    assert routes.route("T").broker_datas[0].broker_addrs == {0: f"10.0.0.{address}:10911"}


def test_a_slave_without_master_is_told_none_and_a_master_neither(routes):
    for number in (1, 0):
        told = routes.register(hello(number=number), topics("T", "U"), 1, NOW)
        assert (told.master_addr, told.ha_server_addr) == (None, None)


def test_a_topic_that_two_brokers_have_is_theirs_until_both_have_left(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.2:10911", name="b"), topics("T", "V"), 2, NOW)
    assert set(perms(routes)) == {"a", "b"}
    routes.unregister("10.0.0.1:10911")
    assert (set(perms(routes)), perms(routes, "U")) == ({"b"}, {})
    routes.unregister("10.0.0.1:10911")  # gone already
    routes.unregister("10.0.0.2:10911")
    assert perms(routes) == {}


def test_all_that_was_registered_through_one_connection_goes_with_it(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.2:10911", name="b"), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.3:10911", name="c"), topics("T", "U"), 2, NOW)
    routes.connection_ended(1)
    assert set(perms(routes)) == {"c"}


def test_a_broker_that_registers_again_is_not_silent(routes):
    for later in (0, 100_000):
        routes.register(hello(), topics("T", "U"), 1, NOW + later)
    assert routes.expire(NOW + 200_000) == []
    assert routes.expire(NOW + 220_001) == [1]


def test_brokers_are_listed_by_their_cluster(routes):
    routes.register(hello(), topics("T", "U"), 1, NOW)
    routes.register(hello("10.0.0.2:10911", name="b"), topics("T", "U"), 2, NOW)
    found = routes.cluster()
    assert found.cluster_addr_table == {"c": ("a", "b")}
    assert found.broker_addr_table["b"].broker_addrs == {0: "10.0.0.2:10911"}
