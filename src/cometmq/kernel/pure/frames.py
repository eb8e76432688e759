"""Frames: where one ends on the stream, and how one is put together (spec 01 ch. 2)."""

import struct
from dataclasses import dataclass

from cometmq.kernel.faults import Malformed

Data = bytes | bytearray | memoryview
JSON, BINARY = 0, 1

_PREFIX = struct.Struct(">iI")


@dataclass(slots=True, eq=False)
class Frame:
    """One frame, its header undecoded."""

    codec: int
    header: bytes
    body: bytes


def split(data: Data, limit: int) -> tuple[list[Frame], int]:
    """The complete frames at the start of `data`, and how many bytes they took.

    A frame is refused as soon as its announced lengths can be seen, long before it is complete.
    """
    frames: list[Frame] = []
    at, end = 0, len(data)
    with memoryview(data) as view:
        while end - at >= 4:
            length = int.from_bytes(view[at : at + 4], "big", signed=True)
            if length < 4 or length > limit - 4:
                raise Malformed(f"a frame of 4 to {limit - 4} bytes expected, not {length}", frames)
            if end - at < 8:
                break
            word = _PREFIX.unpack_from(view, at)[1]
            codec, header_length = word >> 24, word & 0xFFFFFF
            if codec not in (JSON, BINARY):
                raise Malformed(f"serialize type 0 or 1 expected, not {codec}", frames)
            if header_length > length - 4 or (header_length == 0 and codec == JSON):
                text = f"a header of 1 to {length - 4} bytes expected, not {header_length}"
                raise Malformed(text, frames)
            if end - at < 4 + length:
                break
            header_at, body_at = at + 8, at + 8 + header_length
            at += 4 + length
            frames.append(Frame(codec, bytes(view[header_at:body_at]), bytes(view[body_at:at])))
    return frames, at


def join(codec: int, header: bytes, body: bytes = b"") -> bytes:
    """One whole frame."""
    if len(header) > 0xFFFFFF:
        raise Malformed(f"a header of at most 16777215 bytes expected, not {len(header)}")
    return _PREFIX.pack(4 + len(header) + len(body), codec << 24 | len(header)) + header + body
