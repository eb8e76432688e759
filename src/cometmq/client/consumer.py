"""Consumer: a member of a group, as an asynchronous iterator over the messages of its queues."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Literal, Self

from cometmq.client.membership import Membership
from cometmq.client.reading import Reader
from cometmq.client.received import ReceivedMessage
from cometmq.client.session import Session
from cometmq.filtering import Tags
from cometmq.message import BadMessage
from cometmq.message.names import group_fault, retry_topic, topic_fault
from cometmq.net import Network
from cometmq.protocol import ConsumerData, HeartbeatData, SubscriptionData, UnregisterClient
from cometmq.runtime import CometError

log = logging.getLogger("cometmq.client")

Start = Literal["earliest", "latest"]
COMMIT_S = 5.0


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
        self.group = group
        self.start: Start = start
        self.pull_batch = pull_batch
        self.version = 0
        self._subscribed = {topic: Tags.parse(text) for topic, text in subscribe.items()}
        self._subscribed[retry_topic(group)] = Tags.parse("*")
        self._most_messages = buffer_messages
        self._most_bytes = buffer_bytes
        self._held = self._held_bytes = 0
        self._ready: deque[ReceivedMessage] = deque()
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._current: ReceivedMessage | None = None
        self.session = Session(
            namesrv,
            network=network,
            chance=random,
            masters_only=False,
            describe=self._describe,
            leaving=lambda me: UnregisterClient(me, consumer_group=group),
            notified=lambda: self._membership.wake(),
        )
        self._membership = Membership(self, list(self._subscribed))

    def tags(self, topic: str) -> Tags:
        """What this consumer wants of a topic."""
        return self._subscribed[topic]

    def _describe(self, me: str) -> HeartbeatData:
        wanted = tuple(
            SubscriptionData(
                code_set=tags.codes,
                sub_string=tags.text,
                sub_version=self.version,
                tags_set=tags.tags,
                topic=topic,
            )
            for topic, tags in self._subscribed.items()
        )
        where = "FIRST" if self.start == "earliest" else "LAST"
        consumer = ConsumerData(
            consume_from_where=f"CONSUME_FROM_{where}_OFFSET",
            consume_type="CONSUME_PASSIVELY",
            group_name=self.group,
            message_model="CLUSTERING",
            subscription_data_set=wanted,
        )
        return HeartbeatData(client_id=me, consumer_data_set=(consumer,))

    async def __aenter__(self) -> Self:
        session = await self.session.__aenter__()
        self.version = session.clock.now_ms()
        session.scope.start(self._membership.run(), "membership")
        session.scope.start(self._keep_committing(), "commits")
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, Exception) and self._current is not None:
                # The body of the loop failed, which the iterator could not see.
                await self._current.retry()
            if error is None or isinstance(error, Exception):
                await self._membership.close()
            else:  # cancelled: no time for answers, but what was acknowledged is said once more
                await self._commit()
                for reader in self._membership.readers():
                    reader.stop()
        finally:
            self._arrived.set()
            await self.session.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message; asking for it acknowledges the one before."""
        self.session.check_running("consumer")
        if self._current is not None:
            await self._current.ack()
            self._current = None
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
            self.session.check_running("consumer")
        self._current = self._ready.popleft()
        return self._current

    def deliver(self, message: ReceivedMessage) -> None:
        """A message of one of our queues is there, for the first time or again."""
        self._ready.append(message)
        self._arrived.set()

    def forget(self, reader: Reader) -> None:
        """A queue has gone to another member: what it brought is not delivered here any more."""
        self._ready = deque(one for one in self._ready if one._reader is not reader)

    def hold(self, more: int, size: int) -> None:
        """So many messages and bytes more are here and not settled; or fewer."""
        self._held += more
        self._held_bytes += size
        if not self._full():
            self._has_room.set()

    def _full(self) -> bool:
        return self._held >= self._most_messages or self._held_bytes >= self._most_bytes

    async def room(self) -> None:
        """Waits until the buffer takes more; messages that wait to come again are part of it."""
        while self._full():
            self._has_room.clear()
            await self._has_room.wait()

    def trouble(self) -> None:
        """A broker does not serve us as it should: perhaps it has forgotten us."""
        self._membership.wake(routes=True)

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            await self._commit()

    async def _commit(self) -> None:
        for reader in self._membership.readers():
            try:
                await reader.commit()
            except CometError as error:
                log.info("offset of %s not committed: %s", reader.queue, error)
