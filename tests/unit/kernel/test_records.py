"""Records on both kernels: golden stores, the printed vectors, properties, segments and batches."""

import hashlib
import io
import ipaddress
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cometmq.kernel import Malformed
from tests.kernels import Kernel, encode

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
STORES = ("5.3.3-main-clean", "4.9.7-main-clean", "5.3.3-ipv6", "4.9.7-ipv6")
PRINTED = bytes.fromhex(
    "00000075daa320a758932aac000000030000000000000000000000070000000000001000000000000000018bcfe56800"
    "0a0000010000c3500000018bcfe568050a00000200002a9f00000000000000000000000000000002686906546f706963"
    "410012544147530154616741024b455953016b3102"
)
BORN, STORED = bytes.fromhex("0a0000010000c350"), bytes.fromhex("0a00000200002a9f")
WIDE = bytes(15) + b"\1" + bytes(4)


@cache
def golden(store: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the original read of a store, and the store's files."""
    manifest = json.loads((GOLDEN / f"{store}.manifest.json").read_text())
    with tarfile.open(GOLDEN / f"{store}.tar.gz") as archive:
        files = {
            member.name.removeprefix("store/"): archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive.getmembers()
            if member.isfile() and member.name.startswith(("store/commitlog", "store/consumequeue"))
        }
    return manifest["openedByTheOriginal"], files


def log_of(files: dict[str, bytes]) -> dict[int, bytes]:
    """The log files by their first position."""
    return {
        int(name[10:]): data for name, data in sorted(files.items()) if name[0:9] == "commitlog"
    }


def host(raw: bytes) -> str:
    """A host as the manifest prints it."""
    address = ipaddress.ip_address(raw[:-4])
    text = str(address) if address.version == 4 else f"[{address.exploded}]"
    if address.version == 6:
        text = "[" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":")) + "]"
    return f"/{text}:{int.from_bytes(raw[-4:], 'big')}"


@pytest.mark.parametrize("store", STORES)
def test_golden_records_decode_to_the_byte_as_the_original_read_them(
    kernel: Kernel, store: str
) -> None:
    opened, files = golden(store)
    log = log_of(files)
    for expected in opened["commitLog"]["records"]:
        position = expected["physicalOffset"]
        base = max(start for start in log if start <= position)
        record = kernel.records.decode(log[base], position - base, check_crc=True)
        pairs = (pair.split("\1", 1) for pair in record.properties.decode().split("\2") if pair)
        assert {
            "physicalOffset": record.position,
            "recordedPhysicalOffset": record.position,
            "magic": f"{record.magic:X}",
            "bodyCRC": record.body_crc,
            "size": record.size,
            "topic": record.topic,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "bornTimestamp": record.born_ms,
            "bornHost": host(record.born_host),
            "storeTimestamp": record.store_ms,
            "storeHost": host(record.store_host),
            "reconsumeTimes": record.reconsume_times,
            "preparedTransactionOffset": record.prepared_offset,
            "properties": dict(pairs),
            "storedBodyLength": len(record.body),
            "storedBodySha256": hashlib.sha256(record.body).hexdigest(),
            "offsetMsgId": (record.store_host + position.to_bytes(8, "big")).hex().upper(),
        } == {
            name: value
            for name, value in expected.items()
            if name not in ("bodyLength", "bodySha256", "bodyHex", "body")
        }
        raw = log[base][position - base :][: record.size]
        assert encode(record) == raw


@pytest.mark.parametrize("store", STORES)
def test_a_walk_finds_exactly_the_records_and_the_blanks(kernel: Kernel, store: str) -> None:
    opened, files = golden(store)
    walked, blanks = [], []
    for base, data in log_of(files).items():
        found, at, stop = kernel.records.walk(data, 0, base, base + len(data))
        walked += found
        if stop == kernel.records.BLANK:
            blanks.append([base + at, len(data) - at])
        else:
            assert stop == kernel.records.ZERO
            assert not any(data[at:])
    assert blanks == opened["commitLog"]["blanks"]
    tags = {
        (topic, int(queue), entry["queueOffset"]): entry
        for topic, queues in opened["queues"].items()
        for queue, content in queues.items()
        for entry in content["entries"]
    }
    expected = opened["commitLog"]["records"]
    assert [(w[0], w[1], w[2], w[3], w[4], w[6], w[7]) for w in walked] == [
        (r["physicalOffset"], r["size"], r["topic"], r["queueId"], r["queueOffset"],
         r["storeTimestamp"], r["sysFlag"])
        for r in expected
    ]  # fmt: skip
    for position, size, topic, queue, offset, tag_hash, _, _ in walked:
        entry = tags.get((topic, queue, offset))
        if entry and entry["pos"] == position and topic != "SCHEDULE_TOPIC_XXXX":
            assert (entry["size"], entry["tagsCode"]) == (size, tag_hash)


