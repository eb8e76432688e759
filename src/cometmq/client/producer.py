"""Producer: sends messages, with one deadline for all tries and other brokers on failure."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from cometmq.client.allocation import MessageQueue
from cometmq.client.errors import BrokerRefused, NoRoute, NotConfirmed, SendFailed
from cometmq.client.receipt import Receipt
from cometmq.client.routes import TEMPLATE, Route
from cometmq.client.session import Session
from cometmq.message import (
    LARGEST_BODY,
    BadMessage,
    Message,
    UniqueIds,
    batches,
    compress,
    properties,
)
from cometmq.message.names import group_fault
from cometmq.net import Network
from cometmq.protocol import (
    HeartbeatData,
    ProducerData,
    RequestCode,
    ResponseCode,
    SendAnswer,
    SendMessageV2,
    UnregisterClient,
)
from cometmq.runtime import CometError, TimedOut

TRIED_AGAIN = (1, 2, 14, 16, 17, 204, 205)
"""Codes after which another try may succeed; as the original's retryResponseCodes."""

NOT_CONFIRMED: dict[int, str] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "it is not on the disk yet",
    ResponseCode.SLAVE_NOT_AVAILABLE: "no slave is there to take it",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "no slave has taken it in time",
}
LATE = "the broker did not answer in time: give more with timeout_ms, or look at its load"
BORROWED_QUEUES = 4


@dataclass(frozen=True)
class _Parcel:
    """What travels: one message or one batch, ready for any broker."""

    topic: str
    code: int
    body: bytes
    properties: str
    sys_flag: int
    flag: int
    ids: str


class Producer:
    """Sends messages: `async with Producer("127.0.0.1:9876", group="shop") as producer`."""

    def __init__(
        self,
        namesrv: str,
        *,
        group: str,
        timeout_ms: int = 3_000,
        tries: int = 3,
        compress_above: int = 4_096,
        network: Network | None = None,
        random: "random.Random | None" = None,
    ) -> None:
        if fault := group_fault(group):
            raise BadMessage(fault)
        self._group = group
        self._timeout_ms = timeout_ms
        self._tries = max(1, tries)
        self._compress_above = compress_above
        self._session = Session(
            namesrv,
            network=network,
            chance=random,
            masters_only=True,
            describe=lambda me: HeartbeatData(
                client_id=me, producer_data_set=(ProducerData(group_name=group),)
            ),
            leaving=lambda me: UnregisterClient(me, producer_group=group),
        )
        chance = self._session.random
        self._ids = UniqueIds(self._session.host, chance.getrandbits(16), chance)
        self._turns: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._session.__aexit__(kind, error, trace)

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> Receipt:
        """Sends a message, or a list of them as one batch; returns when the broker has it.

        With a queue there is one try. Raises SendFailed, BrokerRefused, NoRoute, or NotConfirmed
        where the message is stored less surely than the broker promises.
        """
        self._session.check_running("producer")
        parcel = self._pack(message, queue)
        return await _Sending(self, parcel, queue, timeout_ms or self._timeout_ms).run()

    async def send_oneway(
        self, message: Message | Sequence[Message], *, queue: MessageQueue | None = None
    ) -> None:
        """Sends without waiting for an answer; nobody knows whether it was stored."""
        self._session.check_running("producer")
        parcel = self._pack(message, queue)
        route = await self._session.routes.find_to_send(parcel.topic)
        where = queue or self.next_queue(route, parcel.topic, None)
        header = self.header(parcel, where)
        address = route.master(where.broker)
        await self._session.pool.tell(address, header, parcel.body, parcel.code)

    def _pack(self, given: Message | Sequence[Message], queue: MessageQueue | None) -> _Parcel:
        if isinstance(given, Message):
            parcel = self._pack_one(given)
        else:
            parcel = self._pack_batch(given)
        if queue is not None and queue.topic != parcel.topic:
            raise BadMessage(
                f"message's topic not equal mq's topic: {parcel.topic!r} and {queue.topic!r}"
            )
        return parcel

    def _pack_one(self, message: Message) -> _Parcel:
        message.check()
        unique = self._ids.make(self._session.clock.now_ms())
        body, sys_flag = message.body, 0
        if len(body) >= self._compress_above:
            body, sys_flag = compress(body)
        text = properties.encode(message.stored_properties(unique)).decode()
        code = RequestCode.SEND_MESSAGE_V2
        return _Parcel(message.topic, code, body, text, sys_flag, message.flag, unique)

    def _pack_batch(self, messages: Sequence[Message]) -> _Parcel:
        batches.check(messages)
        now = self._session.clock.now_ms()
        ids = [self._ids.make(now) for _ in messages]
        body = batches.encode(
            (one.flag, one.body, properties.encode(one.stored_properties(unique)))
            for one, unique in zip(messages, ids, strict=True)
        )
        batches.check_size(body, LARGEST_BODY)
        waits = "true" if messages[0].wait_stored else "false"
        # No id for the batch itself: a 5.x broker of the original would give it to every member.
        text = properties.encode({properties.WAIT: waits}).decode()
        code = RequestCode.SEND_BATCH_MESSAGE
        return _Parcel(messages[0].topic, code, body, text, 0, 0, ",".join(ids))

    def header(self, parcel: _Parcel, queue: MessageQueue) -> SendMessageV2:
        """What is said about a parcel that goes to this queue."""
        return SendMessageV2(
            group=self._group,
            topic=parcel.topic,
            default_topic=TEMPLATE,
            default_topic_queues=BORROWED_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=parcel.sys_flag,
            born_ms=self._session.clock.now_ms(),
            message_flag=parcel.flag,
            properties=parcel.properties,
            batch=parcel.code == RequestCode.SEND_BATCH_MESSAGE,
            broker=queue.broker,
        )

    def next_queue(self, route: Route, topic: str, failed: str | None) -> MessageQueue:
        """Round robin over all queues; past the broker that failed, if there is another."""
        queues = route.to_write
        if not queues:
            raise NoRoute(
                f"no route for topic {topic!r}: brokers have it, but none of them may be written to"
            )
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._session.random.randrange(len(queues))
        for _ in range(len(queues)):
            turn += 1
            if queues[turn % len(queues)].broker != failed:
                break
        self._turns[topic] = turn
        return queues[turn % len(queues)]


