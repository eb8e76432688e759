"""The message as its sender has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import cometmq.message.properties as strings
from cometmq.message.faults import BadMessage
from cometmq.message.names import check_topic

LARGEST_BODY = 4 << 20  # maxMessageSize, for clients and brokers alike


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
            strings.check(name, value)

    def stored_properties(self, unique_key: str | None = None) -> dict[str, str]:
        """What is stored with the message: the user's properties, and what the system adds."""
        system = {
            strings.KEYS: " ".join(self.keys),
            strings.UNIQ_KEY: unique_key,
            strings.WAIT: "true" if self.wait_stored else "false",
            strings.TAGS: self.tag,
        }
        return {**self.properties, **{name: value for name, value in system.items() if value}}

    def check(self, largest_body: int = LARGEST_BODY) -> None:
        """BadMessage unless it can be sent: what brokers would refuse does not travel."""
        check_topic(self.topic)
        if self.body is None:
            raise BadMessage("the message body is null", 13)
        if not self.body:
            raise BadMessage("the message body length is zero", 13)
        if len(self.body) > largest_body:
            raise BadMessage(f"the message body size over max value, MAX: {largest_body}", 13)
        length = len(strings.encode(self.stored_properties()))
        if length > strings.LONGEST:
            raise BadMessage(f"the properties take {length} bytes, MAX: {strings.LONGEST}", 13)
