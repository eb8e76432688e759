"""The actors of a run: cometmq's own producers and consumers, who tell a ledger what they do."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cometmq.client import (
    Consumer,
    MessageQueue,
    NotConfirmed,
    Producer,
    Receipt,
    ReceivedMessage,
)
from cometmq.message import Message
from cometmq.net import Address, Network
from cometmq.protocol import Command, RequestHeader, SendMessageV2, UpdateConsumerOffset
from cometmq.runtime import CometError
from tests.simulation.checkers import ATTEMPT, Commit, Ledger

TOPICS = ("orders", "orders", "orders", "made-by-sending")
TAGS = ("a", "b", None)
BURST_S = 0.04
"""The sends of a burst come in different turns, some of them while a sync is running."""


class NumberedProducer(Producer):
    """Puts a number of its own into each try of a send."""

    def __init__(self, ledger: Ledger, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._ledger = ledger

    def _addressed(self, parcel: Any, queue: MessageQueue) -> SendMessageV2:
        header = super()._addressed(parcel, queue)
        now = asyncio.get_running_loop().time()
        number = self._ledger.tried(parcel.topic, queue.queue_id, parcel.ids, now)
        return replace(header, properties=f"{header.properties}{ATTEMPT}\x01{number}\x02")


class Seller:
    """Sends in bursts of single messages and batches until it is told that it is enough."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        namesrv: str,
        network: Network,
        chance: random.Random,
        *,
        is_sync: bool,
    ) -> None:
        self.calm = True
        """Pauses between its bursts, as long as there is time."""
        self.enough = False
        self._name = name
        self._ledger = ledger
        self._random = chance
        self._is_sync = is_sync
        self._made = 0
        self._producer = NumberedProducer(
            ledger, namesrv, group=f"group-{name}", network=network, random=chance
        )

    async def run(self) -> None:
        """Sells."""
        chance = self._random
        async with self._producer:
            while not self.enough:
                burst = chance.choice((1, 1, 2, 4, 9))
                results = await asyncio.gather(*(self._send() for _ in range(burst)))
                pause_s = chance.uniform(0, 0.9) if self.calm else chance.uniform(0, 0.02)
                await asyncio.sleep(pause_s if all(results) else chance.uniform(0.2, 1))

    async def _send(self) -> bool:
        chance, producer = self._random, self._producer
        await asyncio.sleep(chance.uniform(0, BURST_S))
        topic, tag = chance.choice(TOPICS), chance.choice(TAGS)
        if chance.random() < 0.05:
            topic = f"made-late-{chance.randrange(9)}"
        waits = chance.random() > 0.1
        count = chance.choice((1, 1, 1, 1, 1, 1, 1, 3))
        messages = [self._message(topic, tag, waits=waits) for _ in range(count)]
        given = messages[0] if count == 1 else messages
        try:
            if chance.random() < 0.05:
                await producer.send_oneway(given)
                return True
            receipt = await producer.send(given, timeout_ms=chance.choice((500, 3000)))
        except NotConfirmed:
            return False  # there or not there: nothing was promised
        except CometError:
            return False
        self._promised(receipt, messages, is_synced=self._is_sync and waits)
        return True

    def _message(self, topic: str, tag: str | None, *, waits: bool) -> Message:
        self._made += 1
        length = self._random.choice((0, 30, 200, 200, 900, 2500, 5000))
        body = b"%s:%d:" % (self._name.encode(), self._made) + b"x" * length
        self._ledger.bodies[body] = None
        return Message(topic, body, tag=tag, wait_stored=waits)

    def _promised(self, receipt: Receipt, messages: list[Message], *, is_synced: bool) -> None:
        for one, message_id in zip(messages, receipt.message_id.split(","), strict=True):
            self._ledger.body_of(message_id, one.body)
        now = asyncio.get_running_loop().time()
        self._ledger.promised(receipt, now, is_synced=is_synced)


def watched(consumer: Consumer, ledger: Ledger) -> Consumer:
    """The same consumer, whose commits the ledger sees."""
    pool = consumer._session.pool
    ask, tell = pool.ask, pool.tell

    def note(header: RequestHeader) -> Commit | None:
        if not isinstance(header, UpdateConsumerOffset):
            return None
        commit = Commit(header.commit_offset)
        key = (header.consumer_group, header.topic, header.queue_id)
        ledger.commits[key].append(commit)
        return commit

    async def asking(address: Address, header: RequestHeader, *rest: Any, **more: Any) -> Command:
        commit = note(header)
        answer = await ask(address, header, *rest, **more)
        if commit is not None and answer.code == 0:
            commit.answered = asyncio.get_running_loop().time()
        return answer

    async def telling(address: Address, header: RequestHeader, *rest: Any) -> None:
        note(header)
        await tell(address, header, *rest)

    pool.ask = asking  # type: ignore[assignment]
    pool.tell = telling  # type: ignore[assignment]
    return consumer


class Buyer:
    """A member of a group that comes and goes, and sometimes fails at a message."""

    def __init__(
        self, ledger: Ledger, make: Callable[[], Consumer], group: str, chance: random.Random
    ) -> None:
        self._ledger = ledger
        self._make = make
        self._group = group
        self._random = chance

    async def run(self) -> None:
        """Buys until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._random.uniform(1, 9)):
                    await self._consume(watched(self._make(), self._ledger))
            except TimeoutError:
                pass
            await asyncio.sleep(self._random.uniform(0, 1))

    async def _consume(self, consumer: Consumer) -> None:
        until = asyncio.get_running_loop().time() + self._random.uniform(1, 9)
        async with consumer:
            while asyncio.get_running_loop().time() < until:
                try:
                    async with asyncio.timeout_at(until):
                        message = await anext(consumer)
                except TimeoutError:
                    break
                await self._buy(message)

    async def audit(self, count: int) -> None:
        """Takes so many messages, without failing at any."""
        async with self._make() as consumer:
            while len(self._ledger.delivered[self._group]) < count:
                self._note(await anext(consumer))

    def _note(self, message: ReceivedMessage) -> None:
        self._ledger.body_of(message.message_id, message.body)
        place = (message.topic, message.queue_id, message.queue_offset)
        attempt = int(message.properties[ATTEMPT])
        self._ledger.delivered[self._group][place] = (attempt, message.message_id)

    async def _buy(self, message: ReceivedMessage) -> None:
        self._note(message)
        if self._random.random() < 0.03:
            await message.retry()
        if self._random.random() < 0.1:
            await asyncio.sleep(self._random.uniform(0, 0.05))
