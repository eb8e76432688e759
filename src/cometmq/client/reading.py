"""Reader: one queue of a consumer: its pulls, what it holds, and how far it has come."""

import asyncio
import logging
from typing import TYPE_CHECKING

from cometmq.client.allocation import MessageQueue
from cometmq.client.received import ReceivedMessage
from cometmq.client.routes import MASTER
from cometmq.kernel import records
from cometmq.net import Address
from cometmq.protocol import (
    Command,
    ConsumerSendMsgBack,
    PullAnswer,
    PullMessage,
    ResponseCode,
    UpdateConsumerOffset,
)
from cometmq.runtime import CometError

if TYPE_CHECKING:
    from cometmq.client.consumer import Consumer

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


class Reader:
    """Pulls one queue into the consumer's buffer, and knows which of its messages are done."""

    def __init__(self, consumer: "Consumer", queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.dropped = False
        self._consumer = consumer
        self._session = consumer.session
        self._tags = consumer.tags(queue.topic)
        self._next = offset
        self._suggested = MASTER
        # In the order of the queue: the first is where the group would have to go on.
        self._unsettled: dict[int, int] = {}
        self._task = self._session.scope.start(self._read(), f"read {queue}")

    @property
    def committed(self) -> int:
        """Everything before this offset is done."""
        return next(iter(self._unsettled), self._next)

    async def _read(self) -> None:
        while True:
            await self._consumer.room()
            try:
                answer = await self._pull()
            except CometError as error:
                log.info("pull of %s: %s", self.queue, error)
                await asyncio.sleep(PAUSE_S)
                continue
            if answer.code in UNDERSTOOD:
                try:
                    self._take(answer)
                    continue
                except CometError as error:
                    log.error("%s sent what is no message: %s", self.queue, error)
            else:
                log.info("pull of %s: code %d, %s", self.queue, answer.code, answer.remark)
                self._consumer.trouble()
            await asyncio.sleep(PAUSE_S)

    async def _pull(self) -> Command:
        consumer = self._consumer
        header = PullMessage(
            consumer_group=consumer.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self._next,
            max_msg_nums=consumer.pull_batch,
            # Our filter goes with each pull, so that a broker that has just been started and
            # knows nobody yet serves us all the same.
            sys_flag=SUSPEND | SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            subscription=self._tags.text,
            sub_version=consumer.version,
            expression_type="TAG",
        )
        return await self._session.pool.ask(self._address(), header, PULL_S)

    def _address(self, *, master: bool = False) -> Address:
        route = self._session.routes.known(self.queue.topic)
        assert route is not None, "a queue is known by its topic's route"
        return route.any_of(self.queue.broker, MASTER if master else self._suggested)

    def _take(self, answer: Command) -> None:
        told = PullAnswer.read(answer.fields)
        self._suggested = told.suggest_which_broker_id
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            log.warning("%s: offset %d moved to %d", self.queue, self._next, told.next_begin_offset)
            self._release()
        elif answer.code == ResponseCode.SUCCESS:
            for record in records.decode_all(answer.body):
                message = ReceivedMessage(record, self)
                # The broker compares hashes; two tags can share one (spec 04 18.2, stage 3).
                if record.queue_offset >= self._next and self._tags.matches(message.tag):
                    self._unsettled[record.queue_offset] = record.size
                    self._consumer.hold(1, record.size)
                    self._consumer.deliver(message)
        self._next = told.next_begin_offset

    def settle(self, message: ReceivedMessage) -> None:
        """The message is done."""
        size = self._unsettled.pop(message.queue_offset, None)
        if size is not None:
            self._consumer.hold(-1, -size)

    def _release(self) -> None:
        self._consumer.hold(-len(self._unsettled), -sum(self._unsettled.values()))
        self._unsettled.clear()

    async def send_back(self, message: ReceivedMessage, after: float | None) -> None:
        """Gives the message back to the broker, or keeps it here for later; never skips it."""
        if self.dropped:
            return  # whoever has the queue now gets it from there
        header = ConsumerSendMsgBack(
            offset=message.position,
            group=self._consumer.group,
            delay_level=0 if after is None else level_for(after),
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=16,
        )
        why: object
        try:
            address = self._address(master=True)
            answer = await self._session.pool.ask(address, header, SEND_BACK_S)
            if answer.code == ResponseCode.SUCCESS:
                self.settle(message)
                return
            why = f"code {answer.code}, {answer.remark}"
        except CometError as error:
            why = error
        pause_s = AGAIN_S if after is None else after
        log.info("%r comes again here in %.0f s: not taken back (%s)", message, pause_s, why)
        self._session.scope.start(self._again(message, pause_s), f"{message!r} again")

    async def _again(self, message: ReceivedMessage, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        if message.queue_offset in self._unsettled:
            message.settled = False
            message.attempt += 1
            self._consumer.deliver(message)

    def _commit_header(self) -> UpdateConsumerOffset:
        """How far the group has come here."""
        queue = self.queue
        return UpdateConsumerOffset(
            self._consumer.group, queue.topic, queue.queue_id, self.committed
        )

    async def commit(self) -> None:
        """Tells the broker, where it can be told at once; there is a next time."""
        address = self._address(master=True)
        if self._session.pool.is_open(address):
            await self._session.pool.tell(address, self._commit_header())

    def stop(self) -> None:
        """Reads no more: what it brought and is not settled is not delivered here any more."""
        self.dropped = True
        self._task.cancel()
        self._consumer.forget(self)
        self._release()

    async def drop(self) -> None:
        """Hands the queue over: what is done is committed, what is not is the next owner's."""
        done = self._commit_header()
        self.stop()
        try:
            await self._session.pool.ask(self._address(master=True), done)
        except CometError as error:
            log.info("%s is not handed over at %d: %s", self.queue, done.commit_offset, error)


LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The delays that brokers know, in seconds (spec 04 Annex A)."""


def level_for(after_s: float) -> int:
    """The first level that is not shorter than this; the longest where none is."""
    for level, seconds in enumerate(LEVELS_S, 1):
        if after_s <= seconds:
            return level
    return len(LEVELS_S)
