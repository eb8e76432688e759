"""Membership: which queues are ours, as every member of the group works it out for itself."""

import asyncio
import logging
from typing import TYPE_CHECKING

from cometmq.client.allocation import MessageQueue, average, java_order
from cometmq.client.errors import BrokerRefused, ClientError
from cometmq.client.reading import Reader
from cometmq.client.routes import Route
from cometmq.message.names import RETRY
from cometmq.protocol import (
    ConsumerIds,
    GetConsumerListByGroup,
    GetMaxOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    RequestHeader,
    ResponseCode,
)
from cometmq.runtime import CometError

if TYPE_CHECKING:
    from cometmq.client.consumer import Consumer

log = logging.getLogger("cometmq.client")

PERIOD_S = 20.0
SOON_S = 1.0
"""After a pass in which something could not be done yet."""


class Membership:
    """Takes and gives up queues as members of the group come and go."""

    def __init__(self, consumer: "Consumer", topics: list[str]) -> None:
        self._consumer = consumer
        self._session = consumer.session
        self._topics = topics
        self._owned: dict[MessageQueue, Reader] = {}
        self._wake = asyncio.Event()
        self._passing = asyncio.Lock()
        self._leaving = False
        self._refresh = False

    def wake(self, *, routes: bool = False) -> None:
        """Something has changed: look again, at the routes too if they may be what is wrong."""
        self._refresh |= routes
        self._wake.set()

    def readers(self) -> list[Reader]:
        """The queues that are ours now."""
        return list(self._owned.values())

    async def run(self) -> None:
        """Takes part in the group until cancelled."""
        while True:
            self._wake.clear()
            async with self._passing:
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
        async with self._passing:  # a pass that is under way takes nothing more
            owned, self._owned = self._owned, {}
            await asyncio.gather(*(reader.drop() for reader in owned.values()))

    async def _pass(self) -> bool:
        """One look at all topics; whether everything came out as it should."""
        balanced = True
        routes = self._session.routes
        known = list(routes.brokers())
        look_up, self._refresh = (routes.refresh if self._refresh else routes.find), False
        for topic in self._topics:
            try:
                await look_up(topic)
            except CometError as error:
                balanced = False
                if not topic.startswith(RETRY):
                    log.info("topic %s: %s", topic, error)
        # A broker that has not heard of us would leave us out of the list of members.
        news = [one for one in self._session.routes.brokers() if one not in known]
        if news:
            await self._session.beat(news)
        for topic in self._topics:
            route = self._session.routes.known(topic)
            if route is not None and not self._leaving:
                try:
                    balanced &= await self._balance(topic, route)
                except CometError as error:
                    log.info("group %s, topic %s: %s", self._consumer.group, topic, error)
                    balanced = False
        return balanced

    async def _balance(self, topic: str, route: Route) -> bool:
        members = await self._members(route)
        if self._session.client_id not in members:
            # Its broker has lost us, with the connection perhaps: we are no member until it knows.
            await self._session.beat(list(self._session.routes.brokers()))
            return False
        wanted = average(route.to_read, members, self._session.client_id)
        for queue in [one for one in self._owned if one.topic == topic and one not in wanted]:
            await self._owned.pop(queue).drop()
        complete = True
        for queue in [one for one in wanted if one not in self._owned]:
            offset: int | None = None
            try:
                offset = await self._start(queue, route)
            except CometError as error:
                # Never a guess: a queue that started at one would skip or repeat messages.
                log.info("%s is not read yet: %s", queue, error)
                complete = False
            if self._leaving:
                return False
            if offset is not None:
                self._owned[queue] = Reader(self._consumer, queue, offset)
        return complete

    async def _members(self, route: Route) -> list[str]:
        brokers = sorted(route.addresses)
        if not brokers:
            raise ClientError("the route has no broker that could be asked for the members")
        address = route.any_of(self._session.random.choice(brokers))
        answer = await self._session.pool.ask(address, GetConsumerListByGroup(self._consumer.group))
        if answer.code != ResponseCode.SUCCESS:
            return []
        return sorted(ConsumerIds.read(answer.body).consumer_id_list, key=java_order)

    async def _start(self, queue: MessageQueue, route: Route) -> int:
        """Where to go on, or to begin (spec 04 4.4)."""
        topic, number = queue.topic, queue.queue_id
        ask = QueryConsumerOffset(self._consumer.group, topic, number)
        offset = await self._offset(queue, route, ask)
        if offset is not None:
            return offset
        if topic.startswith(RETRY) or self._consumer.start == "earliest":
            return 0
        return await self._offset(queue, route, GetMaxOffset(topic, number)) or 0

    async def _offset(self, queue: MessageQueue, route: Route, ask: RequestHeader) -> int | None:
        address = route.any_of(queue.broker)
        answer = await self._session.pool.ask(address, ask)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            what = f"{type(ask).__name__} of {queue}"
            raise BrokerRefused(what, str(address), answer.code, answer.remark)
        return OffsetAnswer.read(answer.fields).offset