class _Sending:
    """One send, from its first try to its receipt or its failure."""

    def __init__(
        self, producer: Producer, parcel: _Parcel, queue: MessageQueue | None, timeout_ms: int
    ) -> None:
        self._producer = producer
        self._session = producer._session
        self._parcel = parcel
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._until = self._began + timeout_ms / 1000
        self._tried: list[str] = []

    async def run(self) -> Receipt:
        """Tries until one try succeeds, the tries are used up, or the time is over."""
        tries = 1 if self._queue is not None else self._producer._tries
        failed: str | None = None
        last: CometError | None = None
        for tries_left in range(tries, 0, -1):
            if last is not None:
                await self._refresh(self._left_s / tries_left)
            route = await self._route()
            where = self._queue or self._producer.next_queue(route, self._parcel.topic, failed)
            # While another broker could be tried, a silent one does not get all the time.
            others = len({one.broker for one in route.to_write}) > 1
            share_s = self._left_s / tries_left if others else self._left_s
            if share_s <= 0:
                break
            try:
                return await self._try(route, where, share_s)
            except NotConfirmed:
                raise
            except CometError as error:
                if isinstance(error, BrokerRefused) and error.code not in TRIED_AGAIN:
                    raise
                last = error
            failed = where.broker
            self._tried.append(f"{failed} ({last})")
        late = last is None or isinstance(last, TimedOut)
        raise self._failure(LATE if late else "see what each broker said", last) from last

    @property
    def _left_s(self) -> float:
        return self._until - self._loop.time()

    async def _route(self) -> Route:
        routes = self._session.routes
        try:
            async with asyncio.timeout_at(self._until):
                return await routes.find_to_send(self._parcel.topic)
        except TimeoutError:
            asked = ", ".join(map(str, routes.servers))
            raise self._failure(
                f"no name server of {asked} has said where the topic is: is one running there? "
                "Give more time with timeout_ms"
            ) from None

    async def _refresh(self, within_s: float) -> None:
        """The route may be what was wrong; a silent name server does not cost another try."""
        try:
            async with asyncio.timeout(within_s):
                await self._session.routes.refresh(self._parcel.topic)
        except (TimeoutError, CometError):
            pass  # the route that we have is the best there is

    async def _try(self, route: Route, where: MessageQueue, within_s: float) -> Receipt:
        parcel, address = self._parcel, route.master(where.broker)
        header = self._producer.header(parcel, where)
        pool = self._session.pool
        answer = await pool.ask(address, header, within_s, parcel.body, parcel.code)
        unconfirmed = NOT_CONFIRMED.get(answer.code)
        if answer.code and unconfirmed is None:
            what = f"send to {parcel.topic!r}, queue {where.queue_id}"
            raise BrokerRefused(what, f"{where.broker} at {address}", answer.code, answer.remark)
        told = SendAnswer.read(answer.fields)
        place = where.broker, told.queue_id, told.queue_offset
        receipt = Receipt(parcel.ids, told.msg_id, parcel.topic, *place)
        if unconfirmed is not None:
            raise NotConfirmed(
                f"send to {parcel.topic!r}: {where.broker} at {address} has stored the message, "
                f"but {unconfirmed} (code {answer.code}); sending it again would make a duplicate",
                answer.code,
                receipt,
            )
        return receipt

    def _failure(self, advice: str, last: CometError | None = None) -> SendFailed:
        cost_ms = (self._loop.time() - self._began) * 1000
        failure = SendFailed(
            f"Send [{len(self._tried)}] times, still failed, cost [{cost_ms:.0f}]ms, "
            f"Topic: {self._parcel.topic}, BrokersSent: [{', '.join(self._tried)}]; {advice}"
        )
        failure.code = last.code if last is not None else None
        return failure
