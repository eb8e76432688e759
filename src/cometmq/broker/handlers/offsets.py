"""Offsets: how far each group has consumed each queue, and from where to where a queue goes."""

import logging

from cometmq.broker.handlers.topics import Groups, Kept, Topics
from cometmq.protocol import (
    ConsumerOffsetWrapper,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    ResponseCode,
    UpdateConsumerOffset,
)
from cometmq.serving import Answer, Outcome, Refused, Sub, handles
from cometmq.store import Store

log = logging.getLogger("cometmq.broker")

STEP = 500
"""Commits between two data versions, as the original counts them (spec 04 11.3)."""


class Offsets(Kept[ConsumerOffsetWrapper]):
    """How far each group has consumed each queue, saved every few seconds."""

    path = "config/consumerOffset.json"
    kind = ConsumerOffsetWrapper

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset to consume; None where the group never committed."""
        offset = self._loaded.offset_table.get(f"{topic}@{group}", {}).get(queue_id, -1)
        return offset if offset >= 0 else None

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group has consumed the queue up to here; going back is allowed."""
        key = f"{topic}@{group}"
        self._loaded.offset_table.setdefault(key, {})[queue_id] = offset
        self._change(key, every=STEP)

    def fit(self, store: Store) -> None:
        """Lowers what lies beyond its queue's end: a power cut took messages it had counted."""
        for key, queues in self._loaded.offset_table.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                queue = store.find_queue(topic, queue_id)
                end = queue.max_offset if queue is not None else 0
                if offset > end:
                    what = f"of group {group} on {topic}/{queue_id}"
                    log.warning("offset %d %s lowered to the queue's end, %d", offset, what, end)
                    self.commit(group, topic, queue_id, end)

    def wrapper(self) -> ConsumerOffsetWrapper:
        """The table as it is stored, with each group's topics for people to read."""
        topics: dict[str, list[str]] = {}
        for key in self._loaded.offset_table:
            topic, _, group = key.partition("@")
            topics.setdefault(group, []).append(topic)
        listed = {group: tuple(those) for group, those in topics.items()}
        return super().wrapper().but(group_topic_map=listed)


@handles(QueryConsumerOffset, needs=Sub(group="consumer_group"))
def query_consumer_offset(offsets: Offsets, store: Store, ask: QueryConsumerOffset) -> Outcome:
    """How far has this group consumed this queue?"""
    known = offsets.get(ask.consumer_group, ask.topic, ask.queue_id)
    if known is not None:
        return OffsetAnswer(known)
    if not ask.set_zero_if_not_found:
        why = "Not found, do not set to zero, maybe this group boot first"
    # A group that never committed starts at 0 only if 0 is still on disk and hot: anything else
    # would replay a whole cold queue because of one lost offsets file.
    elif store.starts_hot(ask.topic, ask.queue_id):
        return OffsetAnswer(0)
    else:
        why = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    raise Refused(ResponseCode.QUERY_NOT_FOUND, why)


@handles(UpdateConsumerOffset, needs=Sub(group="consumer_group"))
def update_consumer_offset(
    offsets: Offsets, topics: Topics, groups: Groups, ask: UpdateConsumerOffset
) -> Outcome:
    """This group has consumed this queue up to here."""
    if not groups.known(ask.consumer_group):
        why = f"Group {ask.consumer_group} not exist!"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
    if topics.find(ask.topic) is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {ask.topic} not exist!")
    if ask.commit_offset is None:
        why = f"Offset is null, topic is {ask.topic}"
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    offsets.commit(ask.consumer_group, ask.topic, ask.queue_id, ask.commit_offset)
    return Answer()


@handles(GetMaxOffset, needs=Sub(topic="topic"))
def get_max_offset(store: Store, ask: GetMaxOffset) -> Outcome:
    """Where the queue ends; 0 for one that is not there, as clients expect."""
    queue = store.find_queue(ask.topic, ask.queue_id)
    return OffsetAnswer(queue.max_offset if queue is not None else 0)


@handles(GetMinOffset, needs=Sub(topic="topic"))
def get_min_offset(store: Store, ask: GetMinOffset) -> Outcome:
    """Where the queue begins."""
    queue = store.find_queue(ask.topic, ask.queue_id)
    return OffsetAnswer(queue.min_offset if queue is not None else 0)
