"""One command, request or response: between a frame and the typed headers, in both codecs."""

import struct
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec

from cometmq.kernel import Malformed, frames
from cometmq.protocol.bodies import Body
from cometmq.protocol.codes import LANGUAGES, OTHER, OURS, SERVER, VERSION, WIDE_CODES
from cometmq.protocol.fastjson import BadBody
from cometmq.protocol.fields import Int, RequestHeader

# A language comes by its name, or by its number.
_NAMED = {name: name for name in LANGUAGES} | {str(at): one for at, one in enumerate(LANGUAGES)}
JSON, BINARY = 0, 1
RESPONSE, ONEWAY = 1, 2  # bits of the flag; all others are zero and ignored


@dataclass(slots=True)
class Command:
    """What one frame says; `fields` is the header's free part, `codec` how it is written."""

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = VERSION
    language: str = OURS  # an unknown one or none is OTHER
    remark: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    codec: int = JSON
    body: bytes = b""

    @classmethod
    def request(
        cls, header: RequestHeader, body: bytes = b"", code: int | None = None, opaque: int = 0
    ) -> Self:
        """A request of ours; `code` where a header serves several codes, as 310 and 320."""
        return cls(header.code if code is None else code, opaque, fields=header.fields(), body=body)

    @classmethod
    def answer(
        cls,
        codec: int,
        opaque: int,
        code: int,
        remark: str | None = None,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Self:
        """A server's answer, in the codec and with the opaque of the request."""
        return cls(code, opaque, RESPONSE, VERSION, SERVER, remark, fields or {}, codec, body)

    def oneway(self) -> Self:
        """This request, with the word that nobody waits for an answer."""
        return replace(self, flag=self.flag | ONEWAY)

    @property
    def is_answer(self) -> bool:
        """Whether this answers a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether nothing may ever be answered to this."""
        return bool(self.flag & ONEWAY)

    @classmethod
    def read(cls, frame: frames.Frame) -> Self:
        """Decode a frame, or raise Malformed: its connection cannot go on."""
        decode = _Head.read if frame.codec == JSON else _from_binary
        try:
            head = decode(frame.header)
        except BadBody as why:
            raise Malformed(f"the header is not the JSON that it should be: {why}") from None
        numbers = head.code, head.opaque, head.flag, head.version
        language = _NAMED.get(head.language or OTHER, OTHER)
        fields = head.ext_fields or {}
        return cls(*numbers, language, head.remark, fields, frame.codec, frame.body)

    def write(self) -> bytes:
        """The whole frame."""
        head = self._as_json() if self.codec == JSON else self._as_binary()
        return frames.join(self.codec, head, self.body)

    def _as_json(self) -> bytes:
        numbers = self.code, self.opaque, self.flag, self.version
        return _Head(*numbers, self.language, self.remark, self.fields or None).write()

    def _as_binary(self) -> bytes:
        remark = (self.remark or "").encode(errors="replace")
        entries = bytearray()
        for name, value in self.fields.items():
            key, text = name.encode(errors="replace"), value.encode(errors="replace")
            entries += struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text
        language = LANGUAGES.index(self.language)
        low = (self.code & 0xFFFF ^ 0x8000) - 0x8000  # a code that does not fit loses its high bits
        head = _NUMBERS.pack(low, language, self.version, self.opaque, self.flag, len(remark))
        return head + remark + struct.pack(">i", len(entries)) + entries


class _Head(Body, frozen=True):
    """What stands in a header of either codec, under its names in JSON."""

    refers = False  # its fields have any names and values
    code: Int = 0
    opaque: Int = 0
    flag: Int = 0
    version: Int = 0
    language: str | None = None
    remark: str | None = None
    ext_fields: dict[str, str] | None = None
    codec: str = msgspec.field(name="serializeTypeCurrentRPC", default="JSON")


_NUMBERS = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, length of the remark


def _from_binary(header: bytes) -> _Head:
    cut = _Cut(header)
    numbers = _NUMBERS.unpack(cut.take(_NUMBERS.size, "its numbers"))
    low, language, version, opaque, flag, length = numbers
    remark = cut.take(length, "the remark").decode(errors="replace")
    entries = _Cut(cut.sized(4, "extFields"))
    fields = {}
    while entries.at < len(entries.data):
        key = entries.sized(2, "a key").decode(errors="replace")
        fields[key] = entries.sized(4, "a value").decode(errors="replace")
    code = low if flag & RESPONSE else WIDE_CODES.get(low, low)
    return _Head(code, opaque, flag, version, str(language), remark or None, fields)


class _Cut:
    """Bytes of a header that are taken off from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int, what: str) -> bytes:
        """The next so many bytes."""
        left = len(self.data) - self.at
        if not 0 <= length <= left:
            raise Malformed(f"binary header: {what} takes {length} bytes, {left} are left")
        self.at += length
        return self.data[self.at - length : self.at]

    def sized(self, size: int, what: str) -> bytes:
        """What comes behind its length, a number of so many bytes."""
        length = int.from_bytes(self.take(size, "a number"), "big", signed=True)
        return self.take(length, what)
