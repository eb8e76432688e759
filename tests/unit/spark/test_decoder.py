"""The decoder into Arrow beside the kernel's: golden stores, made records, odd ones."""

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernel import Malformed
from cometmq.kernel.pure.records import V1, V2, Record, decode_all, size_of, walk
from cometmq.message import SysFlag
from tests.kernels import encode
from tests.spark.rows import Row, row_of, rows_of
from tests.unit.kernel.test_records import STORES, golden, log_of

pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from cometmq.spark import decoder  # noqa: E402
from cometmq.spark.columns import COLUMNS  # noqa: E402

NARROW, WIDE = b"\x7f\0\0\1\0\0\x1f\x90", bytes(15) + b"\1" + b"\0\0\x1f\x90"


def decoded(data: bytes, *columns: str) -> list[Row]:
    batches = list(decoder.batches(data, "broker-a", columns or tuple(COLUMNS)))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(decoder.schema(columns or tuple(COLUMNS)))
    return rows_of(batches)


def record(body: bytes = b"body", properties: bytes = b"", **other: Any) -> Record:
    """A record with what matters to a test."""
    topic = other.setdefault("topic", "orders")
    hosts = other.setdefault("born_host", NARROW), other.setdefault("store_host", NARROW)
    wide = (len(hosts[0]) == 20) << 4 | (len(hosts[1]) == 20) << 5
    fields = {
        "position": 0,
        "size": size_of(len(topic.encode()), len(body), len(properties), *map(len, hosts)),
        "magic": V2 if len(topic.encode()) > 127 else V1,
        "body_crc": zlib.crc32(body) & 0x7FFFFFFF,
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "born_ms": 1_700_000_000_000,
        "store_ms": 1_700_000_000_001,
        "reconsume_times": 0,
        "prepared_offset": 0,
    }
    other["sys_flag"] = other.get("sys_flag", 0) | wide
    return Record(**{**fields, **other, "body": body, "properties": properties})


@pytest.mark.parametrize("store", STORES)
def test_every_column_of_a_golden_store_is_what_the_kernel_reads(store: str) -> None:
    _, files = golden(store)
    for position, data in log_of(files).items():
        _, end, _ = walk(data, 0, position, position + len(data))
        known = decode_all(data[:end])
        # All but the value of every record, and all of those whose compression is built.
        expected = [row_of(one._replace(body=b""), "broker-a") for one in known]
        others = [name for name in COLUMNS if name != "value"]
        assert decoded(data[:end], *others) == [
            {name: row[name] for name in others} for row in expected
        ]
        built = [one for one in known if one.sys_flag & SysFlag.COMPRESSION in (0, SysFlag.ZLIB)]
        pieces = [data[one.position - position :][: one.size] for one in built]
        assert decoded(b"".join(pieces)) == [row_of(one, "broker-a") for one in built]


@pytest.mark.parametrize("store", ["5.3.3-ipv6", "4.9.7-ipv6"])
def test_hosts_with_ipv6_stand_in_brackets_and_make_ids_of_56_digits(store: str) -> None:
    _, files = golden(store)
    (position, data), *_ = log_of(files).items()
    _, end, _ = walk(data, 0, position, position + len(data))
    rows = decoded(data[:end], "bornHost", "storeHost", "offsetMsgId")
    assert {len(row["offsetMsgId"]) for row in rows if row["storeHost"][0] == "["} == {56}
    assert {row["bornHost"][0] for row in rows} == {"[", "1"}


ODD = """TAGS|a; TAGS|b; KEYS|k l; UNIQ_KEY|u WAIT|true; x|; |y; z; ; a|b|c; TIMER_OUT_MS|12; \
TIMER_OUT_MS|x; TIMER_DELIVER_MS|1700000000000; é|\N{GRINNING FACE}; TAGS|t"""
PIECE = st.one_of(
    st.sampled_from([f"{one}\2".encode().replace(b"|", b"\1") for one in ODD.split("; ")]),
    st.sampled_from([b"\xff\1\xfe\2", b"UNIQ_KEY\1v", b"TAGS\1c"]),
    st.binary(max_size=6),
)
HOST = st.sampled_from([NARROW, WIDE, b"\x0a\0\0\1\0\0\0\1", bytes(range(20))])
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
ZIPPED = SysFlag.COMPRESSED | SysFlag.ZLIB


TOPIC = st.one_of(
    st.sampled_from(["t", "t" * 128, "t" * 255]), st.text("aé", min_size=1, max_size=60)
)
LONGS = ("position", "queue_offset", "born_ms", "store_ms", "prepared_offset")
INTS = ("queue_id", "flag", "reconsume_times", "body_crc")


@st.composite
def records_made(draw: st.DrawFn) -> Record:
    """Any record that the format knows."""
    body = draw(st.one_of(st.just(b""), st.binary(max_size=40)))
    form = draw(st.sampled_from(["plain", "packed", "said to be packed"]))
    return record(
        {"plain": body, "packed": zlib.compress(body), "said to be packed": b""}[form],
        b"".join(draw(st.lists(PIECE, max_size=6))),
        topic=draw(TOPIC),
        born_host=draw(HOST),
        store_host=draw(HOST),
        sys_flag=draw(st.sampled_from([0, 2, 8, 0x300] if form == "plain" else [ZIPPED, 1])),
        **{name: draw(LONG) for name in LONGS},
        **{name: draw(INT) for name in INTS},
    )


