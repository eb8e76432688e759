"""Frames on both kernels: the vectors of the specification, refusals, and bytes one at a time."""

import json
from pathlib import Path

import pytest

from cometmq.kernel import Malformed
from tests.kernels import Kernel

GOLDEN = Path(__file__).parents[2] / "golden" / "remoting"
LIMIT = 16_777_216
JSON_HEADER = (
    b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
JSON_FRAME = bytes.fromhex("0000008700000083") + JSON_HEADER
BINARY_FRAME = bytes.fromhex(
    "0000002d0100002900690001df0000000100000000000000000000001400057"
    "46f70696300000009546f70696354657374"
)


@pytest.mark.parametrize("frame", [JSON_FRAME, BINARY_FRAME], ids=["json", "binary"])
def test_the_printed_frames_are_read_and_written(kernel: Kernel, frame: bytes) -> None:
    frames, consumed = kernel.frames.split(frame, LIMIT)
    assert consumed == len(frame)
    (found,) = frames
    assert (found.codec, found.header, found.body) == (frame[4], frame[8:], b"")
    assert kernel.frames.join(found.codec, found.header, found.body) == frame


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_an_incomplete_frame_stays_where_it_is(kernel: Kernel, kind: type) -> None:
    data = JSON_FRAME + kernel.frames.join(1, b"head", b"body")
    for end in range(len(data)):
        frames, consumed = kernel.frames.split(kind(data[:end]), LIMIT)
        assert (len(frames), consumed) == ((0, 0) if end < len(JSON_FRAME) else (1, 139))
    frames, consumed = kernel.frames.split(kind(data), LIMIT)
    assert [frame.body for frame in frames] == [b"", b"body"]
    assert consumed == len(data)


@pytest.mark.parametrize("step", [1, 3, 100])
def test_frames_that_come_in_pieces_are_the_same_frames(kernel: Kernel, step: int) -> None:
    stream = b"".join(kernel.frames.join(0, b"{}", bytes(size)) for size in range(40))
    waiting, found = b"", []
    for at in range(0, len(stream), step):
        waiting += stream[at : at + step]
        frames, consumed = kernel.headers.requests(waiting, LIMIT)
        found += frames
        waiting = waiting[consumed:]
    assert waiting == b""
    assert [len(frame.body) for frame in found] == list(range(40))


@pytest.mark.parametrize(
    "start",
    [
        "ffffffff",
        "80000000",
        "00000000",
        "00000003",
        "00fffffd",
        "0000001c00000064",
        "0000001c05000004",
        "0000001c00000000",
        "0000001c01ffffff",
    ],
)
def test_a_frame_that_cannot_become_one_is_refused_by_its_first_bytes(
    kernel: Kernel, start: str
) -> None:
    for read in (kernel.frames.split, kernel.headers.requests):
        with pytest.raises(Malformed) as fault:
            read(JSON_FRAME + bytes.fromhex(start), LIMIT)
        assert [frame.header for frame in fault.value.before] == [JSON_HEADER]
        assert "expected, not" in str(fault.value)


def test_the_largest_frame_passes_and_one_byte_more_does_not(kernel: Kernel) -> None:
    assert kernel.frames.split(bytes.fromhex("00fffffc00000002"), LIMIT) == ([], 0)
    assert kernel.frames.split((96).to_bytes(4, "big"), 100) == ([], 0)
    with pytest.raises(Malformed):
        kernel.frames.split((97).to_bytes(4, "big"), 100)


def test_what_the_original_refuses_at_its_frame_is_refused(kernel: Kernel) -> None:
    lines = (GOLDEN / "refused.jsonl").read_text().splitlines()
    # Not JSON, null, [] and bad lengths within a binary header are for the codec of headers.
    later = ("header is not JSON", "header null", "header []", "binary header")
    for case in map(json.loads, lines):
        data = bytes.fromhex(case["frameHex"])
        if case["result"] == "connection closed" and not case["name"].startswith(later):
            with pytest.raises(Malformed):
                kernel.headers.requests(data, LIMIT)
        elif case["name"].startswith("header {} and one more"):
            with pytest.raises(Malformed) as fault:
                kernel.headers.requests(data, LIMIT)
            assert [frame.header for frame in fault.value.before] == [b"{}"]


def test_a_header_of_more_than_24_bits_is_not_written(kernel: Kernel) -> None:
    assert kernel.frames.join(0, bytes(0xFFFFFF))[4:8] == b"\0\xff\xff\xff"
    with pytest.raises(Malformed):
        kernel.frames.join(0, bytes(0x1000000))
