"""Reader: one queue of a consumer: its pulls, what it holds, and how far it has come."""

import asyncio
import logging
from typing import TYPE_CHECKING

from cometmq.client.allocation import MessageQueue
from cometmq.client.received import ReceivedMessage
from cometmq.client.routes import MASTER
from cometmq.kernel import Malformed, records
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
SETTLE_S = 3.0


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
            if answer.code in (
                ResponseCode.SUCCESS,
                ResponseCode.PULL_NOT_FOUND,
                ResponseCode.PULL_RETRY_IMMEDIATELY,
                ResponseCode.PULL_OFFSET_MOVED,
            ):
                try:
                    self._take(answer)
                    continue
                except Malformed as error:
                    log.error("%s sent what is no message: %s", self.queue, error)
            else:
                log.info("pull of %s: code %d, %s", self.queue, answer.code, answer.remark)
                self._consumer.trouble(answer.code)
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
        addresses = route.addresses.get(self.queue.broker, {}) if route is not None else {}
        wanted = MASTER if master else self._suggested
        address = addresses.get(wanted) or next(iter(addresses.values()), None)
        if address is None:
            raise CometError(f"The broker[{self.queue.broker}] not exist: it is in no route")
        return address

    def _take(self, answer: Command) -> None:
        told = PullAnswer.read(answer.fields)
        self._suggested = told.suggest_which_broker_id
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            log.warning("%s: offset %d moved to %d", self.queue, self._next, told.next_begin_offset)
            self._unsettled.clear()
        elif answer.code == ResponseCode.SUCCESS:
            for record in records.decode_all(answer.body):
                message = ReceivedMessage(record, self)
                # The broker compares hashes; two tags can share one (spec 04 18.2, stage 3).
                if record.queue_offset >= self._next and self._tags.matches(message.tag):
                    self._unsettled[record.queue_offset] = record.size
                    self._consumer.deliver(message, record.size)
        self._next = told.next_begin_offset

    def settle(self, message: ReceivedMessage) -> None:
        """The message is done."""
        self._unsettled.pop(message.queue_offset, None)

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
        asyncio.get_running_loop().call_later(pause_s, self._again, message)

    def _again(self, message: ReceivedMessage) -> None:
        size = self._unsettled.get(message.queue_offset)
        if size is not None and not self.dropped:
            message.settled = False
            message.attempt += 1
            self._consumer.deliver(message, size)

    def commit_header(self) -> UpdateConsumerOffset:
        """How far the group has come here."""
        queue = self.queue
        return UpdateConsumerOffset(
            self._consumer.group, queue.topic, queue.queue_id, self.committed
        )

    async def commit(self) -> None:
        """Tells the broker, without waiting for an answer."""
        await self._session.pool.tell(self._address(master=True), self.commit_header())

    async def drop(self) -> None:
        """Hands the queue over: what is done is committed, what is not is the next owner's."""
        self.dropped = True
        self._task.cancel()
        self._consumer.forget(self)
        await self._session.quietly(self._hand_over())

    async def _hand_over(self) -> None:
        address = self._address(master=True)
        await self._session.pool.ask(address, self.commit_header(), SETTLE_S)


LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The delays that brokers know, in seconds (spec 04 Annex A)."""


def level_for(after_s: float) -> int:
    """The first level that is not shorter than this; the longest where none is."""
    for level, seconds in enumerate(LEVELS_S, 1):
        if after_s <= seconds:
            return level
    return len(LEVELS_S)
