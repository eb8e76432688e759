"""Messages and their parts: validation, properties, ids, flags, compression, batches, names."""

import ipaddress
import json
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernel import headers, records
from cometmq.message import (
    LARGEST_BODY,
    BadCompression,
    BadMessage,
    Message,
    SysFlag,
    UniqueIds,
    check_batch,
    compress,
    decompress,
    encode_batch,
    names,
    offset_id,
    properties,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "consumer"
MONTH_MS = 1_698_796_800_000  # November 2023 began, in UTC
BATCH = (
    "000000610000000000000000000000000000000568656c6c6f00464b455953016b3102554e49515f4b4559014330"
    "413830313033323542343644303644363943373041323131343030303030025741495401747275650254414753015461"
    "674102"
)


def golden(name: str, kind: str) -> list[dict[str, Any]]:
    lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    return [one for one in map(json.loads, lines) if one["kind"] == kind]


@pytest.mark.spec("PR13")
@pytest.mark.parametrize(
    ("topic", "body", "text", "code"),
    [
        ("t", None, "the message body is null", 13),
        ("t", b"", "the message body length is zero", 13),
        ("t", bytes(LARGEST_BODY + 1), f"body size over max value, MAX: {LARGEST_BODY}", 13),
        ("", b"x", "The specified topic is blank.", None),
        (" ", b"x", "The specified topic is blank.", None),
        ("a b", b"x", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$", None),
        ("../a", b"x", "contains illegal characters", None),
        ("a\n", b"x", "contains illegal characters", None),
        ("é", b"x", "contains illegal characters", None),
        ("x" * 128, b"x", "The specified topic is longer than topic max length 127.", None),
        ("SELF_TEST_TOPIC", b"x", "Sending message to topic[SELF_TEST_TOPIC] is forbidden.", None),
        ("rmq_sys_x", b"x", "Sending message to topic[rmq_sys_x] is forbidden.", None),
    ],
)
def test_what_no_broker_would_take_is_refused_before_it_is_sent(
    topic: str, body: Any, text: str, code: int | None
) -> None:
    with pytest.raises(BadMessage) as caught:
        Message(topic, body).check()
    assert text in str(caught.value)
    assert caught.value.code == code


@pytest.mark.parametrize("topic", ["x" * 127, "TBW102", "%RETRY%" + "g" * 200, "a|b%c_d-1"])
def test_a_message_that_can_be_sent_passes(topic: str) -> None:
    Message(topic, b"x").check()


@pytest.mark.spec("PR14")
@pytest.mark.parametrize("name", [*sorted(properties.RESERVED), "__RMQ.TRANSIENT.x"])
def test_a_name_of_the_system_is_no_property_of_a_user(name: str) -> None:
    with pytest.raises(BadMessage) as caught:
        Message("t", b"x", properties={name: "v"})
    assert str(caught.value) == f"The Property<{name}> is used by system, input another please"


@pytest.mark.parametrize(
    "given",
    [{"": "v"}, {" ": "v"}, {"a": ""}, {"a": " "}, {"a": "x\2y"}, {"a\1": "x"}, {"a\2": "x"}],
)
def test_a_property_that_would_not_come_back_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadMessage):
        Message("t", b"x", properties=given)


@pytest.mark.parametrize("given", [{"keys": ["a b"]}, {"keys": [""]}, {"tag": "a\2b"}])
def test_a_key_or_tag_that_would_not_come_back_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        Message("t", b"x", **given)


def test_a_message_says_what_is_stored_with_it() -> None:
    message = Message("t", b"x", tag="a", keys=["1", "2"], properties={"p": "q"}, wait_stored=False)
    stored = message.stored_properties("ID")
    assert stored == {"p": "q", "KEYS": "1 2", "UNIQ_KEY": "ID", "WAIT": "false", "TAGS": "a"}
    assert Message("t", b"x", keys="1 2").keys == ("1", "2")
    assert Message("t", b"x").stored_properties() == {"WAIT": "true"}
    with pytest.raises(BadMessage, match="properties take"):
        Message("t", b"x", properties={"p": "q" * 32767}).check()


@pytest.mark.spec("PR15")
@pytest.mark.parametrize("one", golden("messages.jsonl", "parseProperties"), ids=repr)
def test_property_strings_are_read_as_the_original_reads_them(one: dict[str, Any]) -> None:
    data = (one["text"] or "").encode()
    assert properties.parse(data) == one["map"]
    assert properties.parse(data.removesuffix(b"\2")) == one["map"]
    assert properties.parse(data + b"\2") == one["map"]


@pytest.mark.parametrize("one", golden("messages.jsonl", "properties"), ids=repr)
def test_property_strings_are_written_as_the_original_writes_them(one: dict[str, Any]) -> None:
    given = {name: value for name, value in one["map"].items() if value is not None}
    assert properties.encode(given).hex() == one["utf8"]
    assert properties.parse(bytes.fromhex(one["utf8"])) == one["back"]


def test_a_rewritten_property_string_is_plain_and_free_of_what_the_broker_says() -> None:
    odd = b"a\x011\x02\x02a\x012\x02b\x01\x02\x01c\x02CLUSTER\x01x\x02MSG_REGION\x01x\x02"
    odd += b"TRACE_ON\x01x\x02POP_CK\x01x\x02__RMQ.TRANSIENT.x\x01y\x02d\x013"
    assert properties.rewrite(odd) == b"a\x012\x02d\x013\x02"
    send = headers.Send(properties=properties.rewrite(odd))
    assert not send.marks & (headers.OWN | headers.ODD)
    assert properties.rewrite(b"a\x011\x02b\x012", put={"a": "9"}) == b"b\x012\x02a\x019\x02"


def test_a_member_of_a_batch_gets_the_batch_s_properties_and_keeps_its_id() -> None:
    batch = properties.encode({"WAIT": "false", "UNIQ_KEY": "B", "p": "q"})
    own = properties.of_member(properties.encode({"UNIQ_KEY": "M", "WAIT": "true"}), batch)
    assert properties.parse(own) == {"UNIQ_KEY": "M", "WAIT": "false", "p": "q"}
    without = properties.of_member(b"a\x011", batch)
    assert properties.parse(without) == {"a": "1", "WAIT": "false", "UNIQ_KEY": "B", "p": "q"}


@pytest.mark.parametrize("one", golden("messages.jsonl", "uniqueId"), ids=repr)
def test_a_unique_id_has_the_layout_of_the_original(one: dict[str, Any]) -> None:
    text = one["id"]
    ids = UniqueIds(one["ip"], one["pid"], Random(1))
    made = ids.make(MONTH_MS + 86_400_000)
    assert len(made) == len(text) == 32
    assert made[:12] == text[:12]
    assert made == made.upper()
    assert made.endswith("0000")


@pytest.mark.spec("PR18")
def test_a_million_unique_ids_are_different() -> None:
    ids = UniqueIds("192.168.1.3", 9652, Random(7))
    made = {ids.make(MONTH_MS + at // 60_000) for at in range(1_000_000)}
    assert len(made) == 1_000_000
    assert {len(one) for one in made} == {32}
    wide = UniqueIds("[fd00::2]", 1, Random(7)).make(MONTH_MS)
    assert (len(wide), wide[:32]) == (56, "FD000000000000000000000000000002")
    assert wide == wide.upper()
    assert properties.parse(b"UNIQ_KEY\1" + wide.lower().encode()) == {"UNIQ_KEY": wide.lower()}


def test_the_time_in_an_id_counts_from_the_month_and_never_back() -> None:
    ids = UniqueIds("1.2.3.4", 1, Random(1))

    def since(now_ms: int) -> int:
        return int(ids.make(now_ms)[20:28], 16)

    middle = since(MONTH_MS + 10 * 86_400_000)
    assert since(MONTH_MS + 10 * 86_400_000 + 5) == middle + 5
    later = since(MONTH_MS + 31 * 86_400_000)
    assert later < 3 * 86_400_000
    base = MONTH_MS + 31 * 86_400_000 - later
    assert since(base - 1000) == 0  # the clock was set back a little
    assert since(base - 2_000_000) > 28 * 86_400_000  # and a lot


@pytest.mark.parametrize("one", golden("messages.jsonl", "offsetMessageId"), ids=repr)
def test_an_offset_id_is_that_of_the_original(one: dict[str, Any]) -> None:
    host = ipaddress.ip_address(one["host"]).packed + one["port"].to_bytes(4)
    assert offset_id(host, one["offset"]) == one["id"]


@pytest.mark.parametrize("one", golden("names.jsonl", "hashCode"), ids=repr)
def test_a_text_has_java_s_hash(one: dict[str, Any]) -> None:
    text = one["text"]
    if text is not None and one.get("hash") != 55357:  # half a pair is no UTF-8: nothing has it
        assert headers.java_hash(text.encode()) == one.get("hash", 0)


def test_flags_have_the_values_of_the_original() -> None:
    one = golden("messages.jsonl", "sysFlag")[0]
    for ours, theirs in (
        (SysFlag.COMPRESSED, "compressed"),
        (SysFlag.MULTI_TAGS, "multiTags"),
        (SysFlag.PREPARED, "prepared"),
        (SysFlag.COMMIT, "commit"),
        (SysFlag.ROLLBACK, "rollback"),
        (SysFlag.BORN_HOST_V6, "bornV6"),
        (SysFlag.STORE_HOST_V6, "storeV6"),
        (SysFlag.INNER_BATCH, "innerBatch"),
        (SysFlag.LZ4, "lz4"),
        (SysFlag.ZSTD, "zstd"),
        (SysFlag.ZLIB, "zlib"),
    ):
        assert ours == one[theirs]
    for sample in golden("messages.jsonl", "compressionOfSysFlag"):
        kind = SysFlag(sample["sysFlag"]) & SysFlag.COMPRESSION
        assert (kind or SysFlag.ZLIB).name == sample["type"]


@pytest.mark.parametrize("one", golden("messages.jsonl", "compressed"), ids=lambda one: one["type"])
def test_bodies_that_java_compressed_are_read_or_refused_by_name(one: dict[str, Any]) -> None:
    kind, data = SysFlag[one["type"]], bytes.fromhex(one["hex"])
    if kind is not SysFlag.ZLIB:
        with pytest.raises(BadCompression, match=rf"compressed with {kind.name}: not built yet"):
            decompress(data, kind | 1, 2000)
        return
    assert decompress(data, kind | 1, 2000) == b"a" * 2000
    with pytest.raises(BadCompression, match="more than 1999"):
        decompress(data, kind | 1, 1999)
    with pytest.raises(BadCompression):
        decompress(data[:-6], kind | 1, 2000)
    with pytest.raises(BadCompression):
        decompress(b"garbage!" * 9, kind | 1, 2000)


@given(st.binary(max_size=500))
def test_what_is_compressed_is_read_again(body: bytes) -> None:
    data, bits = compress(body)
    assert bits == 0x301
    assert data[:2] == b"\x78\x5e"
    assert decompress(data, bits, 500) == decompress(data, 1, 500) == body
    assert decompress(body, 0, 0) == body


def test_an_unknown_compression_and_a_bomb_are_refused() -> None:
    with pytest.raises(BadCompression, match="0x500"):
        decompress(b"x", 0x501, 10)
    with pytest.raises(BadCompression, match="more than 1000"):
        decompress(zlib.compress(bytes(10**7)), 1, 1000)


@pytest.mark.spec("PR34")
def test_a_batch_is_written_to_the_byte_of_the_examples() -> None:
    pairs = {
        "KEYS": "k1",
        "UNIQ_KEY": "C0A8010325B46D06D69C70A211400000",
        "WAIT": "true",
        "TAGS": "TagA",
    }
    assert encode_batch([(0, b"hello", properties.encode(pairs))]).hex() == BATCH
    [one] = golden("messages.jsonl", "batchBody")
    members = [
        (at, b"body%d" % at, b"KEYS\1key%d\2WAIT\1true\2TAGS\1Tag%d\2" % (at, at))
        for at in range(3)
    ]
    assert encode_batch(members).hex() == one["hex"]
    assert records.members(bytes.fromhex(one["hex"])) == members


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "at least one message"),
        ([Message("a", b"x"), Message("b", b"x")], "The topic of the messages in one batch"),
        ([Message("a", b"x"), Message("a", b"x", wait_stored=False)], "waitStoreMsgOK"),
        ([Message("%RETRY%g", b"x")], "Retry Group is not supported for batching"),
        ([Message("a", b"x"), Message("a", b"")], "length is zero"),
        ([Message("a", b"xx"), Message("a", bytes(LARGEST_BODY + 1))], f"MAX: {LARGEST_BODY}"),
    ],
)
def test_messages_that_make_no_batch_are_refused(messages: list[Message], text: str) -> None:
    with pytest.raises(BadMessage, match=text):
        check_batch(messages)


