"""The body of a broker's registration, as JSON and in its compressed form (spec 01 13.5)."""

# ruff: noqa: RUF012  # msgspec copies an empty default for each struct

import zlib
from typing import Any, Self

import msgspec

import cometmq.protocol.fastjson as fastjson
from cometmq.message.compression import BadCompression, SysFlag, decompress
from cometmq.protocol.bodies import TopicConfigWrapper
from cometmq.protocol.body import Body
from cometmq.protocol.codes import VERSION, VERSION_3_0_11, VERSION_5_0_0
from cometmq.protocol.command import Cut
from cometmq.protocol.fastjson import BadBody

LARGEST = 64 << 20  # unpacked: 10^5 topics take a tenth of it
_ZLIB = b"x"  # the first byte of every zlib stream with the usual window; JSON begins with a brace


class RegisterBrokerBody(Body, frozen=True):
    """A broker's topics; filter servers are a thing of the past."""

    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigWrapper = msgspec.field(
        default_factory=TopicConfigWrapper
    )

    @classmethod
    def read(cls, data: bytes, crc: int = 0, version: int = VERSION) -> Self:
        """Decode what a broker of this version sent; 5.x says wrongly whether it is compressed."""
        if crc and crc != zlib.crc32(data) & 0x7FFFFFFF:
            raise BadBody("crc32 not match")
        if not data:
            return cls()
        if data.startswith(_ZLIB):
            return cls._unpack(data, version)
        if version < VERSION_3_0_11:
            return cls(topic_config_serialize_wrapper=TopicConfigWrapper.read(data))
        return super().read(data)

    @classmethod
    def _unpack(cls, data: bytes, version: int) -> Self:
        try:
            plain = decompress(data, SysFlag.COMPRESSED, LARGEST)
        except BadCompression as why:
            raise BadBody(f"compressed registration: {why}") from None
        cut = Cut(plain, "Failed to decode RegisterBrokerBody", BadBody)
        wrapper = {"dataVersion": _next(cut)}
        topics = [_topic(cut.sized(4, "a topic")) for _ in range(cut.number(4))]
        wrapper["topicConfigTable"] = {topic["topicName"]: topic for topic in topics}
        filters = _next(cut)
        if version >= VERSION_5_0_0:
            static = [_next(cut) for _ in range(cut.number(4))]
            wrapper["topicQueueMappingInfoMap"] = {
                one["topic"]: one for one in static if isinstance(one, dict) and "topic" in one
            }
        return cls.fit({"filterServerList": filters, "topicConfigSerializeWrapper": wrapper})


def _next(cut: Cut) -> Any:
    return fastjson.loads(cut.sized(4, "JSON"))


def _topic(line: bytes) -> dict[str, Any]:
    text = str(line, errors="replace")
    try:
        name, read, write, perm, kind, *rest = text.split(" ", 5)
    except ValueError:
        raise BadBody(f"expected a topic with numbers and a type, got {text[:60]!r}") from None
    found: dict[str, Any] = {"topicName": name, "topicFilterType": kind, "perm": perm}
    try:
        found["attributes"] = fastjson.loads(rest[0]) if rest else None
    except BadBody:
        pass  # the original cannot read what has blanks, and goes on without
    return found | {"readQueueNums": read, "writeQueueNums": write}
