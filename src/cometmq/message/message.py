"""The message as its sender has it, and several in one body (spec 02 ch. 9)."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import cometmq.message.properties as strings
from cometmq.kernel.faults import CometError
from cometmq.message.names import RETRY, may_send_to, topic_fault

LARGEST_BODY = 4 << 20  # maxMessageSize, for clients and brokers alike

_MEMBER = struct.Struct(">iiiii")  # size, magic 0, check sum 0, flag, length of the body


class BadMessage(CometError, ValueError):
    """This message cannot be sent; `code` is the response code that a broker would give, if any."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send: `Message("orders", b"...", tag="created", keys=["42"])`."""

    topic: str
    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    wait_stored: bool = True

    def __post_init__(self) -> None:
        keys = self.keys.split() if isinstance(self.keys, str) else self.keys
        object.__setattr__(self, "keys", tuple(keys))
        object.__setattr__(self, "properties", dict(self.properties))
        for key in self.keys:
            if not key or any(ch.isspace() or ch in "\x01\x02" for ch in key):
                raise BadMessage(f"a key is a text without blanks, since blanks part keys: {key!r}")
        if self.tag is not None and ("\x01" in self.tag or "\x02" in self.tag):
            raise BadMessage(f"a tag cannot hold 0x01 or 0x02: {self.tag!r}")
        for name, value in self.properties.items():
            if fault := strings.fault(name, value):
                raise BadMessage(fault)

    def stored_properties(self, unique_key: str | None = None) -> dict[str, str]:
        """What is stored with the message: the user's properties, and what the system adds."""
        system = {
            strings.KEYS: " ".join(self.keys),
            strings.UNIQ_KEY: unique_key,
            strings.WAIT: "true" if self.wait_stored else "false",
            strings.TAGS: self.tag,
        }
        return {**self.properties, **{name: value for name, value in system.items() if value}}

    def check(self) -> None:
        """BadMessage unless it can be sent: what brokers would refuse does not travel."""
        if fault := topic_fault(self.topic):
            raise BadMessage(fault)
        if not may_send_to(self.topic):
            raise BadMessage(f"Sending message to topic[{self.topic}] is forbidden.")
        if self.body is None:
            raise BadMessage("the message body is null", 13)
        if not self.body:
            raise BadMessage("the message body length is zero", 13)
        _check_size(self.body)
        length = len(strings.encode(self.stored_properties()))
        if length > strings.LONGEST:
            raise BadMessage(f"the properties take {length} bytes, MAX: {strings.LONGEST}", 13)


def check_batch(messages: Sequence[Message]) -> None:
    """BadMessage unless these can be sent as one batch."""
    if not messages:
        raise BadMessage("a batch needs at least one message")
    first = messages[0]
    for message in messages:
        if message.topic.startswith(RETRY):
            raise BadMessage("Retry Group is not supported for batching")
        if message.topic != first.topic:
            raise BadMessage("The topic of the messages in one batch should be the same")
        if message.wait_stored != first.wait_stored:
            raise BadMessage("The waitStoreMsgOK of the messages in one batch should the same")
        message.check()


def encode_batch(members: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """The body of members as `records.members` gives them: (flag, body, property string)."""
    parts = []
    for flag, body, properties in members:
        size = _MEMBER.size + len(body) + 2 + len(properties)
        length = struct.pack(">h", len(properties))
        parts += [_MEMBER.pack(size, 0, 0, flag, len(body)), body, length, properties]
    whole = b"".join(parts)
    _check_size(whole)
    return whole


def _check_size(body: bytes) -> None:
    """A whole batch has the limit of one message."""
    if len(body) > LARGEST_BODY:
        raise BadMessage(f"the message body size over max value, MAX: {LARGEST_BODY}", 13)
