"""One command, request or response: between a frame of the kernel and the typed headers, in both
codecs.
"""

import struct
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

import cometmq.protocol.fastjson as fastjson
from cometmq.kernel import frames
from cometmq.kernel.faults import Malformed
from cometmq.protocol.codes import LANGUAGES, OTHER, OURS, SERVER, VERSION, WIDE_CODES, Flag
from cometmq.protocol.faults import BadBody
from cometmq.protocol.fields import RequestHeader

JSON, BINARY = 0, 1


@dataclass(slots=True)
class Command:
    """What one frame says; `fields` is the header's free part, `codec` how it came and how it is
    written.
    """

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
        cls,
        header: RequestHeader,
        body: bytes = b"",
        *,
        opaque: int = 0,
        code: int | None = None,
        codec: int = JSON,
    ) -> Self:
        """A request of ours; `code` where a header serves several codes, as 310 and 320."""
        return cls(
            header.code if code is None else code,
            opaque,
            fields=header.fields(),
            codec=codec,
            body=body,
        )

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
        return cls(
            code,
            opaque,
            Flag.RESPONSE,
            language=SERVER,
            remark=remark,
            fields=fields or {},
            codec=codec,
            body=body,
        )

    def oneway(self) -> Self:
        """This request, with the word that nobody waits for an answer."""
        return replace(self, flag=self.flag | Flag.ONEWAY)

    @property
    def is_answer(self) -> bool:
        """Whether this answers a request."""
        return bool(self.flag & Flag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether nothing may ever be answered to this."""
        return bool(self.flag & Flag.ONEWAY)

    @classmethod
    def read(cls, frame: frames.Frame) -> Self:
        """Decode a frame, or raise Malformed: its connection cannot go on."""
        values = _from_json(frame.header) if frame.codec == JSON else _from_binary(frame.header)
        return cls(*values, frame.codec, frame.body)

    def write(self) -> bytes:
        """The whole frame."""
        head = self._as_json() if self.codec == JSON else self._as_binary()
        return frames.join(self.codec, head, self.body)

    def _as_json(self) -> bytes:
        members: dict[str, Any] = {
            "code": int(self.code),
            "extFields": self.fields or None,
            "flag": int(self.flag),
            "language": self.language,
            "opaque": self.opaque,
            "remark": self.remark,
            "serializeTypeCurrentRPC": "JSON",
            "version": self.version,
        }
        return fastjson.dumps(members)

    def _as_binary(self) -> bytes:
        remark = _utf8(self.remark or "")
        entries = bytearray()
        for name, value in self.fields.items():
            key, text = _utf8(name), _utf8(value)
            entries += struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text
        language = LANGUAGES.index(self.language)
        low = (self.code & 0xFFFF ^ 0x8000) - 0x8000  # a code that does not fit loses its high bits
        head = _HEAD.pack(low, language, self.version, self.opaque, self.flag, len(remark))
        return head + remark + struct.pack(">i", len(entries)) + entries


# Command's values, up to its fields.
Values = tuple[int, int, int, int, str, str | None, dict[str, str]]


class _Plain(msgspec.Struct):
    """A JSON header as every client writes it; anything else goes the tolerant way."""

    code: int = 0
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str | None = None
    remark: str | None = None
    fields: dict[str, str] | None = msgspec.field(name="extFields", default=None)


_plain = msgspec.json.Decoder(_Plain)


def _from_json(header: bytes) -> Values:
    try:
        one = _plain.decode(header)
        numbers = (one.code, one.opaque, one.flag, one.version)
        language, remark, fields = one.language, one.remark, one.fields or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        numbers, language, remark, fields = _tolerantly(header)
    if not all(-(2**31) <= number < 2**31 for number in numbers):
        raise Malformed(f"a number of the header is beyond 32 bits: {numbers}")
    return *numbers, language if language in LANGUAGES else OTHER, remark, fields


def _tolerantly(
    header: bytes,
) -> tuple[tuple[int, int, int, int], str | None, str | None, dict[str, str]]:
    try:
        members = fastjson.loads(header)
    except BadBody as why:
        raise Malformed(f"the header is not JSON: {why}") from None
    if not isinstance(members, dict):
        raise Malformed(f"expected a JSON object as header, got {header[:20]!r}")
    code, opaque, flag, version = (
        _number(name, members.get(name)) for name in ("code", "opaque", "flag", "version")
    )
    language = members.get("language")
    if isinstance(language, int) and 0 <= language < len(LANGUAGES):
        language = LANGUAGES[language]
    remark, extra = members.get("remark"), members.get("extFields")
    if extra is not None and not isinstance(extra, dict):
        raise Malformed(f"expected a JSON object as extFields, got {str(extra)[:20]!r}")
    fields = {_text(k): _text(v) for k, v in (extra or {}).items() if v is not None}
    return (
        (code, opaque, flag, version),
        language if isinstance(language, str) else None,
        None if remark is None else _text(remark),
        fields,
    )


def _number(name: str, value: Any) -> int:
    try:
        return 0 if value is None else int(value)
    except (ValueError, TypeError, OverflowError):
        raise Malformed(f"{name} of the header is {str(value)[:40]!r}, not a number") from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else fastjson.dumps(value).decode()


_HEAD = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, length of the remark


def _from_binary(header: bytes) -> Values:
    cut = _Cut(header)
    low, language, version, opaque, flag, length = _HEAD.unpack(cut.take(_HEAD.size, "its numbers"))
    remark = cut.take(length, "the remark")
    entries = _Cut(cut.take(cut.number(4), "extFields"))
    fields = {}
    while entries.at < len(entries.data):
        key = entries.take(entries.number(2), "a key")
        value = entries.take(entries.number(4), "a value")
        fields[key.decode(errors="replace")] = value.decode(errors="replace")
    code = low if flag & Flag.RESPONSE else WIDE_CODES.get(low, low)
    name = LANGUAGES[language] if language < len(LANGUAGES) else OTHER
    return code, opaque, flag, version, name, remark.decode(errors="replace") or None, fields


class _Cut:
    """Bytes that are taken off from the front, never more than there are."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int, what: str) -> bytes:
        left = len(self.data) - self.at
        if not 0 <= length <= left:
            raise Malformed(f"binary header: {what} takes {length} bytes, {left} are left")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size, "a length"), "big", signed=True)


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")
