"""Reading of queues over the network: what there is to read, and pulling it, requests ahead."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from cometmq.client import BrokerRefused, ClientError, MessageQueue, NoRoute
from cometmq.client.session import Session
from cometmq.net import LocalNetwork
from cometmq.protocol import (
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    PullAnswer,
    PullMessage,
    ResponseCode,
)
from cometmq.runtime import CometError

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


def connected(namesrv: str) -> Session:
    """The connections of one driver or task; they live as long as its `async with` block."""
    # Brokers know it by no heartbeat: it needs no address by which it could be told apart.
    return Session(namesrv, GROUP, LocalNetwork(), None)


async def ranges(namesrv: str, topics: Iterable[str]) -> list[Range]:
    """Every queue of these topics that may be read and is not empty, as it is now."""
    async with connected(namesrv) as session:
        queues: list[MessageQueue] = []
        for topic in topics:
            route = await session.routes.find(topic)
            if not route.to_read:
                raise NoRoute(
                    f"topic {topic!r} has no queue that may be read: give it the permission with "
                    f"`mqadmin updateTopicPerm -t {topic} -p 6`"
                )
            queues += route.to_read
        found = await asyncio.gather(*(_range(session, queue) for queue in queues))
        return [one for one in found if one.begin < one.end]


async def _range(session: Session, queue: MessageQueue) -> Range:
    where = (queue.topic, queue.queue_id)
    begin, end = [
        OffsetAnswer.read((await session.ask(queue, header, ASK_S)).fields).offset
        for header in (GetMinOffset(*where), GetMaxOffset(*where))
    ]
    return Range(queue, begin, end)


async def chunks(namesrv: str, wanted: Range) -> AsyncGenerator[bytes, None]:
    """The records of a range in order, whole ones, some megabytes at a time."""
    asked, size = wanted.begin, 0
    bodies: list[bytes] = []
    ahead: deque[tuple[Range, asyncio.Task[tuple[int, bytes]]]] = deque()
    async with connected(namesrv) as session:

        def ask(begin: int, end: int) -> tuple[Range, asyncio.Task[tuple[int, bytes]]]:
            part = Range(wanted.queue, begin, end)
            return part, session.scope.start(_pull(session, part), f"pull {part}")

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


async def _pull(session: Session, part: Range) -> tuple[int, bytes]:
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
            answer = await session.ask(part.queue, header, PULL_S, expected=EXPECTED)
        except BrokerRefused:
            raise
        except CometError as error:
            why = error
            await session.routes.renew(part.queue.topic)
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