@pytest.mark.parametrize("store", STORES)
def test_golden_queue_entries_are_read_and_written(kernel: Kernel, store: str) -> None:
    opened, files = golden(store)
    checked = 0
    for topic, queues in opened["queues"].items():
        for queue, content in queues.items():
            folder = f"consumequeue/{topic}/{queue}/"
            raw = b"".join(data for name, data in sorted(files.items()) if name.startswith(folder))
            entries = [(e["pos"], e["size"], e["tagsCode"]) for e in content["entries"]]
            start, end = content["min"] * 20, content["max"] * 20
            assert kernel.entries.unpack(raw[start:end]) == entries
            assert b"".join(kernel.entries.pack(*entry) for entry in entries) == raw[start:end]
            found, examined = kernel.entries.scan(raw[start:], None, 1 << 30, 1 << 30)
            assert (found, examined) == ([entry[:2] for entry in entries], len(entries))
            checked += len(entries)
    assert checked


def test_the_printed_record_and_its_entry_are_written(kernel: Kernel) -> None:
    segment, tail = kernel.records.Segment(4096, 1000), kernel.entries.Tail(7)
    send = kernel.headers.Send(
        queue_id=3, born_ms=1700000000000, properties=b"TAGS\1TagA\2KEYS\1k1", body=b"hi"
    )
    assert segment.add(send, tail, b"TopicA", BORN, STORED, b"", 1700000000005)
    assert segment.data == PRINTED
    assert tail.data.hex() == "000000000000100000000075000000000027a807"
    assert (send.position, send.size, send.end, send.queue_offset) == (4096, 117, 4213, 7)
    assert (segment.position, segment.end, segment.room, tail.next) == (4096, 4213, 883, 8)
    assert kernel.records.decode(PRINTED).topic == "TopicA"


@pytest.mark.parametrize("topic", [b"T", b"t" * 127, b"t" * 128, b"\xe4\xb8\xad" * 85])
@pytest.mark.parametrize("born", [BORN, WIDE])
@pytest.mark.parametrize("stored", [STORED, WIDE])
def test_a_staged_record_is_read_back(
    kernel: Kernel, topic: bytes, born: bytes, stored: bytes
) -> None:
    segment, tail = kernel.records.Segment(1 << 40, 1 << 30), kernel.entries.Tail(5)
    send = kernel.headers.Send(
        queue_id=1, sys_flag=0x301 | 0x30, born_ms=2, message_flag=-3, properties=b"a\1b",
        reconsume_times=4, prepared_offset=99, body=bytes(1000),
    )  # fmt: skip
    assert segment.add(send, tail, topic, born, stored, b"c\1d\2", 6)
    record = kernel.records.decode(segment.data, check_crc=True)
    size = kernel.records.size_of(len(topic), 1000, 8, len(born), len(stored))
    assert (record.size, record.size) == (size, len(segment.data))
    assert record.magic == (kernel.records.V2 if len(topic) > 127 else kernel.records.V1)
    assert record.sys_flag == 0x301 | (born == WIDE) << 4 | (stored == WIDE) << 5
    assert (record.properties, record.topic.encode()) == (b"a\1b\2c\1d\2", topic)
    assert (record.born_host, record.store_host) == (born, stored)
    assert (record.flag, record.reconsume_times, record.prepared_offset) == (-3, 4, 99)
    assert (record.position, record.queue_offset, record.store_ms) == (1 << 40, 5, 6)
    assert encode(record) == segment.data
    walked, at, stop = kernel.records.walk(segment.data, 0, 1 << 40, (1 << 40) + 5000)
    assert (len(walked), at, stop) == (1, size, kernel.records.MORE)


