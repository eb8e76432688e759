"""Membership: which queues are ours, as every member of the group works it out for itself."""

import asyncio
import logging
from typing import TYPE_CHECKING

from cometmq.client.allocation import MessageQueue, average, java_order
from cometmq.client.errors import BrokerRefused, ClientError, NoRoute
from cometmq.client.reading import Reader
from cometmq.client.routes import Route
from cometmq.message.names import RETRY
from cometmq.net import Address
from cometmq.protocol import (
    ConsumerIds,
    GetConsumerListByGroup,
    GetMaxOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    ResponseCode,
)
from cometmq.runtime import CometError

if TYPE_CHECKING:
    from cometmq.client.consumer import Consumer

log = logging.getLogger("cometmq.client")

PERIOD_S = 20.0
SOON_S = 1.0
"""After a pass in which something could not be done yet."""

ASK_S = 3.0


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
            for reader in owned.values():
                await reader.drop()

    async def _pass(self) -> bool:
        """One look at all topics; whether everything came out as it should."""
        balanced = True
        known = list(self._session.routes.brokers())
        for topic in self._topics:
            try:
                routes = self._session.routes
                await (routes.refresh(topic) if self._refresh else routes.find(topic))
            except (NoRoute, ClientError) as error:
                balanced = False
                if not topic.startswith(RETRY):
                    log.info("topic %s: %s", topic, error)
        self._refresh = False
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
        for queue in wanted:
            if queue not in self._owned:
                try:
                    offset = await self._start(queue, route)
                except CometError as error:
                    # Never a guess: a queue that started at one would skip or repeat messages.
                    log.info("%s is not read yet: %s", queue, error)
                    complete = False
                    continue
                if self._leaving:
                    return False
                self._owned[queue] = Reader(self._consumer, queue, offset)
        return complete

    async def _members(self, route: Route) -> list[str]:
        brokers = sorted(route.addresses)
        if not brokers:
            raise ClientError("the route has no broker that could be asked for the members")
        addresses = route.addresses[self._session.random.choice(brokers)]
        address = addresses.get(0) or next(iter(addresses.values()))
        header = GetConsumerListByGroup(self._consumer.group)
        answer = await self._session.pool.ask(address, header, ASK_S)
        if answer.code != ResponseCode.SUCCESS:
            return []
        return sorted(ConsumerIds.read(answer.body).consumer_id_list, key=java_order)

    async def _start(self, queue: MessageQueue, route: Route) -> int:
        """Where to go on, or to begin (spec 04 4.4)."""
        addresses = route.addresses.get(queue.broker, {})
        address = addresses.get(0) or next(iter(addresses.values()), None)
        if address is None:
            raise ClientError(f"The broker[{queue.broker}] not exist: it is in no route")
        topic, number = queue.topic, queue.queue_id
        ask = QueryConsumerOffset(self._consumer.group, topic, number)
        answer = await self._session.pool.ask(address, ask, ASK_S)
        if answer.code == ResponseCode.SUCCESS:
            return OffsetAnswer.read(answer.fields).offset
        if answer.code != ResponseCode.QUERY_NOT_FOUND:
            raise BrokerRefused(f"offset of {queue}", str(address), answer.code, answer.remark)
        if topic.startswith(RETRY) or self._consumer.start == "earliest":
            return 0
        return await self._end(queue, address)

    async def _end(self, queue: MessageQueue, address: Address) -> int:
        ask = GetMaxOffset(queue.topic, queue.queue_id)
        answer = await self._session.pool.ask(address, ask, ASK_S)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(f"end of {queue}", str(address), answer.code, answer.remark)
        return OffsetAnswer.read(answer.fields).offset
