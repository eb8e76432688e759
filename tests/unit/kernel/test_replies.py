"""Answers on both kernels, byte for byte those of the original where it was recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import Kernel

GOLDEN = Path(__file__).parents[2] / "golden" / "remoting"
LIMIT = 1 << 24


def recorded(code: tuple[int, ...], *names: str) -> list[dict[str, Any]]:
    """The answers of 5.3.3 to these requests, errors of sends aside."""
    return [
        line
        for name in names
        for line in map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
        if line["direction"] == "response" and line["code"] in code
    ]


def fields_of(raw: bytes) -> dict[str, str]:
    """The extFields of a binary header."""
    at = 21 + int.from_bytes(raw[13:17], "big")
    fields = {}
    while at < len(raw):
        name_end = at + 2 + int.from_bytes(raw[at : at + 2], "big")
        end = name_end + 4 + int.from_bytes(raw[name_end : name_end + 4], "big")
        fields[raw[at + 2 : name_end].decode()] = raw[name_end + 4 : end].decode()
        at = end
    return fields


def test_answers_to_sends_are_those_of_the_original(kernel: Kernel) -> None:
    checked = 0
    for line in recorded((10, 310), "send", "send-binary"):
        if line["responseCode"] != 0:
            continue
        binary = "headerHex" in line
        raw = bytes.fromhex(line["headerHex"]) if binary else line["header"].encode()
        fields = fields_of(raw) if binary else json.loads(raw)["extFields"]
        opaque = int.from_bytes(raw[5:9], "big") if binary else json.loads(raw)["opaque"]
        # Timers, batches, and brokers with another region or no trace: not for this lane.
        usual = (fields["TRACE_ON"], fields["MSG_REGION"]) == ("true", "DefaultRegion")
        if "recallHandle" in fields or "," in fields["msgId"] or not usual:
            continue
        send = kernel.headers.Send(
            codec=int(binary),
            opaque=opaque,
            queue_id=int(fields["queueId"]),
            properties=b"UNIQ_KEY\1%b\2" % fields.get("transactionId", "").encode(),
        )
        send.position = int(fields["msgId"][-16:], 16)
        send.queue_offset = int(fields["queueOffset"])
        host = fields["msgId"][:-16].encode()
        assert kernel.replies.sent([send], 0, host)[8:] == raw
        checked += 1
    assert checked > 50


def test_answers_to_pulls_are_those_of_the_original(kernel: Kernel) -> None:
    checked = 0
    for line in recorded((11, 361), "consume", "consume-binary"):
        binary = "headerHex" in line
        raw = bytes.fromhex(line["headerHex"]) if binary else line["header"].encode()
        fields = fields_of(raw) if binary else json.loads(raw).get("extFields", {})
        if "maxOffset" not in fields:
            continue
        opaque = int.from_bytes(raw[5:9], "big") if binary else json.loads(raw)["opaque"]
        length = int.from_bytes(raw[13:17], "big")
        remark = raw[17 : 17 + length].decode() if binary else json.loads(raw).get("remark", "")
        names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
        numbers = (int(fields[name]) for name in names)
        head = kernel.replies.pulled(
            int(binary), opaque, line["responseCode"], remark.encode(), *numbers, 5
        )
        assert head + b"12345" == kernel.frames.join(int(binary), raw, b"12345")
        checked += 1
    assert checked > 5


def test_each_send_is_answered_in_its_codec_and_a_oneway_one_not_at_all(kernel: Kernel) -> None:
    sends = [kernel.headers.Send(opaque=n, flag=n % 4, codec=n // 4 % 2) for n in range(16)]
    frames, _ = kernel.frames.split(kernel.replies.sent(sends, 0, b"AA"), LIMIT)
    expected = [(send.codec, send.opaque) for send in sends if not send.flag & 2]
    found = [
        (1, int.from_bytes(frame.header[5:9], "big"))
        if frame.codec
        else (0, json.loads(frame.header)["opaque"])
        for frame in frames
    ]
    assert found == expected
    assert kernel.replies.sent([], 0, b"AA") == b""


@pytest.mark.parametrize(
    "key", [b"plain", b'q"\\', b"\x00\x1f\x7f", "\u4e2d\U0001f600".encode(), b"\xff\xfe", b"-_:"]
)
def test_a_unique_key_of_any_bytes_comes_back_in_valid_json(kernel: Kernel, key: bytes) -> None:
    send = kernel.headers.Send(properties=b"UNIQ_KEY\1" + key + b"\2")
    frame = kernel.replies.sent([send], 10, b"AA", b'slow "disk"\n')
    header = json.loads(kernel.frames.split(frame, LIMIT)[0][0].header)
    assert header["extFields"]["transactionId"] == key.decode("utf-8", "replace")
    assert (header["code"], header["remark"], header["version"]) == (10, 'slow "disk"\n', 479)
    send.codec = 1
    frame = kernel.replies.sent([send], 10, b"AA", b"slow")
    assert key in frame
    assert b"slow" in frame


def test_extreme_numbers_are_written_as_they_are(kernel: Kernel) -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    frame = kernel.replies.pulled(0, -(1 << 31), -1, b"", low, high, low, 0, 0)
    header = json.loads(frame[8:])
    assert (header["opaque"], header["code"], "remark" in header) == (-(1 << 31), -1, False)
    assert header["extFields"]["nextBeginOffset"] == str(high)
    assert header["extFields"]["minOffset"] == str(low)