def test_a_segment_takes_no_record_that_leaves_no_room_for_the_blank_one(kernel: Kernel) -> None:
    send = kernel.headers.Send(body=b"hi")
    size = kernel.records.size_of(1, 2, 0, 8, 8)
    for room, fits in ((size + 7, False), (size + 8, True), (0, False)):
        segment, tail = kernel.records.Segment(0, room), kernel.entries.Tail(0)
        assert segment.add(send, tail, b"T", BORN, STORED, b"", 0) is fits
        assert (len(segment.data), tail.next, segment.end) == (size * fits, fits, size * fits)
    # The last one had room: 8 bytes are left, which the blank record takes.
    segment = kernel.records.Segment(100, size + 8)
    segment.add(send, kernel.entries.Tail(0), b"T", BORN, STORED, b"", 0)
    segment.blank()
    assert segment.data[-8:].hex() == "00000008cbd43194"
    assert (segment.room, segment.end) == (0, 100 + size + 8)
    assert kernel.records.walk(segment.data, 0, 100, segment.end)[1:] == (size, 1)
    with pytest.raises(ValueError):
        segment.blank()


def test_what_the_format_cannot_hold_is_refused_and_changes_nothing(kernel: Kernel) -> None:
    segment, tail = kernel.records.Segment(0, 1 << 30), kernel.entries.Tail(0)
    send = kernel.headers.Send(properties=b"a\1" + bytes(32700), body=b"hi")
    for topic, born, suffix in (
        (b"", BORN, b""),
        (b"t" * 256, BORN, b""),
        (b"T", BORN[1:], b""),
        (b"T", BORN, bytes(65)),
    ):
        with pytest.raises(Malformed):
            segment.add(send, tail, topic, born, STORED, suffix, 0)
    assert (segment.data, tail.next, send.position) == (b"", 0, -1)
    assert segment.add(send, tail, b"T", BORN, STORED, bytes(64), 0)  # 32767 in all


def test_a_prepared_message_stands_in_no_queue(kernel: Kernel) -> None:
    for sys_flag, queued in ((0, 1), (4, 0), (8, 1), (12, 0)):
        segment, tail = kernel.records.Segment(0, 1000), kernel.entries.Tail(9)
        send = kernel.headers.Send(sys_flag=sys_flag)
        segment.add(send, tail, b"T", BORN, STORED, b"", 0)
        assert (tail.next - 9, send.queue_offset) == (queued, 9 * queued)


def test_a_busy_tail_refuses_the_record_as_a_whole(kernel: Kernel) -> None:
    segment, tail = kernel.records.Segment(0, 1000), kernel.entries.Tail(0)
    send = kernel.headers.Send()
    with memoryview(tail.data), pytest.raises(BufferError):
        segment.add(send, tail, b"T", BORN, STORED, b"", 0)
    assert (segment.data, segment.end, send.position) == (b"", 0, -1)


def test_many_records_in_a_segment_are_all_there(kernel: Kernel) -> None:
    segment, tail = kernel.records.Segment(0, 1 << 30), kernel.entries.Tail(0)
    sizes = [n * 37 % 3000 for n in range(300)]
    for n, size in enumerate(sizes):
        assert segment.add(
            kernel.headers.Send(queue_id=n, body=bytes(size)), tail, b"T", BORN, STORED, b"", n
        )
        if n % 50 == 0:
            assert len(bytes(segment.data)) == segment.end
    records = kernel.records.decode_all(segment.data, check_crc=True)
    assert [len(record.body) for record in records] == sizes
    assert [(r.position, r.size, 0) for r in records] == kernel.entries.unpack(tail.data)


def test_data_that_is_being_written_stays_what_it_was(kernel: Kernel) -> None:
    def filled(letter: bytes) -> Any:
        segment, tail = kernel.records.Segment(0, 1 << 30), kernel.entries.Tail(0)
        for _ in range(50):
            send = kernel.headers.Send(body=letter * 5000)
            segment.add(send, tail, b"T", BORN, STORED, b"", 0)
        return segment

    first = filled(b"a")
    view = first.data
    before = bytes(view)
    first.add(kernel.headers.Send(body=bytes(1 << 20)), kernel.entries.Tail(0), b"T", BORN, STORED,
              b"", 0)  # fmt: skip
    del first
    others = [filled(b"b"), filled(b"c")]
    assert bytes(view)[: len(before)] == before
    assert [bytes(other.data[88:89]) for other in others] == [b"b", b"c"]


