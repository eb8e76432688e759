"""The headers of SEND (10, 310, 320) and PULL (11, 361) in the form that clients really write.

Whatever is odd about a header leaves it a Frame: protocol's generic codec is the authority there.
What the properties of a send or a record say is read here, too.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cometmq.kernel.faults import Malformed
from cometmq.kernel.pure.frames import Data, Frame, split

DELAY, TIMER, TRAN, INNER, NO_WAIT, UNIQUE, OWN, ODD, KEYS = (1 << bit for bit in range(9))

# What a name in the properties means to the broker, the usual ones first. 0: only its repetition
# matters here.
MEANING = {
    b"TAGS": 0, b"KEYS": KEYS, b"UNIQ_KEY": UNIQUE, b"WAIT": NO_WAIT, b"DELAY": DELAY,
    b"TRAN_MSG": TRAN, b"INNER_NUM": INNER, b"TIMER_DELAY_SEC": TIMER, b"TIMER_DELAY_MS": TIMER,
    b"TIMER_DELIVER_MS": TIMER, b"CLUSTER": OWN, b"MSG_REGION": OWN, b"TRACE_ON": OWN,
    b"POP_CK": OWN,
}  # fmt: skip


def java_hash(text: bytes) -> int:
    """Java's hash of a UTF-8 text: over its UTF-16 units, wrapped to a signed 32 bit number."""
    value = 0
    wide = text.decode("utf-8", "replace").encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", wide):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def scan(properties: bytes) -> tuple[int, int, bytes]:
    """(marks, tag hash, unique key) of a property string; of a repeated name the last counts."""
    marks, tag, unique = 0, b"", b""
    seen = set()
    pieces = properties.split(b"\x02")
    if not pieces[-1]:  # 5.x ends each pair with 0x02, 4.x not the last one
        pieces.pop()
    for piece in pieces:
        name, _, value = piece.partition(b"\x01")
        if not name or not value:
            marks |= ODD
            continue
        meaning = MEANING.get(name)
        if meaning is None:
            if name.startswith(b"__RMQ.TRANSIENT."):
                marks |= OWN
            continue
        if name in seen:
            marks |= ODD
        seen.add(name)
        if name == b"TAGS":
            tag = value
        elif name == b"UNIQ_KEY":
            unique = value
        if not (
            (meaning == DELAY and (value == b"0" or (value[:1] == b"-" and value[1:].isdigit())))
            or (meaning == TRAN and value.lower() != b"true")
            or (meaning == NO_WAIT and value.lower() == b"true")
        ):
            marks |= meaning
    return marks, java_hash(tag), unique


@dataclass(slots=True, eq=False, kw_only=True)
class Send:
    """A send, from its decoding to its reply; staging fills in where it went."""

    code: int = 310
    codec: int = 0
    opaque: int = 0
    flag: int = 0
    version: int = 0
    group: str = ""
    topic: str = ""
    default_topic: str = ""
    default_topic_queues: int = 0
    queue_id: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    message_flag: int = 0
    properties: bytes = b""  # changed by `rewrite` only
    reconsume_times: int = 0
    unit_mode: bool = False
    max_reconsume_times: int = -1
    batch: bool = False
    body: bytes = b""
    prepared_offset: int = 0
    marks: int = field(init=False)
    tag_hash: int = field(init=False)
    unique_key: bytes = field(init=False)  # the client's id of the message, b"" if it gave none
    position: int = field(default=-1, init=False)
    size: int = field(default=0, init=False)
    queue_offset: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.rewrite(self.properties)

    def rewrite(self, properties: bytes) -> None:
        """Another property string, from which marks, tag hash and unique key are read anew."""
        self.properties = properties
        self.marks, self.tag_hash, self.unique_key = scan(properties)

    @property
    def end(self) -> int:
        """Where its record ends: what a watermark has to pass."""
        return self.position + self.size


@dataclass(slots=True, eq=False)
class Pull:
    """A pull; `fields` in the order of protocol's PullMessage, an absent one is None."""

    code: int
    codec: int
    opaque: int
    flag: int
    version: int
    fields: tuple[Any, ...]


def _name(text: str) -> str:
    if not text:
        raise ValueError("a name expected")
    return text


def _int(text: str, bits: int = 32) -> int:
    value, most = int(text), 1 << bits - 1
    # int() takes blanks, signs, underscores and foreign digits, too.
    if not -most <= value < most or str(value) != text:
        raise ValueError(f"a number of {bits} bits expected, not {text!r}")
    return value


def _long(text: str) -> int:
    return _int(text, 64)


def _true(text: str) -> bool:
    return text.lower() == "true"


_Reader = Callable[[str], Any]