@given(st.lists(records_made(), max_size=12))
def test_every_column_of_any_records_is_what_the_kernel_reads(made: list[Record]) -> None:
    data = b"".join(map(encode, made))
    assert decoded(data) == [row_of(one, "broker-a") for one in decode_all(data)]


@given(st.lists(records_made(), min_size=1, max_size=3), st.data())
def test_what_the_kernel_refuses_is_refused(made: list[Record], data: st.DataObject) -> None:
    text = bytearray(b"".join(map(encode, made)))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    text = text[: data.draw(st.integers(len(text) - 2, len(text)))]
    try:
        known: list[Record] | None = decode_all(text)
    except Malformed as fault:
        if "UTF-8" in str(fault):
            return  # a topic that is no text is shown with U+FFFD
        known = None
    columns = [name for name in COLUMNS if name not in ("value", "bodyCrc")]
    if known is None or any(one.sys_flag & SysFlag.INNER_BATCH for one in known):
        with pytest.raises(Malformed):
            decoded(bytes(text), *columns)
    else:
        rows = decoded(bytes(text), *columns)
        assert [row["physicalOffset"] for row in rows] == [one.position for one in known]


@pytest.mark.spec("PIPE-9")
@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        (b"", {}),
        (b"a\1b", {"a": "b"}),
        (b"a\1b\2", {"a": "b"}),
        (b"WAIT\1false\2a\1b\2WAIT\1true\2", {"WAIT": "true", "a": "b"}),
        (b"a\1b\1c\2", {"a": "b\1c"}),
        (b"a\1\2\1b\2c\2\2d\1e", {"d": "e"}),
        (b"\xff\1x\2\xfe\1y\2", {"\ufffd": "y"}),
        ("clé\1\N{SNOWMAN}\2".encode(), {"clé": "\N{SNOWMAN}"}),
    ],
)
def test_properties_are_read_by_the_rules_of_the_format(text: bytes, pairs: dict[str, str]) -> None:
    # Between others, so that what one string leaves open does not reach into the next.
    others = [record(properties=b"x\1y"), record(properties=b"\2"), record(properties=b"")]
    data = b"".join(encode(one) for one in (others[0], record(properties=text), *others))
    assert [row["properties"] for row in decoded(data)] == [{"x": "y"}, pairs, {"x": "y"}, {}, {}]


def test_a_body_that_is_empty_once_decompressed_is_empty_and_not_null() -> None:
    rows = decoded(
        encode(record(zlib.compress(b""), sys_flag=ZIPPED))
        + encode(record(b"", sys_flag=ZIPPED))
        + encode(record(zlib.compress(b"x" * 9000), sys_flag=SysFlag.COMPRESSED))
        + encode(record(b"plain"))
    )
    assert [row["value"] for row in rows] == [b"", b"", b"x" * 9000, b"plain"]
    assert [row["sysFlag"] for row in rows] == [0x301, 0x301, 1, 0]


def test_bodies_that_grow_as_they_are_decompressed_do_not_come_in_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoder, "MOST_INFLATED", 4000)
    bodies = [bytes([number]) * 600 for number in range(10)]
    data = b"".join(encode(record(zlib.compress(one), sys_flag=ZIPPED)) for one in bodies)
    batches = list(decoder.batches(data, "b", ("queueId", "value")))
    assert [batch.num_rows for batch in batches] == [2] * 5
    assert [row["value"] for row in rows_of(batches)] == bodies


def test_a_body_that_is_too_large_or_damaged_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_INFLATED", 4000)
    for body in (zlib.compress(bytes(5000)), b"no zlib"):
        data = encode(record(body, sys_flag=ZIPPED, queue_id=3, queue_offset=17))
        with pytest.raises(Malformed, match="queue 3, offset 17"):
            decoded(data)
        assert decoded(data, "queueOffset") == [{"queueOffset": 17}]


def test_an_inner_batch_is_refused_by_name() -> None:
    with pytest.raises(Malformed, match="inner batch"):
        decoded(encode(record(sys_flag=0xC0)))


def test_batches_are_cut_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_ROWS", 4)
    monkeypatch.setattr(decoder, "MOST_BYTES", 1000)
    made = [record(bytes(size), queue_offset=at) for at, size in enumerate([1] * 9 + [5000, 1, 1])]
    batches = list(decoder.batches(b"".join(map(encode, made)), "b", ("queueOffset",)))
    assert [batch.num_rows for batch in batches] == [4, 4, 1, 1, 2]
    assert [row["queueOffset"] for row in rows_of(batches)] == list(range(12))


@pytest.mark.spec("PIPE-98")
def test_on_plain_records_nothing_looks_at_single_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("a message was looked at alone")

    monkeypatch.setattr(decoder, "decompress", looked)
    monkeypatch.setattr(decoder, "_mended", looked)
    text = b"KEYS\1a b\2WAIT\1true\2TAGS\1t\2WAIT\1true\2UNIQ_KEY\1u\2"
    data = encode(record(bytes(1000), text)) * 3000
    assert len(decoded(data)) == 3000


def test_a_column_alone_is_the_same_as_among_others() -> None:
    made = [record(b"%d" % at, b"TAGS\1%d\2" % at, queue_offset=at) for at in range(5)]
    data = b"".join(map(encode, made))
    whole = decoded(data)
    for name in COLUMNS:
        assert decoded(data, name) == [{name: row[name]} for row in whole]
