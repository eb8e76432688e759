"""Pulls: messages of one queue from an offset on, now or when they come; and single records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from cometmq.broker.handlers.clients import BROADCASTING, Clients
from cometmq.broker.handlers.offsets import Offsets
from cometmq.broker.handlers.topics import READ, Groups, Topics
from cometmq.filtering import Tags
from cometmq.kernel import replies
from cometmq.protocol import (
    Command,
    PullMessage,
    ResponseCode,
    SubscriptionGroupConfig,
    ViewMessageById,
)
from cometmq.runtime import Timer
from cometmq.serving import FAQ, Answer, Outcome, Refused, Sub, Wait, handles
from cometmq.store import Cold, Found, Queue, Status, Store

T = TypeVar("T")

READ_MS = 5_000
"""How long a cold read may take before the client is told to ask again."""

SCAN_S = 5.0
"""As the original's: a held pull whose queue got only other tags learns by then how far the
queue has come (spec 04 6.4)."""

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


@handles(PullMessage, needs=Sub(topic="topic"), most_waiting=100_000)
def pull_message(
    store: Store,
    topics: Topics,
    groups: Groups,
    clients: Clients,
    offsets: Offsets,
    ask: PullMessage,
    request: Command,
    now_ms: int,
) -> Outcome:
    """Give me messages of this queue from this offset on (spec 04 5.3)."""
    group = groups.find(ask.consumer_group)
    if group is None:
        why = f"subscription group [{ask.consumer_group}] does not exist, \n{FAQ}"
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
    if not group.consume_enable:
        why = f"subscription group no permission, {ask.consumer_group}"
        raise Refused(ResponseCode.NO_PERMISSION, why)
    config = topics.find(ask.topic)
    if config is None:
        why = f"topic[{ask.topic}] not exist, apply first please!"
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
    if not config.perm & READ:
        why = f"the topic[{ask.topic}] pulling message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, why)
    if not 0 <= ask.queue_id < config.read_queue_nums:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{ask.queue_id}] is illegal, topic:[{ask.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_nums}]",
        )
    tags = _tags(clients, group, ask)
    if ask.sys_flag & COMMIT:
        offsets.commit(ask.consumer_group, ask.topic, ask.queue_id, ask.commit_offset)
    return _read(store, ask, request, tags, now_ms)


def _tags(clients: Clients, group: SubscriptionGroupConfig, ask: PullMessage) -> Tags:
    """What the group wants of the topic: said in the pull, or in its heartbeat (5.3, 8)."""
    kind, text = ask.expression_type, ask.subscription
    if not ask.sys_flag & SUBSCRIPTION:
        consumers = clients.find(ask.consumer_group)
        if consumers is None:
            why = "the consumer's group info not exist"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, why)
        if consumers.model == BROADCASTING and not group.consume_broadcast_enable:
            why = f"the consumer group[{ask.consumer_group}] can not consume by broadcast way"
            raise Refused(ResponseCode.NO_PERMISSION, why)
        known = consumers.subscriptions.get(ask.topic)
        if known is None:
            why = f"the consumer's subscription not exist, topic {ask.topic}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, why)
        if known.sub_version < ask.sub_version:
            why = "the consumer's subscription not latest"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, why)
        kind, text = known.expression_type, known.sub_string
    if kind not in (None, "", "TAG"):
        why = f"filtering by {kind} is not built yet: subscribe by tags"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why)
    return Tags.parse(text)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The next message of a queue that could match; other tags must not end a wait at once, or the
    client would ask again at once, for nothing."""

    queue: Queue
    hashes: frozenset[int] | None

    def watch(self, tell: Callable[[object], None]) -> Callable[[], None]:
        wanted = self.hashes
        if wanted is None:
            return self.queue.arrivals.watch(tell)
        other = Timer(lambda: tell(None))

        def told(arrived: frozenset[int]) -> None:
            if wanted.isdisjoint(arrived):
                other.start(SCAN_S)
            else:
                tell(arrived)

        unwatch = self.queue.arrivals.watch(told)

        def end() -> None:
            other.stop()
            unwatch()

        return end


def _read(store: Store, ask: PullMessage, request: Command, tags: Tags, now_ms: int) -> Outcome:
    """One pull, from the first look to its answer, however often it waits in between."""

    def look(now_ms: int) -> Outcome:
        queue, offset, most = ask.queue_id, ask.queue_offset, max(1, ask.max_msg_nums)
        found = store.read(ask.topic, queue, offset, most=most, hashes=tags.hashes)
        return _when_read(found, now_ms, until_ms, decide)

    def decide(found: Found, now_ms: int) -> Outcome:
        code = _CODES[found.status]
        if found.status is Status.NO_MESSAGE_IN_QUEUE and ask.queue_offset != 0:
            code = ResponseCode.PULL_OFFSET_MOVED
        if code == ResponseCode.PULL_NOT_FOUND and holding and now_ms < until_ms:
            return Wait(Arrival(store.queue(ask.topic, ask.queue_id), tags.hashes), until_ms, look)
        offsets, body = (found.next_offset, found.min_offset, found.max_offset), found.body
        status = found.status.name.encode()
        head = replies.pulled(request.codec, request.opaque, code, status, 0, *offsets, len(body))
        return head + body if body else head

    holding = bool(ask.sys_flag & SUSPEND)
    until_ms = now_ms + (ask.suspend_timeout_millis if holding else READ_MS)
    return look(now_ms)


@handles(ViewMessageById, needs=Sub(topic="topic"))
def view_message_by_id(store: Store, ask: ViewMessageById, now_ms: int) -> Outcome:
    """The record at this place of the commit log."""

    def decide(record: bytes | None, now_ms: int) -> Outcome:
        if record is not None:
            return Answer(body=record)
        why = f"can not find message by the offset, {ask.offset}"
        raise Refused(ResponseCode.SYSTEM_ERROR, why)

    return _when_read(store.message_at(ask.offset), now_ms, now_ms + READ_MS, decide)


def _when_read(
    found: T | Cold[T], now_ms: int, until_ms: int, decide: Callable[[T, int], Outcome]
) -> Outcome:
    """Decides on what was read: now, or when the disk has delivered it."""
    if not isinstance(found, Cold):
        return decide(found, now_ms)
    if found.error is not None:
        raise found.error
    if found.done:
        return decide(cast(T, found.found), now_ms)
    if now_ms >= until_ms:
        raise Refused(ResponseCode.SYSTEM_BUSY, "the disk did not deliver in time, ask again")
    return Wait(found, until_ms, lambda now: _when_read(found, now, until_ms, decide))
