"""Any bytes at all: both kernels make the same of them or refuse them, and neither crashes."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernel.pure import frames, headers, records
from tests.kernels import Kernel, encode, outcome, plain

LIMIT = 1 << 16
INT = st.integers(-(1 << 31), (1 << 31) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.sampled_from(
    [*"abcdefghijklmnx", "bname", "ns", "topic", "flag", "queueId", "consumerGroup", "ReqT", ""]
)
NUMBERS = st.one_of(
    INT.map(str), LONG.map(str), st.sampled_from(["", "-0", "007", "+1", " 1", "1e3", "٣"])
)
TEXTS = st.one_of(
    NUMBERS, st.text(max_size=20), st.sampled_from(["true", "TRUE", "T", "\ud83d", "\ude00"])
)
PROPERTY_NAMES = st.sampled_from(
    [
        *("TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "TRAN_MSG", "INNER_NUM", "POP_CK", "TAG"),
        *("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "CLUSTER", "MSG_REGION"),
        *("TRACE_ON", "__RMQ.TRANSIENT.A", "__RMQ.TRANSIENT", "color", ""),
    ]
).map(str.encode)
PIECES = st.one_of(
    st.tuples(
        PROPERTY_NAMES,
        st.sampled_from([b"\1", b"\1", b"\1", b"", b"\1\1"]),
        st.one_of(TEXTS.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=8)),
    ).map(b"".join),
    st.binary(max_size=8),
)
PROPERTIES = st.builds(
    lambda pieces, end: b"\2".join(pieces) + end,
    st.lists(PIECES, max_size=8),
    st.sampled_from([b"", b"\2"]),
)
SEND = {
    "a": "g",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "7",
    "i": "TAGS\1A\2",
    "j": "2",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
PULL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "5",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "1",
}
MEMBERS = st.sampled_from(["code", "opaque", "flag", "version", "language", "remark", "zz"])


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Sound bytes with a few of them changed, taken out or put in."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        kind = draw(st.integers(0, 2))
        data[at : at + (kind < 2)] = draw(st.binary(min_size=kind > 0, max_size=2))
    return bytes(data)


@st.composite
def header_texts(draw: st.DrawFn) -> bytes:
    """JSON headers, from usual ones to ones that are odd in every respect."""
    code = draw(st.sampled_from([10, 310, 310, 320, 11, 361, 105]))
    fields: Any = dict(PULL if code in (11, 361) else SEND)
    if code == 10:
        fields = dict(zip(headers._LONG_NAMES, list(SEND.values())[:13], strict=False))
    odd = draw(st.sampled_from([*[""] * 4, "field", "missing", "member"]))
    if odd == "field":
        fields |= draw(st.dictionaries(NAMES, TEXTS, min_size=1, max_size=2))
    elif odd == "missing":
        del fields[draw(st.sampled_from(sorted(fields)))]
    for name in sorted(fields):
        if draw(st.integers(0, 9)) == 0:
            fields[name] = draw(TEXTS)
    whole = {"code": code, "extFields": fields, "flag": 0, "opaque": draw(INT), "version": 479}
    if odd == "member":
        whole |= draw(st.dictionaries(MEMBERS, st.one_of(INT, TEXTS, st.none()), max_size=1))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")]))
    text = json.dumps(whole, separators=separators, ensure_ascii=draw(st.booleans()))
    return text.encode("utf-8", "surrogatepass")


@st.composite
def whole_frames(draw: st.DrawFn) -> bytes:
    """A few sound frames back to back."""
    parts = draw(st.lists(st.tuples(header_texts(), st.binary(max_size=30)), max_size=3))
    return b"".join(frames.join(draw(st.sampled_from([0, 0, 0, 1])), *part) for part in parts)


HOSTS = st.sampled_from([bytes(8), b"\x7f\0\0\1\0\0\x2a\x9f", bytes(range(20))])


@st.composite
def record_bytes(draw: st.DrawFn, position: int | None = None) -> bytes:
    """A sound record."""
    topic = draw(st.text(min_size=1, max_size=60))
    topic = topic.encode("utf-8", "replace").decode()
    born, stored = draw(HOSTS), draw(HOSTS)
    body = draw(st.binary(max_size=40))
    wide = len(topic.encode()) > 127 or draw(st.booleans())
    sys_flag = draw(INT) & ~0x30 | (len(born) == 20) << 4 | (len(stored) == 20) << 5
    return encode(
        records.Record(
            draw(LONG) if position is None else position, 0, records.V2 if wide else records.V1,
            records.crc32(body) & 0x7FFFFFFF, draw(INT), draw(INT), draw(LONG), sys_flag,
            draw(LONG), born, draw(LONG), stored, draw(INT), draw(LONG), body, topic,
            draw(PROPERTIES),
        )
    )  # fmt: skip


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Records one after the other from position 1000 on, and what may follow them."""
    log = b""
    for _ in range(draw(st.integers(0, 4))):
        log += draw(record_bytes(position=1000 + len(log)))
    rest = st.sampled_from([b"", bytes(8), bytes(50), bytes.fromhex("00000020cbd43194")])
    return log + draw(rest)


Both = tuple[Kernel, Kernel]


def agree(both: Both, module: str, function: str, *arguments: Any) -> Any:
    """What both kernels make of a call, which is the same."""
    pure, fast = (
        outcome(getattr(getattr(kernel, module), function), *arguments) for kernel in both
    )
    assert pure == fast
    return pure


@given(data=st.one_of(st.binary(max_size=60), whole_frames(), damaged(whole_frames())))
def test_frames_and_requests(both: Both, data: bytes) -> None:
    agree(both, "frames", "split", data, LIMIT)
    agree(both, "headers", "requests", data, LIMIT)


