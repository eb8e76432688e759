"""Records of the commit log (spec 03 ch. 3), and batch bodies."""

import struct
from typing import NamedTuple
from zlib import crc32

from cometmq.kernel.faults import Malformed
from cometmq.kernel.pure.entries import Tail
from cometmq.kernel.pure.frames import Data
from cometmq.kernel.pure.headers import Send, scan

V1, V2, BLANK_MAGIC = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
MORE, BLANK, ZERO, BAD = range(4)

Walked = tuple[int, int, str, int, int, int, int, int]

_HEAD = struct.Struct(">iIiiiqqiq")  # up to the born host
_MIDDLE = struct.Struct(">iqi")  # reconsume times, prepared offset, body length
_LONG = struct.Struct(">q")
_PREFIX = struct.Struct(">iI")
_MEMBER = struct.Struct(">iiiii")


class Record(NamedTuple):
    """One record as it stands in the log; `position` is its recorded PHYSICALOFFSET."""

    position: int
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: bytes


def size_of(
    topic_length: int, body_length: int, properties_length: int, born_length: int, store_length: int
) -> int:
    """How long a record is; hosts are 8 or 20 bytes with their port."""
    wide = topic_length > 127
    return 75 + wide + born_length + store_length + body_length + topic_length + properties_length


def check(topic: bytes, properties_length: int, born_host: bytes, store_host: bytes) -> None:
    """Malformed if a record cannot hold one of these."""
    if not 0 < len(topic) <= 255:
        raise Malformed(f"a topic of 1 to 255 bytes expected, not {len(topic)}")
    if properties_length > 32767:
        raise Malformed(f"properties of at most 32767 bytes expected, not {properties_length}")
    if len(born_host) not in (8, 20) or len(store_host) not in (8, 20):
        raise Malformed("hosts of 8 or 20 bytes with their port expected")


class Segment:
    """The records of one turn of the loop that go into one file.

    `data` belongs at `position`; `end` is where the next record will lie, `room` what the file
    has left from there.
    """

    __slots__ = ("data", "end", "position", "room")

    def __init__(self, position: int, room: int) -> None:
        self.position = self.end = position
        self.room = room
        self.data = bytearray()

    def add(
        self,
        send: Send,
        tail: Tail,
        topic: bytes,
        born_host: bytes,
        store_host: bytes,
        suffix: bytes,
        store_ms: int,
    ) -> bool:
        """Appends the record of `send` and an entry; False, and nothing done, if it has no room."""
        properties = send.properties
        if properties and properties[-1] != 2:
            properties += b"\x02"
        properties += suffix
        body = send.body
        check(topic, len(properties), born_host, store_host)
        size = size_of(len(topic), len(body), len(properties), len(born_host), len(store_host))
        if size + 8 > self.room:
            return False
        magic = V2 if len(topic) > 127 else V1
        sys_flag = send.sys_flag & ~0x30
        sys_flag |= (len(born_host) == 20) << 4 | (len(store_host) == 20) << 5
        # Prepared and rolled back messages stand in no queue (spec 03 §3.1, QUEUEOFFSET).
        queued = not sys_flag & 4
        queue_offset = tail.next if queued else 0
        crc = crc32(body) & 0x7FFFFFFF
        data = _HEAD.pack(
            size, magic, crc, send.queue_id, send.message_flag, queue_offset, self.end, sys_flag,
            send.born_ms,
        )  # fmt: skip
        data += born_host + _LONG.pack(store_ms) + store_host
        data += _MIDDLE.pack(send.reconsume_times, send.prepared_offset, len(body)) + body
        data += len(topic).to_bytes(2 if magic == V2 else 1, "big") + topic
        data += len(properties).to_bytes(2, "big") + properties
        if queued:
            tail.append(self.end, size, send.tag_hash)
        self.data += data
        send.position, send.size, send.queue_offset = self.end, size, queue_offset
        self.end += size
        self.room -= size
        return True

    def blank(self) -> None:
        """Closes the file with the blank record; `end` is then the start of the next file."""
        if not 8 <= self.room < 1 << 31:
            raise ValueError(f"a blank record needs 8 bytes, {self.room} are left")
        self.data += _PREFIX.pack(self.room, BLANK_MAGIC)
        self.end += self.room
        self.room = 0


