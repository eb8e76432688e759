"""Offsets: how far each group has consumed each queue, saved every few seconds."""

import logging
from collections.abc import Iterator

from cometmq.broker.kept import Kept
from cometmq.protocol import ConsumerOffsetWrapper
from cometmq.runtime import Clock, Threads
from cometmq.store import Store, Table

log = logging.getLogger("cometmq.broker")

STEP = 500
"""Commits between two data versions, as the original counts them (spec 04 11.3)."""


class Offsets(Kept[ConsumerOffsetWrapper]):
    """Committed offsets by topic, group and queue."""

    def __init__(self, table: Table, threads: Threads, clock: Clock) -> None:
        super().__init__(table, threads, clock, ConsumerOffsetWrapper)
        self._table = self._loaded.offset_table

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset to consume; None where the group never committed."""
        offset = self._table.get(f"{topic}@{group}", {}).get(queue_id)
        return None if offset is None or offset < 0 else offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group has consumed the queue up to here; going back is allowed."""
        self._table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        if self._change() % STEP == 0:
            self._next_version()

    def fit(self, store: Store) -> None:
        """Lowers what lies beyond its queue's end: a power cut took messages it had counted."""
        for topic, group, queues in self._all():
            for queue_id, offset in queues.items():
                queue = store.find_queue(topic, queue_id)
                end = queue.max_offset if queue is not None else 0
                if offset > end:
                    what = f"of group {group} on {topic}/{queue_id}"
                    log.warning("offset %d %s lowered to the queue's end, %d", offset, what, end)
                    self.commit(group, topic, queue_id, end)

    def _all(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        for key, queues in self._table.items():
            topic, _, group = key.partition("@")
            yield topic, group, queues

    def wrapper(self) -> ConsumerOffsetWrapper:
        """The table as it is stored, with each group's topics for people to read."""
        topics: dict[str, list[str]] = {}
        for topic, group, _ in self._all():
            topics.setdefault(group, []).append(topic)
        listed = {group: tuple(names) for group, names in topics.items()}
        return super().wrapper().but(group_topic_map=listed)