@given(text=st.one_of(header_texts(), damaged(header_texts()), st.binary(min_size=1, max_size=40)))
def test_headers(both: Both, text: bytes) -> None:
    found, _ = agree(both, "headers", "requests", frames.join(0, text, b"body"), LIMIT)
    assert found[0][0] in ("Send", "Pull", "Frame")


@given(data=st.one_of(whole_frames(), damaged(whole_frames())), cut=st.integers(0, 400))
def test_requests_in_two_pieces_are_the_same(both: Both, data: bytes, cut: int) -> None:
    for kernel in both:
        whole = outcome(kernel.headers.requests, data, LIMIT)
        first = outcome(kernel.headers.requests, data[:cut], LIMIT)
        if first[0] == "Malformed" or whole[0] == "Malformed":
            continue
        (found, (_, consumed)) = first
        (more, (_, rest)) = outcome(kernel.headers.requests, data[consumed:], LIMIT)
        assert (found + more, consumed + rest) == (whole[0], whole[1][1])


@given(properties=st.one_of(PROPERTIES, st.binary(max_size=60)))
def test_properties(both: Both, properties: bytes) -> None:
    pure, fast = (plain(kernel.headers.Send(properties=properties)) for kernel in both)
    assert pure == fast
    agree(both, "headers", "java_hash", properties)


@given(data=st.one_of(damaged(record_bytes()), st.binary(max_size=150)), crc=st.booleans())
def test_records(both: Both, data: bytes, crc: bool) -> None:
    agree(both, "records", "decode", data, 0, crc)
    agree(both, "records", "decode", b"xy" + data, 2, crc)
    agree(both, "records", "decode_all", data + data, crc)
    for kernel in both:
        if outcome(kernel.records.decode, data)[0] == "Record":
            record = kernel.records.decode(data)
            assert encode(record) == data[: record.size]


@given(data=st.one_of(logs(), damaged(logs()), st.binary(max_size=150)), end=st.integers(0, 600))
def test_walks(both: Both, data: bytes, end: int) -> None:
    agree(both, "records", "walk", data, 0, 1000, 1000 + max(len(data), end))
    agree(both, "records", "walk", data[:end], 0, 1000, 1000 + len(data))
    agree(both, "records", "walk", b"12345" + data, 5, 1000, 1000 + end)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """The body of a batch."""
    body = b""
    for content, properties in draw(st.lists(st.tuples(st.binary(max_size=20), PROPERTIES))):
        size = 22 + len(content) + len(properties)
        body += size.to_bytes(4, "big") + bytes(8) + draw(st.binary(min_size=4, max_size=4))
        body += len(content).to_bytes(4, "big") + content
        body += len(properties).to_bytes(2, "big") + properties
    return body


@given(body=st.one_of(damaged(batches()), st.binary(max_size=80)))
def test_batches(both: Both, body: bytes) -> None:
    agree(both, "records", "members", body)


ENTRIES = st.tuples(
    st.integers(-1, 1 << 40), st.integers(-1, 1000), st.one_of(st.integers(-3, 3), LONG)
)


@given(
    entries=st.lists(ENTRIES),
    rest=st.binary(max_size=19),
    hashes=st.one_of(
        st.none(), st.frozensets(st.integers(-3, 3)), st.just(frozenset(range(-50, 50, 2)))
    ),
    most=st.integers(-1, 20),
    most_bytes=st.integers(-1, 5000),
)
def test_entries(
    both: Both, entries: Any, rest: bytes, hashes: Any, most: int, most_bytes: int
) -> None:
    raw = b"".join(agree(both, "entries", "pack", *entry)[1] for entry in entries) + rest
    agree(both, "entries", "unpack", raw)
    agree(both, "entries", "scan", raw, hashes, most, most_bytes)


SENDS = st.fixed_dictionaries(
    {},
    optional={
        "codec": st.integers(0, 1), "opaque": INT, "flag": INT, "queue_id": INT, "sys_flag": INT,
        "born_ms": LONG, "message_flag": INT, "properties": PROPERTIES, "reconsume_times": INT,
        "prepared_offset": LONG, "body": st.binary(max_size=300),
    },
)  # fmt: skip
ADDED = st.tuples(SENDS, st.binary(max_size=260), HOSTS, HOSTS, PROPERTIES, LONG)


@given(
    added=st.lists(ADDED, max_size=6),
    first=st.integers(0, 1 << 40),
    room=st.integers(0, 3000),
    code=INT,
    remark=st.one_of(st.just(b""), st.binary(max_size=20)),
)
def test_segments_and_replies(
    both: Both, added: Any, first: int, room: int, code: int, remark: bytes
) -> None:
    results = []
    for kernel in both:
        segment, tail = kernel.records.Segment(first, room), kernel.entries.Tail(first)
        sends, taken = [], []
        for values, *arguments in added:
            sends.append(kernel.headers.Send(**values))
            taken.append(outcome(segment.add, sends[-1], tail, *arguments))
        if segment.room >= 8:
            segment.blank()
        replies = kernel.replies.sent(sends, code, b"7F000001", remark)
        state = (bytes(segment.data), segment.end, segment.room, tail.data, tail.next, replies)
        results.append((plain(state), plain(sends), taken))
    assert results[0] == results[1]


@given(
    numbers=st.lists(LONG, min_size=4, max_size=4), opaque=INT, code=INT, codec=st.integers(0, 1)
)
def test_replies_to_pulls(both: Both, numbers: Any, opaque: int, code: int, codec: int) -> None:
    for remark in (b"", b"FOUND", 'a"\\\n中'.encode(), b"\xff"):
        agree(both, "replies", "pulled", codec, opaque, code, remark, *numbers, 77)
