"""How far a group has come, and from where to where a queue goes."""

from cometmq.broker.tables import Groups, Offsets, Topics
from cometmq.protocol import (
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    ResponseCode,
    UpdateConsumerOffset,
)
from cometmq.serving import Answer, Outcome, Refused, Sub, handles
from cometmq.store import Store


@handles(QueryConsumerOffset, needs=Sub.group("consumer_group"))
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


@handles(UpdateConsumerOffset, needs=Sub.group("consumer_group"))
def update_consumer_offset(
    offsets: Offsets, topics: Topics, groups: Groups, ask: UpdateConsumerOffset
) -> Outcome:
    """This group has consumed this queue up to here."""
    if not groups.known(ask.consumer_group):
        why = f"Group {ask.consumer_group} not exist!"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
    if topics.find(ask.topic) is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {ask.topic} not exist!")
    offsets.commit(ask.consumer_group, ask.topic, ask.queue_id, ask.commit_offset)
    return Answer()


@handles(GetMaxOffset, needs=Sub.topic("topic"))
def get_max_offset(store: Store, ask: GetMaxOffset) -> Outcome:
    """Where the queue ends; 0 for one that is not there, as clients expect."""
    queue = store.find_queue(ask.topic, ask.queue_id)
    return OffsetAnswer(queue.max_offset if queue is not None else 0)


@handles(GetMinOffset, needs=Sub.topic("topic"))
def get_min_offset(store: Store, ask: GetMinOffset) -> Outcome:
    """Where the queue begins."""
    queue = store.find_queue(ask.topic, ask.queue_id)
    return OffsetAnswer(queue.min_offset if queue is not None else 0)
