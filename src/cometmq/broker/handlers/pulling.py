"""Pulls: messages of one queue from an offset on, now or when they come."""

from cometmq.broker.clients import BROADCASTING, Clients
from cometmq.broker.groups import Groups
from cometmq.broker.handlers.reading import READ_MS, when_read
from cometmq.broker.holding import Holds
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import READ, Topics
from cometmq.filtering import Tags
from cometmq.protocol import PullAnswer, PullMessage, ResponseCode, SubscriptionGroupConfig
from cometmq.serving import Answer, Outcome, Refusal, Sub, Wait, handles, refuse
from cometmq.store import Found, Status, Store

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's sysFlag (spec 04 5.1)."""

_CODES = {
    Status.FOUND: ResponseCode.SUCCESS,
    Status.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    Status.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    Status.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
    Status.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    Status.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    Status.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
"""Spec 04 6.1; an empty queue that is asked for another offset than 0 is moved instead."""


@handles(PullMessage, needs=Sub.topic("topic"), most_waiting=100_000)
def pull_message(
    store: Store,
    topics: Topics,
    groups: Groups,
    clients: Clients,
    offsets: Offsets,
    holds: Holds,
    ask: PullMessage,
    now_ms: int,
) -> Outcome:
    """Give me messages of this queue from this offset on."""
    group = groups.find(ask.consumer_group)
    if group is None:
        why = f"subscription group [{ask.consumer_group}] does not exist"
        return refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
    refusal = _refusal(topics, group, ask)
    if refusal is not None:
        return refusal
    tags = _tags(clients, group, ask)
    if isinstance(tags, Refusal):
        return tags
    if ask.sys_flag & COMMIT:
        offsets.commit(ask.consumer_group, ask.topic, ask.queue_id, ask.commit_offset)
    return _read(store, holds, ask, tags, now_ms)


def _refusal(topics: Topics, group: SubscriptionGroupConfig, ask: PullMessage) -> Refusal | None:
    """What stands against this group's reading this queue (spec 04 5.3, 4 to 7)."""
    if not group.consume_enable:
        why = f"subscription group no permission, {ask.consumer_group}"
        return refuse(ResponseCode.NO_PERMISSION, why)
    config = topics.find(ask.topic)
    if config is None:
        why = f"topic[{ask.topic}] not exist, apply first please!"
        return refuse(ResponseCode.TOPIC_NOT_EXIST, why)
    if not config.perm & READ:
        why = f"the topic[{ask.topic}] pulling message is forbidden"
        return refuse(ResponseCode.NO_PERMISSION, why)
    if not 0 <= ask.queue_id < config.read_queue_nums:
        return refuse(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{ask.queue_id}] is illegal, topic:[{ask.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_nums}]",
        )
    return None


def _tags(clients: Clients, group: SubscriptionGroupConfig, ask: PullMessage) -> Tags | Refusal:
    """What the group wants of the topic: said in the pull, or in its heartbeat (5.3, 8)."""
    kind, text = ask.expression_type, ask.subscription
    if not ask.sys_flag & SUBSCRIPTION:
        consumers = clients.consumers(ask.consumer_group)
        if consumers is None:
            why = "the consumer's group info not exist"
            return refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, why)
        if consumers.model == BROADCASTING and not group.consume_broadcast_enable:
            why = f"the consumer group[{ask.consumer_group}] can not consume by broadcast way"
            return refuse(ResponseCode.NO_PERMISSION, why)
        known = consumers.subscriptions.get(ask.topic)
        if known is None:
            why = f"the consumer's subscription not exist, topic {ask.topic}"
            return refuse(ResponseCode.SUBSCRIPTION_NOT_EXIST, why)
        if known.sub_version < ask.sub_version:
            why = "the consumer's subscription not latest"
            return refuse(ResponseCode.SUBSCRIPTION_NOT_LATEST, why)
        kind, text = known.expression_type, known.sub_string
    if kind not in (None, "", "TAG"):
        why = f"filtering by {kind} is not built yet: subscribe by tags"
        return refuse(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why)
    return Tags.parse(text)


def _read(store: Store, holds: Holds, ask: PullMessage, tags: Tags, now_ms: int) -> Outcome:
    """One pull, from the first look to its answer, however often it waits in between."""

    def look(now_ms: int) -> Outcome:
        queue, offset, most = ask.queue_id, ask.queue_offset, max(1, ask.max_msg_nums)
        found = store.read(ask.topic, queue, offset, most=most, hashes=tags.hashes)
        return when_read(found, now_ms, until_ms, decide)

    def decide(found: Found, now_ms: int) -> Outcome:
        code = _CODES[found.status]
        if found.status is Status.NO_MESSAGE_IN_QUEUE and ask.queue_offset != 0:
            code = ResponseCode.PULL_OFFSET_MOVED
        if code == ResponseCode.PULL_NOT_FOUND and holding and now_ms < until_ms:
            return Wait(holds.on(store.queue(ask.topic, ask.queue_id), tags.hashes), until_ms, look)
        header = PullAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=found.next_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            topic_sys_flag=0,
            group_sys_flag=0,
        )
        return Answer(header, found.body, code, found.status.name)

    holding = bool(ask.sys_flag & SUSPEND)
    until_ms = now_ms + (ask.suspend_timeout_millis if holding else READ_MS)
    return look(now_ms)