@pytest.mark.parametrize(
    ("at", "patch"),
    [
        (0, "00000076"), (0, "00000074"), (0, "ffffffff"), (0, "7fffffff"), (0, "0000005a"),
        (4, "daa320a6"), (4, "daa320ab"), (4, "cbd43194"), (36, "00000010"), (36, "00000030"),
        (84, "ffffffff"), (84, "7fffffff"), (84, "00000003"), (90, "80"), (90, "7f"), (90, "05"),
        (91, "ff"), (97, "ffff"), (97, "0013"), (97, "8012"), (88, "6868"),
    ],
)  # fmt: skip
def test_a_damaged_record_is_refused(kernel: Kernel, at: int, patch: str) -> None:
    damaged = bytearray(PRINTED)
    damaged[at : at + len(patch) // 2] = bytes.fromhex(patch)
    with pytest.raises(Malformed):
        kernel.records.decode(damaged, check_crc=True)
    walked, stopped, stop = kernel.records.walk(PRINTED + damaged + bytes(200), 0, 4096, 9999)
    assert (len(walked), stopped) == (1, 117)
    if at != 4 or patch != "cbd43194":
        assert stop in (kernel.records.BAD, kernel.records.MORE)


def test_a_walk_says_why_it_ends(kernel: Kernel) -> None:
    walk, records = kernel.records.walk, kernel.records
    assert walk(PRINTED, 0, 4096, 5000)[1:] == (117, records.MORE)
    assert walk(PRINTED[:-1], 0, 4096, 5000)[1:] == (0, records.MORE)
    assert walk(PRINTED + bytes(7), 0, 4096, 5000)[1:] == (117, records.MORE)
    assert walk(PRINTED + bytes(8), 0, 4096, 5000)[1:] == (117, records.ZERO)
    assert walk(b"xyz" + PRINTED, 3, 4096, 5000)[1:] == (120, records.MORE)
    assert walk(PRINTED, 0, 4097, 5000)[1:] == (0, records.BAD)
    assert walk(PRINTED, 0, 4096, 4096 + 116)[1:] == (0, records.BAD)
    assert walk(PRINTED, 0, 4096, 0)[1:] == (0, records.BAD)
    for wrong in (-1, 118):
        with pytest.raises(ValueError):
            walk(PRINTED, wrong, 4096, 5000)
    for wrong in (-1, 1, 117, 1 << 40):
        with pytest.raises(Malformed):
            records.decode(PRINTED, wrong)
    assert records.decode_all(b"") == []
    with pytest.raises(Malformed):
        records.decode_all(PRINTED + b"\0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0), ("TagA", 2598919), ("*", 42), ("polygenelubricants", -(1 << 31)),
        ("\u6807\u7b7e", 857175), ("\U0001f600", 1772899), ("a" * 50, None),
    ],
)  # fmt: skip
def test_the_hash_is_that_of_java(kernel: Kernel, text: str, expected: int | None) -> None:
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[at : at + 2], "big")
    value = (value + (1 << 31)) % (1 << 32) - (1 << 31)
    assert kernel.headers.java_hash(text.encode()) == value
    assert expected is None or value == expected


