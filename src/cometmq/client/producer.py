"""Producer: sends messages, with one deadline for all tries and other brokers on failure."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from cometmq.client.errors import BrokerRefused, NoRoute, NotConfirmed, Receipt, SendFailed
from cometmq.client.routes import MOST_BORROWED, MessageQueue, Route
from cometmq.client.session import Session
from cometmq.message import (
    BadMessage,
    Message,
    UniqueIds,
    check_batch,
    compress,
    encode_batch,
    properties,
)
from cometmq.message.names import TEMPLATE_TOPIC, group_fault
from cometmq.net import Network
from cometmq.protocol import SEND_BATCH, ProducerData, ResponseCode, SendAnswer, SendMessageV2
from cometmq.runtime import CometError, TimedOut

TRIED_AGAIN = (1, 2, 14, 16, 17, 204, 205)
"""Codes after which another try may succeed; as the original's retryResponseCodes."""

NOT_CONFIRMED: dict[int, str] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "it is not on the disk yet",
    ResponseCode.SLAVE_NOT_AVAILABLE: "no slave is there to take it",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "no slave has taken it in time",
}
LATE = "the broker did not answer in time: give more with timeout_ms, or look at its load"


@dataclass(frozen=True)
class _Parcel:
    """What travels, ready for any broker: one message or one batch; and how its way has been."""

    topic: str
    header: SendMessageV2
    body: bytes
    ids: str
    code: int
    began: float
    tried: list[tuple[str, CometError]] = field(default_factory=list)
    """The brokers that did not take it, and why."""


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
        self._timeout_ms = timeout_ms
        self._tries = max(1, tries)
        self._compress_above = compress_above
        self._session = session = Session(namesrv, group, network, random)
        session.heartbeat = session.heartbeat.but(producer_data_set=(ProducerData(group),))
        self._ids = UniqueIds(session.host, session.random.getrandbits(16), session.random)
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
        parcel = self._pack(message, queue)
        until = parcel.began + (timeout_ms or self._timeout_ms) / 1000
        for tries_left in range(1 if queue is not None else self._tries, 0, -1):
            route = await self._route(parcel, until, tries_left)
            where = queue or self._next_queue(route, parcel)
            # While another broker could be tried, a silent one does not get all the time.
            others = len({one.broker for one in route.to_write}) > 1
            share_s = (until - self._session.clock.time()) / (tries_left if others else 1)
            if share_s <= 0:
                break
            try:
                return await self._try(parcel, route, where, share_s)
            except NotConfirmed:
                raise
            except CometError as error:
                if isinstance(error, BrokerRefused) and error.code not in TRIED_AGAIN:
                    raise
                parcel.tried.append((where.broker, error))
        last = parcel.tried[-1][1] if parcel.tried else None
        late = last is None or isinstance(last, TimedOut)
        failure = self._failure(parcel, LATE if late else "see what each broker said")
        failure.code = last.code if last is not None else None
        raise failure from last

    async def send_oneway(
        self, message: Message | Sequence[Message], *, queue: MessageQueue | None = None
    ) -> None:
        """Sends without waiting for an answer; nobody knows whether it was stored."""
        parcel = self._pack(message, queue)
        route = await self._session.routes.find_to_send(parcel.topic)
        where = queue or self._next_queue(route, parcel)
        header, address = self._addressed(parcel, where), route.master(where.broker)
        await self._session.pool.tell(address, header, parcel.body, parcel.code)

    def _pack(self, given: Message | Sequence[Message], queue: MessageQueue | None) -> _Parcel:
        self._session.check_running("producer")
        clock = self._session.clock
        now_ms, sys_flag, flag = clock.now_ms(), 0, 0
        if isinstance(given, Message):
            given.check()
            topic, body, flag, ids = given.topic, given.body, given.flag, self._ids.make(now_ms)
            if len(body) >= self._compress_above:
                body, sys_flag = compress(body)
            pairs, code = given.stored_properties(ids), SendMessageV2.code
        else:
            body, ids = self._join(given, now_ms)
            topic, waits = given[0].topic, given[0].wait_stored
            # No id for the batch: a 5.x broker of the original would give it to every member.
            pairs = {properties.WAIT: "true" if waits else "false"}
            code = SEND_BATCH
        if queue is not None and queue.topic != topic:
            raise BadMessage(f"message's topic not equal mq's topic: {topic!r} and {queue.topic!r}")
        header = SendMessageV2(
            group=self._session.group,
            topic=topic,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queues=MOST_BORROWED,
            queue_id=0,
            sys_flag=sys_flag,
            born_ms=now_ms,
            message_flag=flag,
            properties=properties.encode(pairs).decode(),
            batch=code == SEND_BATCH,
        )
        return _Parcel(topic, header, body, ids, code, clock.time())

    def _join(self, messages: Sequence[Message], now_ms: int) -> tuple[bytes, str]:
        """The body of a batch, and the ids of its members."""
        check_batch(messages)
        ids = [self._ids.make(now_ms) for _ in messages]
        body = encode_batch(
            (one.flag, one.body, properties.encode(one.stored_properties(unique)))
            for one, unique in zip(messages, ids, strict=True)
        )
        return body, ",".join(ids)

    def _addressed(self, parcel: _Parcel, queue: MessageQueue) -> SendMessageV2:
        """What is said about a parcel that now goes to this queue."""
        now_ms = self._session.clock.now_ms()
        return replace(parcel.header, queue_id=queue.queue_id, broker=queue.broker, born_ms=now_ms)

    async def _route(self, parcel: _Parcel, until: float, tries_left: int) -> Route:
        """Where the topic is; it is looked up again where that may be why a try has failed."""
        routes, clock = self._session.routes, self._session.clock
        try:
            if parcel.tried:  # a silent name server does not cost another try
                async with asyncio.timeout((until - clock.time()) / tries_left):
                    await routes.renew(parcel.topic)
        except TimeoutError:
            pass
        try:
            async with asyncio.timeout_at(until):
                return await routes.find_to_send(parcel.topic)
        except TimeoutError:
            asked = ", ".join(map(str, routes.servers))
            raise self._failure(
                parcel,
                f"no name server of {asked} has said where the topic is: is one running there? "
                "Give more time with timeout_ms",
            ) from None

    def _next_queue(self, route: Route, parcel: _Parcel) -> MessageQueue:
        """Round robin over all queues; past the broker that failed, if there is another."""
        topic, queues = parcel.topic, route.to_write
        if not queues:
            raise NoRoute(
                f"no route for topic {topic!r}: brokers have it, but none of them may be written to"
            )
        failed = parcel.tried[-1][0] if parcel.tried else None
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._session.random.randrange(len(queues))
        for _ in range(len(queues)):
            turn += 1
            if queues[turn % len(queues)].broker != failed:
                break
        self._turns[topic] = turn
        return queues[turn % len(queues)]

    async def _try(
        self, parcel: _Parcel, route: Route, queue: MessageQueue, within_s: float
    ) -> Receipt:
        address, topic = route.master(queue.broker), parcel.topic
        header = self._addressed(parcel, queue)
        pool = self._session.pool
        answer = await pool.ask(address, header, within_s, parcel.body, parcel.code)
        unconfirmed = NOT_CONFIRMED.get(answer.code)
        if answer.code and unconfirmed is None:
            what = f"send to {topic!r}, queue {queue.queue_id}"
            raise BrokerRefused(what, f"{queue.broker} at {address}", answer.code, answer.remark)
        told = SendAnswer.read(answer.fields)
        place = queue.broker, told.queue_id, told.queue_offset
        receipt = Receipt(parcel.ids, told.msg_id, topic, *place)
        if unconfirmed is not None:
            raise NotConfirmed(
                f"send to {topic!r}: {queue.broker} at {address} has stored the message, but "
                f"{unconfirmed} (code {answer.code}); sending it again would make a duplicate",
                answer.code,
                receipt,
            )
        return receipt

    def _failure(self, parcel: _Parcel, advice: str) -> SendFailed:
        cost_ms = (self._session.clock.time() - parcel.began) * 1000
        tried = ", ".join(f"{broker} ({why})" for broker, why in parcel.tried)
        return SendFailed(
            f"Send [{len(parcel.tried)}] times, still failed, cost [{cost_ms:.0f}]ms, "
            f"Topic: {parcel.topic}, BrokersSent: [{tried}]; {advice}"
        )
