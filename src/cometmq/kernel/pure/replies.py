"""Answers to sends and pulls (spec 01 ch. 3, 4), their members in the order of the original."""

import json
import struct
from collections.abc import Iterable

from cometmq.kernel.pure.frames import join
from cometmq.kernel.pure.headers import Send

VERSION = 479

_BINARY = struct.Struct(">HBhiii")  # code, language, version, opaque, flag, length of the remark


def _text(raw: bytes) -> bytes:
    """A JSON string, with its quotes."""
    if raw.isalnum():
        return b'"%b"' % raw
    return json.dumps(raw.decode("utf-8", "replace"), ensure_ascii=False).encode()


def json_end(remark: bytes) -> bytes:
    """What every answer in JSON has behind its opaque."""
    said = b'"remark":%b,' % _text(remark) if remark else b""
    return b'%b"serializeTypeCurrentRPC":"JSON","version":%d}' % (said, VERSION)


def _json(code: int, fields: Iterable[tuple[bytes, bytes]], opaque: int, remark: bytes) -> bytes:
    members = b",".join([b'"%b":%b' % (name, _text(value)) for name, value in fields])
    head = b'{"code":%d,"extFields":{%b},"flag":1,"language":"JAVA","opaque":%d,'
    return head % (code, members, opaque) + json_end(remark)


def _binary(code: int, fields: Iterable[tuple[bytes, bytes]], opaque: int, remark: bytes) -> bytes:
    entries = b""
    for name, value in fields:
        entries += len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value
    head = _BINARY.pack(code & 0xFFFF, 0, VERSION, opaque, 1, len(remark))
    return b"".join((head, remark, len(entries).to_bytes(4, "big"), entries))


def sent(sends: Iterable[Send], code: int, host_hex: bytes, remark: bytes = b"") -> bytes:
    """The answers to all sends that want one, back to back, each in the codec of its send."""
    frames = []
    for send in sends:
        if send.flag & 2:  # oneway
            continue
        message_id = (b"msgId", b"%b%016X" % (host_hex, send.position & 0xFFFFFFFFFFFFFFFF))
        queue_id = (b"queueId", b"%d" % send.queue_id)
        queue_offset = (b"queueOffset", b"%d" % send.queue_offset)
        key = [(b"transactionId", send.unique_key)] if send.unique_key else []
        always = ((b"TRACE_ON", b"true"), (b"MSG_REGION", b"DefaultRegion"))
        if send.codec == 0:
            fields = (queue_id, *key, message_id, *always, queue_offset)
            header = _json(code, fields, send.opaque, remark)
        else:
            fields = (message_id, queue_id, queue_offset, *key, *always)
            header = _binary(code, fields, send.opaque, remark)
        frames.append(join(send.codec, header))
    return b"".join(frames)


def pulled(
    codec: int,
    opaque: int,
    code: int,
    remark: bytes,
    suggested: int,
    next: int,
    min: int,
    max: int,
    body_length: int,
) -> bytes:
    """The answer to a pull up to its body, which has to follow with exactly that length."""
    broker = (b"suggestWhichBrokerId", b"%d" % suggested)
    group, topic = (b"groupSysFlag", b"0"), (b"topicSysFlag", b"0")
    begin = (b"nextBeginOffset", b"%d" % next)
    lowest, highest = (b"minOffset", b"%d" % min), (b"maxOffset", b"%d" % max)
    if codec == 0:
        header = _json(code, (broker, group, begin, highest, lowest, topic), opaque, remark)
    else:
        header = _binary(code, (broker, begin, lowest, highest, topic, group), opaque, remark)
    prefix = struct.pack(">iI", 4 + len(header) + body_length, codec << 24 | len(header))
    return prefix + header
