"""Reading of queues over the network: what there is to read, and pulling it, requests ahead."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from cometmq.client import BrokerRefused, ClientError, NoRoute
from cometmq.client.allocation import MessageQueue
from cometmq.client.routes import MASTER, Routes
from cometmq.net import Pool
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
from cometmq.runtime import CometError, Scope, fresh

GROUP = "cometmq-spark"
"""The group of our pulls. One name for all: a broker that makes no groups by itself can have it."""

PULL_BATCH, PIPELINE = 32, 8
"""Messages a pull asks for, of which the original gives no more, and pulls under way at a time."""

CHUNK_BYTES = 8 << 20
"""What is handed on at once: a call of the decoder pays only with many records."""

ASK_S, PULL_S = 5.0, 20.0
SUBSCRIPTION = 4

PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, *(5.0,) * 12)
"""Before each further try of a pull: a broker that is started again has a minute for it."""

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

    def __str__(self) -> str:
        return f"{'/'.join(map(str, self.queue))}: messages {self.begin}..{self.end - 1}"


class Reading:
    """The connections of one driver or task; lives as long as its `async with` block."""

    def __init__(self, namesrv: str) -> None:
        # A broker asks nothing of a reader that it knows by no heartbeat.
        self._pool = Pool()
        self._routes = Routes(namesrv, self._pool, fresh())
        self._scope = Scope()

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
        """Asks the master of a queue, or its first slave while there is no master."""
        addresses = (await self._routes.find(queue.topic)).addresses.get(queue.broker)
        if not addresses:
            raise ClientError(f"broker {queue.broker!r} is in no route of {queue.topic!r} any more")
        address = addresses.get(MASTER) or addresses[min(addresses)]
        answer = await self._pool.ask(address, header, within_s)
        if answer.code not in expected:
            what = f"{type(header).__name__} of {'/'.join(map(str, queue))} as group {GROUP!r}"
            raise BrokerRefused(what, str(address), answer.code, answer.remark)
        return answer

    async def chunks(self, wanted: Range) -> AsyncGenerator[bytes, None]:
        """The records of a range in order, whole ones, some megabytes at a time."""
        asked, size = wanted.begin, 0
        bodies: list[bytes] = []
        ahead: deque[tuple[Range, asyncio.Task[tuple[int, bytes]]]] = deque()

        def ask(begin: int, end: int) -> tuple[Range, asyncio.Task[tuple[int, bytes]]]:
            part = Range(wanted.queue, begin, end)
            return part, self._scope.start(self._pull(part), f"pull {part}")

        while asked < wanted.end or ahead:
            while asked < wanted.end and len(ahead) < PIPELINE:
                ahead.append(ask(asked, min(asked + PULL_BATCH, wanted.end)))
                asked += PULL_BATCH
            part, task = ahead.popleft()
            following, body = await task
            if following < part.end:  # of large messages a broker gives fewer
                ahead.appendleft(ask(following, part.end))
            bodies.append(body)
            size += len(body)
            if size >= CHUNK_BYTES or not ahead:
                yield b"".join(bodies)
                bodies, size = [], 0

    async def _pull(self, part: Range) -> tuple[int, bytes]:
        """The first messages of a range, and the offset behind them."""
        header = PullMessage(
            consumer_group=GROUP,
            topic=part.queue.topic,
            queue_id=part.queue.queue_id,
            queue_offset=part.begin,
            max_msg_nums=part.end - part.begin,
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
                answer = await self._ask(part.queue, header, PULL_S, EXPECTED)
            except BrokerRefused:
                raise
            except CometError as error:
                why = error
                await self._refresh(part.queue.topic)
            else:
                if answer.code == ResponseCode.SUCCESS:
                    return _following(part, PullAnswer.read(answer.fields)), answer.body
                why = f"code {answer.code}, {answer.remark}"
                if "minOffset" in answer.fields:
                    _check_kept(part, PullAnswer.read(answer.fields))
            await asyncio.sleep(pause_s)
        raise ClientError(
            f"{part} could not be read, {len(PAUSES_S)} tries in {sum(PAUSES_S):.0f} s, the last: "
            f"{why}; look at the broker, then run it again"
        )

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic)
        except CometError:
            pass  # the route that we have is the best there is


def _following(part: Range, told: PullAnswer) -> int:
    if told.offset_delta or not part.begin < told.next_begin_offset <= part.end:
        raise ClientError(
            f"{part} asked for, the broker goes on at {told.next_begin_offset}, shifted by "
            f"{told.offset_delta or 0}: static topics are not built yet"
        )
    return told.next_begin_offset


def _check_kept(part: Range, told: PullAnswer) -> None:
    if told.min_offset > part.begin:
        raise DataLost(
            f"[PIPE_DATA_LOSS] {part} are not all there: those before {told.min_offset} were "
            "deleted by retention before they were read; run it again to read what is left"
        )


async def pulled(namesrv: str, wanted: Range) -> AsyncGenerator[bytes, None]:
    """The records of a range, by connections that end with it."""
    async with Reading(namesrv) as reading:
        async for chunk in reading.chunks(wanted):
            yield chunk
