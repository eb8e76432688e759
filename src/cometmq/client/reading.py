"""Reading: the queues of a consumer, pulled into one buffer, and how far each of them has come."""

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from cometmq.client.errors import BrokerRefused
from cometmq.client.routes import MASTER, MessageQueue
from cometmq.client.session import Session
from cometmq.filtering import Tags
from cometmq.kernel import Malformed, records
from cometmq.message import LARGEST_BODY, decompress, properties
from cometmq.protocol import (
    BadField,
    Command,
    ConsumerSendMsgBack,
    PullAnswer,
    PullMessage,
    ResponseCode,
    UpdateConsumerOffset,
)
from cometmq.runtime import CometError

log = logging.getLogger("cometmq.client")

HOLD_MS, PULL_S = 15_000, 30.0
"""How long a broker may hold a pull, and we wait: 15 s, the next 5 s scan, and a margin."""

PAUSE_S = 1.0
"""After a pull that failed; the original's, since 5.0."""

AGAIN_S = 5.0
"""After which a message that no broker takes back is delivered here again (spec 04 8.4)."""

SUSPEND, SUBSCRIPTION = 2, 4
SEND_BACK_S = 5.0

UNDERSTOOD = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
"""Answers that say where the queue goes on; others mean that something is wrong."""

LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The delays that brokers know, in seconds (spec 04 Annex A)."""

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
        """The body as it was sent; BadCompression says why where it cannot be read."""
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


@dataclass(eq=False)
class Buffer:
    """The messages of all queues that are here and not settled, and those of them to be had now."""

    pull_batch: int
    """The most messages that one pull brings."""
    most_messages: int
    most_bytes: int
    messages: int = 0
    size: int = 0
    ready: "deque[ReceivedMessage]" = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def deliver(self, message: ReceivedMessage) -> None:
        """A message of one of our queues is there, for the first time or again."""
        self.ready.append(message)
        self.arrived.set()

    def forget(self, reader: "Reader") -> None:
        """A queue has gone to another member: what it brought is not delivered here any more."""
        self.ready = deque(one for one in self.ready if one._reader is not reader)

    def hold(self, more: int, size: int) -> None:
        """So many messages and bytes more are here and not settled; or fewer."""
        self.messages += more
        self.size += size
        self.changed.set()

    async def room(self) -> None:
        """Waits until it takes more; messages that wait to come again are part of it."""
        while self.messages >= self.most_messages or self.size >= self.most_bytes:
            self.changed.clear()
            await self.changed.wait()


@dataclass(eq=False)
class Reader:
    """Pulls one queue into the buffer, and knows which of its messages are done."""

    session: Session
    buffer: Buffer
    queue: MessageQueue
    tags: Tags
    next: int
    """The offset that is pulled next."""

    def __post_init__(self) -> None:
        self._suggested = MASTER
        self._dropped = False
        # In the order of the queue: the first is where the group would have to go on.
        self._unsettled: dict[int, int] = {}
        self._task = self.session.scope.start(self._read(), f"read {self.queue}")

    async def _read(self) -> None:
        while True:
            await self.buffer.room()
            try:
                self._take(await self._pull())
                continue
            except BrokerRefused as error:
                log.info("%s", error)
                self.session.changed.fire("routes")
            except (BadField, Malformed) as error:
                log.error("%s sent what is no message: %s", self.queue, error)
            except CometError as error:
                log.info("pull of %s: %s", self.queue, error)
            await asyncio.sleep(PAUSE_S)

    async def _pull(self) -> Command:
        header = PullMessage(
            consumer_group=self.session.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self.next,
            max_msg_nums=self.buffer.pull_batch,
            # Our filter goes with each pull, so that a broker that has just been started and
            # knows nobody yet serves us all the same.
            sys_flag=SUSPEND | SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            subscription=self.tags.text,
            sub_version=self.session.began_ms,
            expression_type="TAG",
        )
        return await self.session.ask(
            self.queue, header, PULL_S, of=self._suggested, expected=UNDERSTOOD
        )

    def _take(self, answer: Command) -> None:
        told = PullAnswer.read(answer.fields)
        self._suggested = told.suggest_which_broker_id
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            log.warning("%s: offset %d moved to %d", self.queue, self.next, told.next_begin_offset)
            self._release()
        elif answer.code == ResponseCode.SUCCESS:
            for record in records.decode_all(answer.body):
                message = ReceivedMessage(record, self)
                # The broker compares hashes; two tags can share one (spec 04 18.2, stage 3).
                if record.queue_offset >= self.next and self.tags.matches(message.tag):
                    self._unsettled[record.queue_offset] = record.size
                    self.buffer.hold(1, record.size)
                    self.buffer.deliver(message)
        self.next = told.next_begin_offset

    def settle(self, message: ReceivedMessage) -> None:
        """The message is done."""
        size = self._unsettled.pop(message.queue_offset, None)
        if size is not None:
            self.buffer.hold(-1, -size)

    def _release(self) -> None:
        self.buffer.hold(-len(self._unsettled), -sum(self._unsettled.values()))
        self._unsettled.clear()

    async def send_back(self, message: ReceivedMessage, after: float | None) -> None:
        """Gives the message back to the broker, or keeps it here for later; never skips it."""
        if self._dropped:
            return  # whoever has the queue now gets it from there
        header = ConsumerSendMsgBack(
            offset=message.position,
            group=self.session.group,
            delay_level=0 if after is None else level_for(after),
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=16,
        )
        try:
            await self.session.ask(self.queue, header, SEND_BACK_S)
            self.settle(message)
        except CometError as why:
            pause_s = AGAIN_S if after is None else after
            log.info("%r comes again here in %.0f s: not taken back (%s)", message, pause_s, why)
            self.session.scope.start(self._again(message, pause_s), f"{message!r} again")

    async def _again(self, message: ReceivedMessage, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        if message.queue_offset in self._unsettled:
            message.settled = False
            message.attempt += 1
            self.buffer.deliver(message)

    def _progress(self) -> UpdateConsumerOffset:
        """How far the group has come here: everything before this offset is done."""
        done = next(iter(self._unsettled), self.next)
        return UpdateConsumerOffset(self.session.group, self.queue.topic, self.queue.queue_id, done)

    async def commit(self) -> None:
        """Tells the broker, where it can be told at once; there is a next time."""
        address = await self.session.routes.address(self.queue.topic, self.queue.broker)
        if self.session.pool.is_open(address):
            await self.session.pool.tell(address, self._progress())

    def stop(self) -> None:
        """Reads no more: what it brought and is not settled is not delivered here any more."""
        self._dropped = True
        self._task.cancel()
        self.buffer.forget(self)
        self._release()

    async def drop(self) -> None:
        """Hands the queue over: what is done is committed, what is not is the next owner's."""
        done = self._progress()
        self.stop()
        try:
            await self.session.ask(self.queue, done)
        except CometError as error:
            log.info("%s is not handed over at %d: %s", self.queue, done.commit_offset, error)


def level_for(after_s: float) -> int:
    """The first level that is not shorter than this; the longest where none is."""
    return min(bisect_left(LEVELS_S, after_s) + 1, len(LEVELS_S))
