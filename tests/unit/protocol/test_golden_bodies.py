"""Every recorded body: by its type, and by the dialect alone; README of the records, rule 2."""

import zlib
from typing import Any

import pytest

from cometmq.protocol import (
    BadBody,
    Body,
    ClusterInfo,
    Command,
    ConsumerIds,
    ConsumerOffsetWrapper,
    HeartbeatData,
    RegisterBroker,
    RegisterBrokerBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
    TopicRouteData,
    fastjson,
)
from tests.unit.protocol.samples import Sample, recorded

BODIES: dict[tuple[int, str], type[Body]] = {
    (21, "response"): TopicConfigWrapper,
    (34, "request"): HeartbeatData,
    (38, "response"): ConsumerIds,
    (43, "response"): ConsumerOffsetWrapper,
    (103, "request"): RegisterBrokerBody,
    (105, "response"): TopicRouteData,
    (106, "response"): ClusterInfo,
    (200, "request"): SubscriptionGroupConfig,
    (201, "response"): SubscriptionGroupWrapper,
    (217, "request"): TopicRouteData,
    (351, "response"): TopicConfig,
    (352, "response"): SubscriptionGroupConfig,
}
# Equal as data only, says the README: other clients' heartbeats, and a raw 103 with blanks.
OTHER_WRITERS = ("go", "js")
GARBAGE = "raw: hb garbage"
# 4.x has fewer members (they are read as their defaults), and so have hand-written bodies.
FEWER = ("raw: 217", "raw: 217 unknown broker", "background of a running client")


def covers(recorded: Any, written: Any) -> bool:
    """Whether every recorded member was written with the same value; new ones may have come."""
    if isinstance(recorded, dict):
        return all(k in written and covers(v, written[k]) for k, v in recorded.items())
    if isinstance(recorded, list):
        return len(recorded) == len(written) and all(map(covers, recorded, written))
    return str(recorded) == str(written)  # Go writes hashes as texts


def with_bodies() -> list[tuple[Sample, type[Body]]]:
    return [
        (sample, BODIES[sample.code, sample.direction])
        for sample in recorded()
        if (sample.code, sample.direction) in BODIES and sample.frame.body and sample.whole
    ]


def test_typed_bodies_come_back_as_they_were_recorded() -> None:
    exact = 0
    for sample, kind in with_bodies():
        data = sample.frame.body
        if sample.by == GARBAGE:
            with pytest.raises(BadBody):
                kind.read(data)
            continue
        if kind is RegisterBrokerBody:
            continue
        body = kind.read(data)
        forms = [body.write(), body.write(strict=True)]
        exact += data in forms
        if data not in forms:
            fewer = sample.version == "4.9.7" or sample.by in FEWER
            assert fewer or sample.by.startswith(OTHER_WRITERS), sample
            given = fastjson.loads(data)
            assert any(covers(given, fastjson.loads(form)) for form in forms), sample
        assert kind.read(forms[0]) == kind.read(forms[1]) == body
    assert exact >= 71


def test_registrations_are_read_or_refused_by_name() -> None:
    refused = []
    for sample, _ in with_bodies():
        if sample.code != 103 or sample.direction == "response":
            continue
        command = Command.read(sample.frame)
        crc = command.fields.get("bodyCrc32", "0")
        if crc != "0" and "crc" not in sample.by:
            assert zlib.crc32(command.body) & 0x7FFFFFFF == int(crc), sample
        if command.body.startswith(b"x") or command.version < 37:
            refused.append(sample.version)
            with pytest.raises(BadBody, match="not built yet"):
                RegisterBrokerBody.read(command.body, 0, command.version)
            continue
        body = RegisterBrokerBody.read(command.body, 0, command.version)
        if body.write() != command.body:
            assert sample.version == "4.9.7" or "raw" in sample.by, sample
    assert refused


def test_every_json_body_comes_back_in_the_same_letters_from_the_dialect_alone() -> None:
    exact = 0
    for sample in recorded():
        data = sample.frame.body
        if not (sample.whole and data.startswith((b"{", b"["))):
            continue
        value = fastjson.loads(data)
        same = data in (fastjson.dumps(value), fastjson.dumps(value, strict=True))
        assert same or sample.by == "raw: old broker version 36: bare wrapper", sample
        exact += same
    assert exact >= 220


def test_the_header_of_a_registration_carries_the_check_sum_of_its_body() -> None:
    with pytest.raises(BadBody, match="crc32 not match"):
        RegisterBrokerBody.read(b"{}", crc=1)
    crc = zlib.crc32(b"{}") & 0x7FFFFFFF
    assert RegisterBrokerBody.read(b"{}", crc=crc) == RegisterBrokerBody()
    assert (
        RegisterBroker.read(
            {
                "brokerName": "b",
                "brokerAddr": "a",
                "clusterName": "c",
                "haServerAddr": "h",
                "brokerId": "0",
            }
        ).body_crc32
        == 0
    )
