"""Typed bodies by themselves: leniency, versions, routes, registrations."""

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.protocol import (
    BadBody,
    Body,
    BrokerData,
    ConsumerOffsetWrapper,
    DataVersion,
    GetRouteInfo,
    HeartbeatData,
    QueueData,
    RegisterBrokerBody,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicRouteData,
    fastjson,
)

GOLDEN = Path(__file__).parents[2] / "golden"
ADDRESSES = {0: "10.0.0.1:10911", 1: "10.0.0.2:10911", 10: "10.0.0.3:10911"}


def route(addresses: dict[int, str]) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[BrokerData(addresses, "broker-a", "DefaultCluster")],
        queue_datas=[QueueData("broker-a", 6, 4, 0, 4)],
    )


def test_the_route_of_the_specification_is_written_to_the_byte() -> None:
    assert route({0: "10.0.0.1:10911"}).write() == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":'
        b'"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{'
        b'"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


@pytest.mark.parametrize(
    ("version", "accepts", "strict"),
    [(317, None, False), (400, "false", False), (401, None, True), (317, "true", True)],
)
def test_only_a_peer_that_can_read_it_gets_a_strict_route(
    version: int, accepts: str | None, strict: bool
) -> None:
    fields = {"topic": "t"} | ({"acceptStandardJsonOnly": accepts} if accepts else {})
    wants = GetRouteInfo.read(fields).wants_strict(version)
    data = route(dict(reversed(ADDRESSES.items()))).write(strict=wants)
    sorted_quoted = b'{"0":"10.0.0.1:10911","1":"10.0.0.2:10911","10":"10.0.0.3:10911"}'
    unquoted = b'{10:"10.0.0.3:10911",1:"10.0.0.2:10911",0:"10.0.0.1:10911"}'
    assert (sorted_quoted if strict else unquoted) in data
    assert b" " not in data
    assert TopicRouteData.read(data) == route(ADDRESSES)


@pytest.mark.spec("RN26")
@pytest.mark.parametrize(
    "keys",
    [
        '{{"brokerName":"b","queueId":0,"topic":"T"}:7}',
        '{{"topic":"T",\'brokerName\':"b",queueId:"0"}:"7"}',
        r'{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":7.0}',
        '{{"$ref":"$.queue"}:7}',
    ],
)
def test_maps_keyed_by_objects_are_read_in_every_spelling(keys: str) -> None:
    queue = '{"brokerName":"b","queueId":0,"topic":"T"}'
    found = fastjson.loads(f'{{"queue":{queue},"offsetTable":{keys}}}')
    [(key, offset)] = found["offsetTable"].items()
    named = fastjson.loads(key)
    assert (named["brokerName"], int(named["queueId"]), named["topic"]) == ("b", 0, "T")
    assert int(offset) == 7
    assert fastjson.loads(fastjson.dumps(found)) == found


@pytest.mark.spec("RN26")
@pytest.mark.parametrize("table", ['{0:1,"1":2}', '{"0":"1","1":2}', "{0:1,1:2,}", "{'0':1,+1:02}"])
def test_maps_keyed_by_numbers_are_read_in_every_spelling(table: str) -> None:
    body = ConsumerOffsetWrapper.read(f'{{"offsetTable":{{"t@g":{table}}},"new":{{}}}}'.encode())
    assert body.offset_table == {"t@g": {0: 1, 1: 2}}


def test_nulls_and_missing_members_are_their_defaults_and_unknown_ones_nothing() -> None:
    for data in (b"{}", b'{"attributes":null,"perm":null,"zzz":[{}]}', b"{perm:null}"):
        assert TopicConfig.read(data) == TopicConfig()


@pytest.mark.parametrize(
    ("data", "perm", "name", "order"),
    [
        (b'{"perm":"4","topicName":5,"order":"TRUE"}', 4, "5", True),
        (b'{"perm":4.0,"topicName":true,"order":1}', 4, "true", True),
        (b'{"perm":+4,"topicName":"x","order":"0"}', 4, "x", False),
    ],
)
def test_a_value_of_another_kind_is_taken_for_what_it_means(
    data: bytes, perm: int, name: str, order: bool
) -> None:
    config = TopicConfig.read(data)
    assert (config.perm, config.topic_name, config.order) == (perm, name, order)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"xx",
        b"[]",
        b"7",
        b"null",
        b'{"perm":"x"}',
        b'{"perm":2147483648}',
        b'{"perm":1e999}',
        b'{"perm":[]}',
        b'{"order":"maybe"}',
        b'{"attributes":[]}',
        b'{"attributes":7}',
        b'{"perm":1}}',
        b'{"attributes":' * 10_000,
        b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b"\xff",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_garbage_is_a_bad_body(data: bytes) -> None:
    with pytest.raises(BadBody):
        TopicConfig.read(data)


@given(
    st.binary(max_size=60),
    st.sampled_from([HeartbeatData, RegisterBrokerBody, ConsumerOffsetWrapper]),
)
def test_no_bytes_break_the_reader(data: bytes, kind: type[Body]) -> None:
    for prefix in (b"", b"{", b'{"offsetTable":{', b"x\xda"):
        try:
            kind.read(prefix + data)
        except BadBody:
            pass


def test_what_is_kept_as_it_came_is_not_deeper_than_what_can_be_written() -> None:
    def deep(levels: int) -> bytes:
        return b'{"groupRetryPolicy":%b1%b}' % (b'{"[{":' * levels, b"}" * levels)

    assert SubscriptionGroupConfig.read(deep(99)).write()
    with pytest.raises(BadBody, match="at most 100 levels"):
        SubscriptionGroupConfig.read(deep(100))


def test_a_version_grows_with_every_change() -> None:
    assert DataVersion(3, 7, 5).next(6) == DataVersion(4, 7, 6)


def test_a_new_group_has_the_defaults_of_the_original() -> None:
    lines = map(json.loads, (GOLDEN / "consumer" / "names.jsonl").read_text().splitlines())
    bodies = {one["name"]: one for one in lines if one["kind"] == "body"}
    sample = bodies["SubscriptionGroupConfig"]["json"].encode()
    assert SubscriptionGroupConfig(group_name="g").write() == sample


def test_a_heartbeat_is_written_in_the_letters_of_the_original() -> None:
    """In those of which its fingerprint is made."""
    lines = map(json.loads, (GOLDEN / "consumer" / "names.jsonl").read_text().splitlines())
    beats = [one for one in lines if one.get("name", "").startswith("HeartbeatData")]
    assert len(beats) == 3
    for one in beats:
        assert HeartbeatData.read(one["json"].encode()).write().decode() == one["json"]


def test_registrations_that_are_not_built_yet_are_refused_by_name() -> None:
    with pytest.raises(BadBody, match="compressed registration: not built yet"):
        RegisterBrokerBody.read(zlib.compress(b"{}", 9))
    with pytest.raises(BadBody, match=r"before 3\.0\.11: not built yet"):
        RegisterBrokerBody.read(b"{}", 0, 36)
    assert RegisterBrokerBody.read(b"{}", 0, 37) == RegisterBrokerBody()


def test_many_references_are_refused() -> None:
    beat = (
        b'{"consumerDataSet":[{"subscriptionDataSet":[]}'
        + b',{"$ref":"$.consumerDataSet[0]"}' * 2000
    )
    with pytest.raises(BadBody, match="references"):
        HeartbeatData.read(beat + b"]}")