def test_a_whole_batch_has_the_limit_of_one_message() -> None:
    room = LARGEST_BODY - len(encode_batch([(0, b"", b"")]))
    assert len(encode_batch([(0, bytes(room), b"")])) == LARGEST_BODY
    with pytest.raises(BadMessage, match=f"MAX: {LARGEST_BODY}"):
        encode_batch([(0, bytes(room), b""), (0, b"x", b"")])


def test_groups_have_names_of_the_same_letters() -> None:
    assert names.group_fault("please_rename-unique%group") is None
    for group in ("", " ", "a b", "x" * 256, "a/b", "g\n"):
        assert names.group_fault(group)


def test_a_retry_topic_may_be_longer_and_a_broker_names_no_number() -> None:
    assert names.topic_fault(names.retry_topic("g" * 248)) is None
    assert names.topic_fault(names.DLQ + "g" * 251)
    text = "The specified topic is longer than topic max length."
    assert names.topic_fault("x" * 128, by_broker=True) == text


@pytest.mark.parametrize(
    ("topic", "system", "sendable"),
    [
        ("TBW102", True, True),
        ("RMQ_SYS_TRACE_TOPIC", True, True),
        ("SCHEDULE_TOPIC_XXXX", True, False),
        ("rmq_sys_wheel_timer", True, False),
        ("orders", False, True),
        ("%RETRY%g", False, True),
    ],
)
def test_topics_of_the_system_are_known(topic: str, system: bool, sendable: bool) -> None:
    assert names.is_system_topic(topic) is system
    assert names.may_send_to(topic) is sendable
    assert names.is_system_group("CID_RMQ_SYS_x")
    assert not names.is_system_group("orders")