@pytest.mark.parametrize(
    ("properties", "marks"),
    [
        ("", ""), ("a=b;", ""), ("a=b", ""), ("a=b=c;", ""), ("KEYS=k;", "KEYS"),
        ("TAGS=t;", ""), ("UNIQ_KEY=u;", "UNIQUE"), ("WAIT=true;", ""), ("WAIT=TRUE;", ""),
        ("WAIT=false;", "NO_WAIT"), ("WAIT=x;", "NO_WAIT"), ("DELAY=3;", "DELAY"),
        ("DELAY=0;", ""), ("DELAY=-1;", ""), ("DELAY=-;", "DELAY"), ("DELAY=x", "DELAY"),
        ("DELAY=-x", "DELAY"), ("TRAN_MSG=True;", "TRAN"), ("TRAN_MSG=no;", ""),
        ("INNER_NUM=2;", "INNER"), ("TIMER_DELAY_SEC=1;", "TIMER"),
        ("TIMER_DELAY_MS=1;", "TIMER"), ("TIMER_DELIVER_MS=1;", "TIMER"), ("CLUSTER=c;", "OWN"),
        ("MSG_REGION=r;", "OWN"), ("TRACE_ON=true;", "OWN"), ("POP_CK=x;", "OWN"),
        ("__RMQ.TRANSIENT.X=1;", "OWN"), ("__RMQ.TRANSIENT.=1;", "OWN"), ("__RMQ.TRANSIENT=1;", ""),
        ("a;", "ODD"), ("=b;", "ODD"), ("a=;", "ODD"), (";", "ODD"), ("a=b;;", "ODD"),
        ("TAGS=;", "ODD"), ("TAGS=a;TAGS=b;", "ODD"), ("a=b;a=c;", ""),
        ("KEYS=a;b=c;KEYS=a;", "KEYS ODD"), ("CLUSTER=a;CLUSTER=b", "OWN ODD"),
        ("__RMQ.TRANSIENT.X=1;__RMQ.TRANSIENT.X=1;", "OWN"),
        ("TIMER_DELAY_MS=1;DELAY=1", "TIMER DELAY"),
        ("tags=a;Tags=b;TAGSS=c;TAG=d;", ""),
    ],
)  # fmt: skip
def test_properties_are_marked_by_what_the_broker_has_to_do(
    kernel: Kernel, properties: str, marks: str
) -> None:
    raw = properties.replace("=", "\1").replace(";", "\2").encode()
    found = kernel.headers.Send(properties=raw).marks
    names = ("DELAY", "TIMER", "TRAN", "INNER", "NO_WAIT", "UNIQUE", "OWN", "ODD", "KEYS")
    assert {n for n in names if found & getattr(kernel.headers, n)} == set(marks.split())


def test_the_last_tag_and_the_last_unique_key_count(kernel: Kernel) -> None:
    send = kernel.headers.Send(properties=b"TAGS\1a\2UNIQ_KEY\1u\2TAGS\1b\2UNIQ_KEY\1v")
    assert (send.tag_hash, send.unique_key) == (98, b"v")
    send.rewrite(b"TAGS\1a\2TAGS\1\2")
    assert (send.tag_hash, send.unique_key) == (97, b"")
    send.rewrite("TAGS\1\u6807\U0001f600\2".encode())
    assert send.tag_hash == kernel.headers.java_hash("\u6807\U0001f600".encode())


BATCH = bytes.fromhex(
    "000000610000000000000000000000000000000568656c6c6f00464b455953016b3102554e49515f4b455901433041383031"
    "30333235423436443036443639433730413231313430303030300257414954017472756502544147530154616741"
    "02"
)


def test_the_printed_batch_member_is_read(kernel: Kernel) -> None:
    properties = b"KEYS\1k1\2UNIQ_KEY\1C0A8010325B46D06D69C70A211400000\2WAIT\1true\2TAGS\1TagA\2"
    assert kernel.records.members(BATCH) == [(0, b"hello", properties)]
    assert len(kernel.records.members(BATCH * 3)) == 3
    assert kernel.records.members(b"") == []
    assert kernel.records.members(bytes(22)) == [(0, b"", b"")]


def test_a_broken_batch_is_refused(kernel: Kernel) -> None:
    for end in range(1, len(BATCH)):
        with pytest.raises(Malformed):
            kernel.records.members(BATCH + BATCH[:end])
    for at, patch in ((16, "ffffffff"), (16, "7fffffff"), (25, "ffff"), (25, "7fff")):
        damaged = BATCH[:at] + bytes.fromhex(patch) + BATCH[at + len(patch) // 2 :]
        with pytest.raises(Malformed):
            kernel.records.members(damaged)


def test_records_are_read_from_any_kind_of_bytes(kernel: Kernel) -> None:
    for kind in (bytes, bytearray, memoryview, lambda raw: io.BytesIO(raw).getbuffer()):
        assert kernel.records.decode(kind(PRINTED)).body == b"hi"
        assert len(kernel.records.decode_all(kind(PRINTED * 2))) == 2
        assert len(kernel.records.walk(kind(PRINTED), 0, 4096, 5000)[0]) == 1
