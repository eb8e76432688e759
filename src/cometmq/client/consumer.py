"""Consumer: a member of a group, as an asynchronous iterator over the messages of its queues; the
member works out by itself, as every other one does, which queues are its own.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from cometmq.client.errors import ClientError
from cometmq.client.reading import Buffer, Reader, ReceivedMessage
from cometmq.client.routes import MessageQueue, Route, average, java_order
from cometmq.client.session import Session
from cometmq.filtering import Tags
from cometmq.message import BadMessage
from cometmq.message.names import RETRY, group_fault, retry_topic, topic_fault
from cometmq.net import Network
from cometmq.protocol import (
    ConsumerData,
    ConsumerIds,
    GetConsumerListByGroup,
    GetMaxOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    ResponseCode,
    SubscriptionData,
)
from cometmq.runtime import CometError

log = logging.getLogger("cometmq.client")

Start = Literal["earliest", "latest"]

COMMIT_S = 5.0
PERIOD_S = 20.0
SOON_S = 1.0
"""After a pass in which something could not be done yet."""


class Consumer:
    """Consumes a group's share: `async for message in consumer`, inside `async with`."""

    def __init__(
        self,
        namesrv: str,
        *,
        group: str,
        subscribe: Mapping[str, str],
        start: Start = "latest",
        pull_batch: int = 32,
        buffer_messages: int = 1_000,
        buffer_bytes: int = 64 << 20,
        network: Network | None = None,
        random: "random.Random | None" = None,
    ) -> None:
        fault = group_fault(group) or next(filter(None, map(topic_fault, subscribe)), None)
        if fault or not subscribe:
            raise BadMessage(fault or "subscribe to at least one topic: {'orders': '*'}")
        wanted = {topic: Tags.parse(text) for topic, text in subscribe.items()}
        wanted[retry_topic(group)] = Tags.parse("*")
        self._buffer = Buffer(pull_batch, buffer_messages, buffer_bytes)
        self._current: ReceivedMessage | None = None
        self._session = Session(namesrv, group, network, random)
        self._membership = Membership(self._session, self._buffer, wanted, start)

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        self._membership.join()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, Exception) and self._current is not None:
                # The body of the loop failed, which the iterator could not see.
                await self._current.retry()
            if error is None or isinstance(error, Exception):
                await self._membership.close()
            else:  # cancelled: no time for answers, but what was acknowledged is said once more
                await self._membership.commit()
                for reader in self._membership.owned.values():
                    reader.stop()
        finally:
            self._buffer.arrived.set()
            await self._session.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message; asking for it acknowledges the one before."""
        self._session.check_running("consumer")
        if self._current is not None:
            await self._current.ack()
            self._current = None
        while not self._buffer.ready:
            self._buffer.arrived.clear()
            await self._buffer.arrived.wait()
            self._session.check_running("consumer")
        self._current = self._buffer.ready.popleft()
        return self._current


@dataclass(eq=False)
class Membership:
    """Takes and gives up queues as members of the group come and go."""

    session: Session
    buffer: Buffer
    wanted: dict[str, Tags]
    start: Start

    def __post_init__(self) -> None:
        self.owned: dict[MessageQueue, Reader] = {}
        """The queues that are ours now."""
        self._wake = asyncio.Event()
        self._leaving = False
        self._refresh = False
        self.session.changed.watch(self._look_again)

    def _look_again(self, changed: str) -> None:
        self._refresh |= changed == "routes"
        self._wake.set()

    def join(self) -> None:
        """Takes part in the group, for as long as the session lasts."""
        session = self.session
        wanted = tuple(
            SubscriptionData(
                code_set=tags.codes,
                sub_string=tags.text,
                sub_version=session.began_ms,
                tags_set=tags.tags,
                topic=topic,
            )
            for topic, tags in self.wanted.items()
        )
        where = "FIRST" if self.start == "earliest" else "LAST"
        consumer = ConsumerData(
            consume_from_where=f"CONSUME_FROM_{where}_OFFSET",
            consume_type="CONSUME_PASSIVELY",
            group_name=session.group,
            message_model="CLUSTERING",
            subscription_data_set=wanted,
        )
        session.heartbeat = session.heartbeat.but(consumer_data_set=(consumer,))
        self._balancing = session.scope.start(self._keep_balanced(), "membership")
        session.scope.start(self._keep_committing(), "commits")

    async def _keep_balanced(self) -> None:
        while not self._leaving:
            self._wake.clear()
            balanced = await self._pass()
            try:
                async with asyncio.timeout(PERIOD_S if balanced else SOON_S):
                    await self._wake.wait()
                await asyncio.sleep(0)  # those who are told of one change wake us once
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Gives every queue up, so that others go on where we were."""
        self._leaving = True
        self._wake.set()
        await self._balancing  # a pass that is under way takes nothing more
        owned, self.owned = self.owned, {}
        await asyncio.gather(*(reader.drop() for reader in owned.values()))

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            await self.commit()

    async def commit(self) -> None:
        """Tells the brokers how far we are in each queue."""
        for reader in list(self.owned.values()):
            try:
                await reader.commit()
            except CometError as error:
                log.info("offset of %s not committed: %s", reader.queue, error)

    async def _pass(self) -> bool:
        """One look at all topics; whether everything came out as it should."""
        balanced = True
        routes = self.session.routes
        known = routes.brokers()
        look_up, self._refresh = (routes.refresh if self._refresh else routes.find), False
        for topic in self.wanted:
            try:
                await look_up(topic)
            except CometError as error:
                balanced = False
                if not topic.startswith(RETRY):
                    log.info("topic %s: %s", topic, error)
        # A broker that has not heard of us would leave us out of the list of members.
        if news := [one for one in routes.brokers() if one not in known]:
            await self.session.beat(news)
        for topic in self.wanted:
            route = routes.known(topic)
            if route is not None and not self._leaving:
                try:
                    balanced &= await self._balance(topic, route)
                except CometError as error:
                    log.info("group %s, topic %s: %s", self.session.group, topic, error)
                    balanced = False
        return balanced

    async def _balance(self, topic: str, route: Route) -> bool:
        members = await self._members(topic, route)
        if self.session.client_id not in members:
            # Its broker has lost us, with the connection perhaps: we are no member until it knows.
            await self.session.beat(self.session.routes.brokers())
            return False
        wanted = average(route.to_read, members, self.session.client_id)
        for queue in [one for one in self.owned if one.topic == topic and one not in wanted]:
            await self.owned.pop(queue).drop()
        complete = True
        for queue in [one for one in wanted if one not in self.owned]:
            try:
                offset = await self._start(queue)
                if not self._leaving:
                    tags = self.wanted[topic]
                    self.owned[queue] = Reader(self.session, self.buffer, queue, tags, offset)
            except CometError as error:
                # Never a guess: a queue that started at one would skip or repeat messages.
                log.info("%s is not read yet: %s", queue, error)
                complete = False
            if self._leaving:
                break
        return complete

    async def _members(self, topic: str, route: Route) -> list[str]:
        brokers = sorted(route.addresses)
        if not brokers:
            raise ClientError("the route has no broker that could be asked for the members")
        broker = self.session.random.choice(brokers)
        address = await self.session.routes.address(topic, broker)
        answer = await self.session.pool.ask(address, GetConsumerListByGroup(self.session.group))
        if answer.code != ResponseCode.SUCCESS:
            return []
        return sorted(ConsumerIds.read(answer.body).consumer_id_list, key=java_order)

    async def _start(self, queue: MessageQueue) -> int:
        """Where to go on, or to begin (spec 04 4.4)."""
        topic, number = queue.topic, queue.queue_id
        expected = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        committed = QueryConsumerOffset(self.session.group, topic, number)
        answer = await self.session.ask(queue, committed, expected=expected)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            if topic.startswith(RETRY) or self.start == "earliest":
                return 0
            answer = await self.session.ask(queue, GetMaxOffset(topic, number))
        return OffsetAnswer.read(answer.fields).offset
