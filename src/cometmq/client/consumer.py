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
        self._bytes = 0
        self._ready: deque[tuple[ReceivedMessage, int]] = deque()
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._current: ReceivedMessage | None = None
        self.session = Session(
            namesrv,
            network=network,
            chance=random,
            masters_only=False,
            describe=self._describe,
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
        session = self.session
        try:
            if isinstance(error, Exception) and self._current is not None:
                # The body of the loop failed, which the iterator could not see.
                await self._current.retry()
            if error is None or isinstance(error, Exception):
                await self._membership.close()
                await session.leave(UnregisterClient(session.client_id, consumer_group=self.group))
            else:  # cancelled: no time for answers, but what was acknowledged is said once more
                await self._commit()
        finally:
            self._arrived.set()
            await session.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message; asking for it acknowledges the one before."""
        self.session.check_running("consumer")
        if self._current is not None:
            await self._current.ack()
            self._current = None
        while True:
            while self._ready:
                message, size = self._ready.popleft()
                self._bytes -= size
                if not self._full():
                    self._has_room.set()
                if not message._reader.dropped:
                    self._current = message
                    return message
            self._arrived.clear()
            await self._arrived.wait()
            self.session.check_running("consumer")

    def deliver(self, message: ReceivedMessage, size: int) -> None:
        """A message of one of our queues is there."""
        self._ready.append((message, size))
        self._bytes += size
        self._arrived.set()

    def forget(self, reader: Reader) -> None:
        """A queue has gone to another member: what it brought is not delivered here any more."""
        kept = [(one, size) for one, size in self._ready if one._reader is not reader]
        self._bytes = sum(size for _, size in kept)
        self._ready = deque(kept)
        if not self._full():
            self._has_room.set()

    def _full(self) -> bool:
        return len(self._ready) >= self._most_messages or self._bytes >= self._most_bytes

    async def room(self) -> None:
        """Waits until the buffer takes more."""
        while self._full():
            self._has_room.clear()
            await self._has_room.wait()

    def trouble(self, code: int) -> None:
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
