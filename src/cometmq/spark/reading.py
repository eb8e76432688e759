"""Reading of queues over the network: what there is to read, and pulling it, requests ahead."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from cometmq.client import BrokerRefused, ClientError, NoRoute
from cometmq.client.allocation import MessageQueue
from cometmq.client.pool import Pool
from cometmq.client.routes import MASTER, Route, Routes
from cometmq.net import Address
from cometmq.protocol import (
    Command,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    PullAnswer,
    PullMessage,
    RequestHeader,
    ResponseCode,
)
from cometmq.runtime import CometError, Scope
from cometmq.runtime.chance import fresh

GROUP = "cometmq-spark"
"""The group of our pulls. One name for all: a broker that makes no groups by itself can have it."""

PULL_BATCH = 32
"""Messages a pull asks for; the original never gives more at a time."""

PIPELINE = 8
"""Pulls under way at a time."""

CHUNK_BYTES = 8 << 20
"""What is handed on at once: the decoder's work a call pays only with many records."""

ASK_S, PULL_S = 5.0, 20.0
SUBSCRIPTION = 4

PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, *(5.0,) * 12)
"""Before each further try: a broker that is started again has a minute for it."""

EXPECTED = (
    ResponseCode.SUCCESS,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
"""Answers to a pull. After all but the first another try may help: the broker is busy, or does not
show all that it has yet."""


class DataLost(ClientError):
    """Messages that were there when the read was planned are gone."""


@dataclass(frozen=True)
class Range:
    """What one task reads: a queue from one offset up to another."""

    queue: MessageQueue
    begin: int
    end: int


class Reading:
    """The connections of one driver or task; lives as long as its `async with` block."""

    def __init__(self, namesrv: str) -> None:
        # Brokers ask consumers for nothing that a reader without a heartbeat could answer.
        self._pool = Pool(None, lambda command: None, lambda address: None)
        self._routes = Routes(namesrv, self._pool, fresh())
        self._scope = Scope()

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._scope.__aexit__(kind, error, trace)
        finally:
            self._pool.close()
            await asyncio.sleep(0)  # sockets close in the loop's next turn

    async def ranges(self, topics: Iterable[str]) -> list[Range]:
        """Every queue of these topics that may be read and is not empty, as it is now."""
        queues: list[MessageQueue] = []
        for topic in topics:
            route = await self._routes.find(topic)
            if not route.to_read:
                raise NoRoute(
                    f"topic {topic!r} has no queue that may be read: give it the permission with "
                    f"`mqadmin updateTopicPerm -t {topic} -p 6`"
                )
            queues += route.to_read
        found = await asyncio.gather(*(self._range(queue) for queue in queues))
        return [one for one in found if one.begin < one.end]

    async def _range(self, queue: MessageQueue) -> Range:
        where = (queue.topic, queue.queue_id)
        begin = await self._ask(queue, GetMinOffset(*where), ASK_S)
        end = await self._ask(queue, GetMaxOffset(*where), ASK_S)
        return Range(queue, *(OffsetAnswer.read(one.fields).offset for one in (begin, end)))

    async def _ask(
        self,
        queue: MessageQueue,
        header: RequestHeader,
        within_s: float,
        expected: Sequence[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        address = await self._address(queue)
        answer = await self._pool.ask(address, header, within_s)
        if answer.code not in expected:
            what = f"{type(header).__name__} of {named(queue)} for group {GROUP!r}"
            raise BrokerRefused(what, f"{queue.broker} at {address}", answer.code, answer.remark)
        return answer

    async def _address(self, queue: MessageQueue) -> Address:
        """The master, or the first slave while there is none."""
        route: Route = await self._routes.find(queue.topic)
        addresses = route.addresses.get(queue.broker, {})
        if not addresses:
            raise ClientError(f"broker {queue.broker!r} is in no route of {queue.topic!r} any more")
        return addresses.get(MASTER) or addresses[min(addresses)]

    async def chunks(self, wanted: Range) -> AsyncIterator[bytes]:
        """The records of a range in order, whole ones, some megabytes at a time."""
        asked = wanted.begin
        ahead: deque[tuple[int, asyncio.Task[tuple[int, bytes]]]] = deque()
        bodies: list[bytes] = []
        size = 0
        while asked < wanted.end or ahead:
            while asked < wanted.end and len(ahead) < PIPELINE:
                until = min(asked + PULL_BATCH, wanted.end)
                ahead.append((until, self._start(wanted.queue, asked, until)))
                asked = until
            until, task = ahead.popleft()
            following, body = await task
            bodies.append(body)
            size += len(body)
            if following < until:  # large messages: the broker gave fewer
                ahead.appendleft((until, self._start(wanted.queue, following, until)))
            if size >= CHUNK_BYTES:
                yield b"".join(bodies)
                bodies, size = [], 0
        if bodies:
            yield b"".join(bodies)

    def _start(
        self, queue: MessageQueue, begin: int, end: int
    ) -> "asyncio.Task[tuple[int, bytes]]":
        return self._scope.start(self._pull(queue, begin, end), f"pull {named(queue)} at {begin}")

    async def _pull(self, queue: MessageQueue, begin: int, end: int) -> tuple[int, bytes]:
        """Some messages from `begin` on, and the offset behind them."""
        header = PullMessage(
            consumer_group=GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=begin,
            max_msg_nums=end - begin,
            sys_flag=SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        why: object = None
        for pause_s in PAUSES_S:
            try:
                answer = await self._ask(queue, header, PULL_S, EXPECTED)
            except BrokerRefused:
                raise
            except CometError as error:
                why = error
                await self._refresh(queue.topic)
            else:
                told = PullAnswer.read(answer.fields)
                if answer.code == ResponseCode.SUCCESS:
                    return _following(queue, begin, end, told), answer.body
                _check_kept(queue, begin, told)
                why = f"code {answer.code}, {answer.remark}"
            await asyncio.sleep(pause_s)
        raise ClientError(
            f"offsets {begin} to {end - 1} of {named(queue)} could not be read, {len(PAUSES_S)} "
            f"tries in {sum(PAUSES_S):.0f} s, the last: {why}; look at the broker, then run it again"
        )

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic)
        except CometError:
            pass  # the route that we have is the best there is


def named(queue: MessageQueue) -> str:
    """A queue in a text."""
    return f"{queue.topic}/{queue.broker}/{queue.queue_id}"


def _following(queue: MessageQueue, begin: int, end: int, told: PullAnswer) -> int:
    if told.offset_delta or not begin < told.next_begin_offset <= end:
        raise ClientError(
            f"{named(queue)}: asked for offsets {begin} to {end - 1}, the broker goes on at "
            f"{told.next_begin_offset}, shifted by {told.offset_delta or 0}; static topics are not "
            "built yet"
        )
    return told.next_begin_offset


def _check_kept(queue: MessageQueue, begin: int, told: PullAnswer) -> None:
    if told.min_offset > begin:
        raise DataLost(
            f"{named(queue)}: messages {begin}..{told.min_offset - 1} ({told.min_offset - begin}) "
            "are gone: deleted by retention before they were read; run it again to read the rest"
        )


async def pulled(namesrv: str, wanted: Range) -> AsyncGenerator[bytes, None]:
    """The records of a range, by connections that end with it."""
    async with Reading(namesrv) as reading:
        async for chunk in reading.chunks(wanted):
            yield chunk