def decode(data: Data, at: int = 0, check_crc: bool = False) -> Record:
    """The record at `data[at]`, all of whose lengths must agree."""
    view = memoryview(data)
    left = len(view) - at
    if at < 0 or left < 91:
        raise Malformed(f"a record of at least 91 bytes expected, {left} are left")
    head = _HEAD.unpack_from(view, at)
    size, magic, crc, queue_id, flag, queue_offset, position, sys_flag, born_ms = head
    if magic != V1 and magic != V2:
        raise Malformed(f"the magic of a record expected, not {magic:08X}")
    if not 91 <= size <= left:
        raise Malformed(f"a record of 91 to {left} bytes expected, not {size}")
    view = view[at : at + size]
    born = 48 + (20 if sys_flag & 16 else 8)
    middle = born + 8 + (20 if sys_flag & 32 else 8)
    body = middle + 16
    wide = 2 if magic == V2 else 1
    room = size - body - wide - 2
    if room < 0:
        raise Malformed(f"a record of {size} bytes has no room for its hosts")
    reconsume_times, prepared_offset, body_length = _MIDDLE.unpack_from(view, middle)
    if not 0 <= body_length <= room:
        raise Malformed(f"a body of 0 to {room} bytes expected, not {body_length}")
    topic, room = body + body_length + wide, room - body_length
    topic_length = int.from_bytes(view[topic - wide : topic], "big", signed=True)
    if not 0 <= topic_length <= room:
        raise Malformed(f"a topic of 0 to {room} bytes expected, not {topic_length}")
    properties, room = topic + topic_length + 2, room - topic_length
    properties_length = int.from_bytes(view[properties - 2 : properties], "big", signed=True)
    if properties_length != room:
        raise Malformed(f"{room} bytes of properties expected, not {properties_length}")
    content = bytes(view[body : body + body_length])
    if check_crc and content and crc32(content) & 0x7FFFFFFF != crc:
        raise Malformed(f"a body with CRC {crc} expected, not {crc32(content) & 0x7FFFFFFF}")
    try:
        name = str(view[topic : topic + topic_length], "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"a topic in UTF-8 expected: {error}") from None
    return Record(
        position, size, magic, crc, queue_id, flag, queue_offset, sys_flag, born_ms,
        bytes(view[48:born]), _LONG.unpack_from(view, born)[0], bytes(view[born + 8 : middle]),
        reconsume_times, prepared_offset, content, name, bytes(view[properties:]),
    )  # fmt: skip


def decode_all(data: Data, check_crc: bool = False) -> list[Record]:
    """All records of `data`, which must end with the last one (the body of a pull)."""
    records: list[Record] = []
    at = 0
    while at < len(data):
        records.append(decode(data, at, check_crc))
        at += records[-1].size
    return records


def walk(data: Data, at: int, position: int, file_end: int) -> tuple[list[Walked], int, int]:
    """The sound records from `data[at]` on, where it stopped, and why (MORE, BLANK, ZERO, BAD).

    `data[at]` lies at `position` of the log, whose file ends at `file_end`.
    """
    walked: list[Walked] = []
    if not 0 <= at <= len(data):
        raise ValueError(f"a place in {len(data)} bytes expected, not {at}")
    while True:
        left = len(data) - at
        if left < 8:
            return walked, at, MORE
        size, magic = _PREFIX.unpack_from(data, at)
        if magic == BLANK_MAGIC:
            return walked, at, BLANK
        if magic == size == 0:
            return walked, at, ZERO
        if magic not in (V1, V2) or not 91 <= size <= file_end - position:
            return walked, at, BAD
        if size > left:
            return walked, at, MORE
        try:
            record = decode(data, at, check_crc=True)
        except Malformed:
            return walked, at, BAD
        if record.position != position:
            return walked, at, BAD
        tag_hash = scan(record.properties)[1]
        place = (record.topic, record.queue_id, record.queue_offset)
        walked.append((position, size, *place, tag_hash, record.store_ms, record.sys_flag))
        at += size
        position += size


def members(body: bytes) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, properties) of each message of a batch (spec 02 ch. 9).

    Size, magic and CRC of a member say nothing that its lengths do not, and are not looked at:
    the original does not either.
    """
    found = []
    at, end = 0, len(body)
    while at < end:
        if end - at < 22:
            raise Malformed(f"a batch member of at least 22 bytes expected, {end - at} are left")
        _, _, _, flag, length = _MEMBER.unpack_from(body, at)
        properties = at + 22 + length
        if length < 0 or properties > end:
            raise Malformed(f"a member's body of 0 to {end - at - 22} bytes expected, not {length}")
        content = body[at + 20 : properties - 2]
        length = int.from_bytes(body[properties - 2 : properties], "big", signed=True)
        at = properties + length
        if length < 0 or at > end:
            raise Malformed(f"properties of 0 to {end - properties} bytes expected, not {length}")
        found.append((flag, content, body[properties:at]))
    return found
