"""The body of a broker's registration, as JSON and in its compressed form (spec 01 13.5)."""

# ruff: noqa: RUF012  # msgspec copies an empty default for each struct

import struct
import zlib
from collections.abc import Iterator
from typing import Self

import msgspec

import cometmq.protocol.fastjson as fastjson
from cometmq.message.compression import BadCompression, inflate
from cometmq.protocol.bodies.body import Body
from cometmq.protocol.bodies.configs import DataVersion, TopicConfig, TopicConfigWrapper
from cometmq.protocol.bodies.routes import TopicQueueMappingInfo
from cometmq.protocol.codes import VERSION, VERSION_3_0_11, VERSION_5_0_0
from cometmq.protocol.faults import BadBody

LARGEST = 64 << 20  # unpacked: 10^5 topics take a tenth of it
_ZLIB = b"x"  # the first byte of every zlib stream with the usual window; JSON begins with a brace


def body_crc(data: bytes) -> int:
    """The check sum that a registration's header carries."""
    return zlib.crc32(data) & 0x7FFFFFFF


class RegisterBrokerBody(Body, frozen=True):
    """A broker's topics; filter servers are a thing of the past."""

    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigWrapper = msgspec.field(
        default_factory=TopicConfigWrapper
    )

    @classmethod
    def read(cls, data: bytes, crc: int = 0, version: int = VERSION) -> Self:
        """Decode what a broker of this version sent. What the bytes are is seen from them: 5.x says
        it wrongly.
        """
        if crc and crc != body_crc(data):
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
            pieces = _Pieces(inflate(data, LARGEST))
        except BadCompression as why:
            raise BadBody(f"compressed registration: {why}") from None
        data_version = DataVersion.read(pieces.take())
        topics = [_topic(str(text, errors="replace")) for text in pieces.several()]
        filters = fastjson.loads(pieces.take())
        static = None
        if version >= VERSION_5_0_0:
            infos = [TopicQueueMappingInfo.read(text) for text in pieces.several()]
            static = {info.topic: info for info in infos if info.topic}
        wrapper = TopicConfigWrapper(
            data_version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map=static,
        )
        body = cls.fit({"filterServerList": filters})
        return body.but(topic_config_serialize_wrapper=wrapper)

    def compressed(self, version: int = VERSION) -> bytes:
        """The compressed form; `topicSysFlag` and `order` of topics have no place in it."""
        topics = self.topic_config_serialize_wrapper
        static = topics.topic_queue_mapping_info_map or {}
        parts = [_sized(topics.data_version.write()), _number(len(topics.topic_config_table))]
        parts += [_sized(_line(topic)) for topic in topics.topic_config_table.values()]
        parts += [_sized(fastjson.dumps(self.filter_server_list))]
        if version >= VERSION_5_0_0:
            parts += [_number(len(static)), *(_sized(info.write()) for info in static.values())]
        return zlib.compress(b"".join(parts), 9)


def _number(value: int) -> bytes:
    return struct.pack(">i", value)


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _line(topic: TopicConfig) -> bytes:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    attributes = fastjson.dumps(topic.attributes).decode()
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type} {attributes}".encode()


def _topic(line: str) -> TopicConfig:
    name, *rest = line.split(" ", 5)
    try:
        read, write, perm = map(int, rest[:3])
        kind, attributes = rest[3], rest[4] if len(rest) > 4 else "{}"
    except (ValueError, IndexError):
        raise BadBody(f"expected a topic with numbers and a type, got {line[:60]!r}") from None
    try:
        given = fastjson.loads(attributes)
    except BadBody:
        given = {}  # the original cannot read what has blanks, and goes on without
    found = {"attributes": given, "topicName": name, "topicFilterType": kind}
    return TopicConfig.fit(found).but(read_queue_nums=read, write_queue_nums=write, perm=perm)


class _Pieces:
    """Pieces that each begin with their length."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        if self.at + 4 > len(self.data):
            raise BadBody(f"Failed to decode RegisterBrokerBody: it ends at {self.at}")
        self.at += 4
        return int.from_bytes(self.data[self.at - 4 : self.at], "big", signed=True)

    def take(self) -> bytes:
        length = self.number()
        if not 0 <= length <= len(self.data) - self.at:
            raise BadBody(f"a piece of {length} bytes, {len(self.data) - self.at} are left")
        self.at += length
        return self.data[self.at - length : self.at]

    def several(self) -> Iterator[bytes]:
        for _ in range(self.number()):
            yield self.take()
