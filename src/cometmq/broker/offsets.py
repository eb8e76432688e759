"""Offsets: how far each group has consumed each queue, saved every few seconds."""

import asyncio
import logging
from collections.abc import Iterator

from cometmq.broker.kept import Kept
from cometmq.broker.settings import BrokerSettings
from cometmq.protocol import ConsumerOffsetWrapper, DataVersion
from cometmq.runtime import Clock, Threads
from cometmq.store import Store, Table

log = logging.getLogger("cometmq.broker")

STEP = 500
"""Commits between two data versions, as the original counts them (spec 04 11.3)."""


class Offsets:
    """Committed offsets by topic, group and queue."""

    def __init__(
        self, table: Table, threads: Threads, clock: Clock, settings: BrokerSettings
    ) -> None:
        self._clock = clock
        self._period_s = settings.flush_consumer_offset_interval / 1000
        found = table.load()
        wrapper = ConsumerOffsetWrapper.read(found) if found else ConsumerOffsetWrapper()
        self._table = {key: dict(queues) for key, queues in wrapper.offset_table.items()}
        self._version = wrapper.data_version or DataVersion()
        self.kept = Kept(table, threads, self._write)
        self._commits = 0
        self._unsaved = False
        self._timer: asyncio.TimerHandle | None = None

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset to consume; None where the group never committed."""
        offset = self._table.get(f"{topic}@{group}", {}).get(queue_id)
        return None if offset is None or offset < 0 else offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group has consumed the queue up to here; going back is allowed."""
        self._table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        self._unsaved = True
        self._commits += 1
        if self._commits % STEP == 0:
            self._version = self._version.next(self._clock.now_ms())

    def fit(self, store: Store) -> None:
        """Lowers what lies beyond its queue's end: a power cut took messages it had counted."""
        for topic, group, queue_id, offset in list(self._all()):
            queue = store.find_queue(topic, queue_id)
            end = queue.max_offset if queue is not None else 0
            if offset > end:
                log.warning(
                    "offset %d of group %s on %s/%d lowered to the queue's end, %d",
                    offset,
                    group,
                    topic,
                    queue_id,
                    end,
                )
                self.commit(group, topic, queue_id, end)

    def _all(self) -> Iterator[tuple[str, str, int, int]]:
        for key, queues in self._table.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                yield topic, group, queue_id, offset

    def _write(self) -> bytes:
        topics: dict[str, tuple[str, ...]] = {}
        for key in self._table:
            topic, _, group = key.partition("@")
            topics[group] = (*topics.get(group, ()), topic)
        wrapper = ConsumerOffsetWrapper(self._version, topics, self._table)
        return wrapper.write(pretty=True)

    def start(self) -> None:
        """Saves from now on."""
        self._timer = asyncio.get_running_loop().call_later(self._period_s, self._save)

    def _save(self) -> None:
        if self._unsaved:
            self._unsaved = False
            self.kept.touch()
        self.start()

    async def close(self) -> None:
        """Saves what is left."""
        if self._timer is not None:
            self._timer.cancel()
        if self._unsaved:
            self.kept.touch()
        await self.kept.close()