# Attribute and reader by long name, in the order of the short names; the first eight are required
# (spec 01 ch. 7).
_LONG_NAMES: dict[str, tuple[str, _Reader]] = {
    "producerGroup": ("group", _name),
    "topic": ("topic", _name),
    "defaultTopic": ("default_topic", _name),
    "defaultTopicQueueNums": ("default_topic_queues", _int),
    "queueId": ("queue_id", _int),
    "sysFlag": ("sys_flag", _int),
    "bornTimestamp": ("born_ms", _long),
    "flag": ("message_flag", _int),
    "properties": ("properties", str.encode),
    "reconsumeTimes": ("reconsume_times", _int),
    "unitMode": ("unit_mode", _true),
    "maxReconsumeTimes": ("max_reconsume_times", _int),
    "batch": ("batch", _true),
}
_SHORT_NAMES = dict(zip("abcdefghijklm", _LONG_NAMES.values(), strict=True))
_SENDS = {10: _LONG_NAMES, 310: _SHORT_NAMES, 320: _SHORT_NAMES}
_NEEDED = {attribute for attribute, _ in [*_LONG_NAMES.values()][:8]}
# In the order of Pull.fields.
_PULL: dict[str, _Reader] = {
    "consumerGroup": _name,
    "topic": _name,
    "queueId": _int,
    "queueOffset": _long,
    "maxMsgNums": _int,
    "sysFlag": _int,
    "commitOffset": _long,
    "suspendTimeoutMillis": _long,
    "subscription": str,
    "subVersion": _long,
    "expressionType": str,
    "maxMsgBytes": _int,
    "requestSource": _int,
    "proxyFrowardClientId": str,
}
_PULL_NEEDED = {*[*_PULL][:8], "subVersion"}
# Fields that change nothing about the request: broker name, stream type, zone. Any other unknown
# one (a signature, a namespace) may, so its request takes the generic lane.
_IGNORED = {"n", "bname", "ReqT", "__ZONE_NAME", "__ZONE_MODE"}
_NUMBERS = ("code", "opaque", "flag", "version")
_TEXTS = {"language", "remark", "serializeTypeCurrentRPC"}

_Head = tuple[list[int], dict[str, str]]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _read(header: bytes) -> _Head:
    """([code, opaque, flag, version], extFields) of a header in the usual form, else ValueError."""
    head = json.loads(str(header, "utf-8"), object_pairs_hook=_object)
    fields = head.pop("extFields", {}) if type(head) is dict else None
    if type(fields) is not dict:
        raise ValueError("an object expected")
    numbers = [head.pop(name, 0) for name in _NUMBERS]
    for number in numbers:
        if type(number) is not int or not -(1 << 31) <= number < 1 << 31:
            raise ValueError("a number of 32 bits expected")
    if not head.keys() <= _TEXTS:
        raise ValueError("an unknown member")
    for text in (*head.values(), *fields.values()):
        if type(text) is not str:
            raise ValueError("a text expected")
        text.isascii() or text.encode()  # a lone surrogate has no UTF-8
    return numbers, fields


def _send(head: _Head, body: bytes, kind: type[Send]) -> Send:
    (code, opaque, flag, version), fields = head
    names = _SENDS[code]
    values: dict[str, Any] = {}
    for name, text in fields.items():
        if name in names:
            attribute, read = names[name]
            values[attribute] = read(text)
        elif name not in _IGNORED:
            raise ValueError("an unknown field")
    if not values.keys() >= _NEEDED:
        raise ValueError("a required field is missing")
    return kind(code=code, opaque=opaque, flag=flag, version=version, body=body, **values)


def pull(head: _Head) -> Pull:
    """The pull that a header is; ValueError for anything odd."""
    (code, opaque, flag, version), fields = head
    if not _PULL_NEEDED <= fields.keys() <= _PULL.keys() | _IGNORED:
        raise ValueError("a field is unknown or missing")
    values = [read(fields[name]) if name in fields else None for name, read in _PULL.items()]
    return Pull(code, 0, opaque, flag, version, tuple(values))


def typed(frame: Frame, send: type[Send] = Send) -> Send | Pull | Frame:
    """The send or pull that a frame is, a send of this kind; else the frame."""
    if frame.codec != 0:
        return frame
    try:
        head = _read(frame.header)
        code, _, flag, _ = head[0]
        if flag & 1:  # a response: its code is a result, 10 and 11 are among them
            return frame
        if code in _SENDS:
            return _send(head, frame.body, send)
        if code in (11, 361):
            return pull(head)
    except (ValueError, RecursionError):
        pass
    return frame


def requests(data: Data, limit: int) -> tuple[list[Send | Pull | Frame], int]:
    """Like `frames.split`, with sends and pulls decoded."""
    try:
        frames, consumed = split(data, limit)
    except Malformed as fault:
        fault.before = [typed(frame) for frame in fault.before if isinstance(frame, Frame)]
        raise
    return [typed(frame) for frame in frames], consumed
