"""ReceivedMessage: a message as its consumer has it, to be acknowledged or sent back."""

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Self

from cometmq.kernel import records
from cometmq.message import LARGEST_BODY, decompress, properties

if TYPE_CHECKING:
    from cometmq.client.reading import Reader

log = logging.getLogger("cometmq.client")

LARGEST_UNPACKED = 16 * LARGEST_BODY
"""What a compressed body may become; far above what brokers take uncompressed."""


class ReceivedMessage:
    """A message of a queue. Asking for the next one acknowledges it; so does leaving its block."""

    def __init__(self, record: records.Record, reader: "Reader") -> None:
        self._record = record
        self._reader = reader
        self.settled = False
        self.attempt = record.reconsume_times + 1
        """1 at the first delivery; grows each time the message comes back."""
        self.flag = record.flag
        """The number that its sender put there."""
        self.broker = reader.queue.broker
        """The broker that has it."""
        self.queue_id = record.queue_id
        """The queue that it came from."""
        self.queue_offset = record.queue_offset
        """Its place in that queue."""
        self.position = record.position
        """Its place in the broker's log."""
        self.born_ms = record.born_ms
        """When it was sent, by its sender's clock."""
        self.stored_ms = record.store_ms
        """When it was stored, by the broker's clock."""

    @cached_property
    def properties(self) -> dict[str, str]:
        """All properties, those of the system included."""
        return properties.parse(self._record.properties)

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes back through the group's retry topic."""
        return self.properties.get("RETRY_TOPIC", self._record.topic)

    @cached_property
    def body(self) -> bytes:
        """The body as it was sent; BadCompression says what to install where it cannot be read."""
        return decompress(self._record.body, self._record.sys_flag, LARGEST_UNPACKED)

    @property
    def tag(self) -> str | None:
        """The tag, if it has one."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, in their order."""
        return tuple(self.properties.get(properties.KEYS, "").split())

    @property
    def message_id(self) -> str:
        """The id that its producer was told."""
        return self.properties.get(properties.UNIQ_KEY, "")

    async def ack(self) -> None:
        """The work is done: the message will not be delivered to this group again."""
        if not self.settled:
            self.settled = True
            self._reader.settle(self)

    async def retry(self, after: float | None = None) -> None:
        """The work failed: the message comes again, after so many seconds if they are given."""
        if not self.settled:
            self.settled = True
            try:
                await self._reader.send_back(self, after)
            except BaseException:
                self.settled = False  # cancelled: it may still be acknowledged or sent back
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            await self.ack()
            return False
        if not isinstance(error, Exception):  # cancelled: it was neither done nor did it fail
            return False
        if not self.settled:
            log.warning("%r is sent back: %s: %s", self, type(error).__name__, error)
            await self.retry()
        return True

    def __repr__(self) -> str:
        return f"<message {self.topic}/{self.queue_id}@{self.queue_offset} {self.message_id}>"
