"""Sends: from a decoded send to its place in the log and the queue of replies, for both lanes.

What a send means stands here once: `admit` decides by topic and group, its answer is kept until
a topic changes; what depends on the single message is one mask, and the few questions behind it.
"""

import logging
import random
from dataclasses import dataclass

from cometmq.broker.groups import Groups
from cometmq.broker.replying import EXTRA, Replies, refusal_of_send
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import Topics
from cometmq.kernel import Malformed, headers, records
from cometmq.message import UniqueIds, names, properties
from cometmq.net import Connection
from cometmq.protocol import ResponseCode, TopicConfig
from cometmq.runtime import Clock
from cometmq.serving import Refusal, refuse
from cometmq.store import Cause, Queue, Store

log = logging.getLogger("cometmq.broker")

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

FLAGS_NOT_BUILT = 0xCC
"""Transactions, inner batches and batches to unwrap: never stored as something else."""

MARKS_NOT_BUILT = records.DELAY | records.TIMER | records.TRAN | records.INNER
MARKS_TO_REWRITE = records.OWN | records.ODD

MULTI_TAGS = 2
LONGEST_PROPERTIES = 32767


@dataclass(frozen=True, slots=True)
class Admission:
    """A topic that a group may send to: all that does not depend on the single message."""

    config: TopicConfig
    queues: dict[int, Queue]
    change: int
    """The save that the topic is in: what it holds must not be acknowledged before."""
    sys_flag: int


class Sends:
    """Takes sends of both lanes: the kernel's, and those of the generic codec."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: Store,
        topics: Topics,
        groups: Groups,
        replies: Replies,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._replies = replies
        self._random = chance
        self._most_in_flight = settings.max_bytes_in_flight
        self._largest_body = store.settings.max_message_size
        cluster = settings.broker_cluster_name
        self._suffix = properties.encode({**EXTRA, "CLUSTER": cluster})
        self._clock = clock
        self._ids = UniqueIds(settings.registered, chance.getrandbits(16), chance)
        self._admissions: dict[tuple[str, str], Admission] = {}
        self._until_saved: dict[Connection, list[headers.Send]] = {}
        topics.changed.watch(lambda _: self._admissions.clear())
        topics.kept.saves.watch(lambda _: self._topics_saved())

    def take(self, connection: Connection, sends: list[headers.Send]) -> None:
        """Stages what may be sent and refuses the rest; the replies follow by their watermarks."""
        if (held := self._until_saved.get(connection)) is not None:
            held += sends  # those before wait for their topic: a connection's order is kept
            return
        staged: list[headers.Send] = []
        unsynced: list[headers.Send] = []
        for at, send in enumerate(sends):
            admission = self._admissions.get((send.topic, send.group)) or self.admit(send)
            if isinstance(admission, Refusal):
                self._refuse(connection, send, admission)
                continue
            if not self._topics.kept.is_saved(admission.change):
                self._until_saved[connection] = sends[at:]
                break
            if send.batch:  # its reply must not stand before those of the sends before it
                self._await(connection, staged, unsynced)
                staged, unsynced = [], []
            refusal = self._stage(connection, send, admission)
            if refusal is not None:
                self._refuse(connection, send, refusal)
            elif not send.batch:
                (unsynced if send.marks & records.NO_WAIT else staged).append(send)
        self._await(connection, staged, unsynced)

    def _await(
        self, connection: Connection, staged: list[headers.Send], unsynced: list[headers.Send]
    ) -> None:
        if staged:
            self._replies.when_synced(connection, staged)
        if unsynced:
            self._replies.when_written(connection, unsynced)

    def _topics_saved(self) -> None:
        held, self._until_saved = self._until_saved, {}
        for connection, sends in held.items():
            if self._topics.kept.failure is None:
                self.take(connection, sends)
                continue
            why = refuse(ResponseCode.SERVICE_NOT_AVAILABLE, self._topics.kept.failure)
            for send in sends:
                self._refuse(connection, send, why)

    def admit(self, send: headers.Send) -> Admission | Refusal:
        """What holds for every send of a group to a topic."""
        topic = send.topic
        if why := names.topic_fault(topic, by_broker=True):
            return refuse(ResponseCode.INVALID_PARAMETER, why)
        if not names.may_send_to(topic):
            why = f"Sending message to topic[{topic}] is forbidden."
            return refuse(ResponseCode.NO_PERMISSION, why)
        if topic.startswith(names.RETRY):
            group = topic.removeprefix(names.RETRY)
            if self._groups.find(group) is None:
                why = f"subscription group not exist, {group}"
                return refuse(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        config = self._topics.find(topic) or self._topics.make_for_send(
            topic, send.default_topic, send.default_topic_queues, unit=send.unit_mode
        )
        if config is None:
            why = f"topic[{topic}] not exist, apply first please!\n{FAQ}"
            return refuse(ResponseCode.TOPIC_NOT_EXIST, why)
        multi = MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        admission = Admission(config, {}, self._topics.change_of(topic), multi)
        self._admissions[topic, send.group] = admission
        return admission

    def _stage(
        self, connection: Connection, send: headers.Send, admission: Admission
    ) -> Refusal | None:
        """One send into the log, or why not."""
        if send.batch:
            return self._stage_batch(connection, send, admission)
        if send.marks & MARKS_TO_REWRITE:
            send.properties = properties.rewrite(send.properties)
        if not send.unique_key:
            send.properties = self._with_key(send.properties)
        refusal = self._refusal_of(send, admission)
        if refusal is not None:
            return refusal
        send.sys_flag |= admission.sys_flag
        queue = admission.queues.get(send.queue_id) or self._queue_of(send, admission)
        cause = self._store.stage(send, queue, connection.born_host, self._suffix)
        return None if cause is None else self._refusal_for(cause)

    def _refusal_of(self, send: headers.Send, admission: Admission) -> Refusal | None:
        """What depends on the single message, batch members included."""
        size = len(send.body)
        if send.marks & MARKS_NOT_BUILT or send.sys_flag & FLAGS_NOT_BUILT:
            return refuse(
                ResponseCode.MESSAGE_ILLEGAL,
                "delayed and timer messages, transactions and inner batches are not built yet: "
                "this broker does not store them as something else",
            )
        if not 0 < size <= self._largest_body:
            return self._illegal()
        if len(send.properties) + 1 + len(self._suffix) > LONGEST_PROPERTIES:
            return self._illegal()
        config = admission.config
        most = max(config.read_queue_nums, config.write_queue_nums)
        if send.queue_id >= most or (send.queue_id < 0 and config.write_queue_nums <= 0):
            return refuse(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{send.queue_id}] is illegal, topic {send.topic!r} has "
                f"{config.write_queue_nums} queues to write to",
            )
        if send.max_reconsume_times >= 0 and send.reconsume_times > send.max_reconsume_times:
            return refuse(
                ResponseCode.MESSAGE_ILLEGAL,
                f"tried {send.reconsume_times} times: dead letters are not built yet",
            )
        if self._replies.bytes_in_flight > self._most_in_flight:
            busy = "[REJECTREQUEST]system busy, start flow control for a while"
            return refuse(ResponseCode.SYSTEM_BUSY, busy)
        return None

    def _illegal(self) -> Refusal:
        return refuse(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self._largest_body}B, msg properties length limit 32KB.",
        )

    def _refusal_for(self, cause: Cause) -> Refusal:
        if cause is Cause.TOO_LARGE:
            return self._illegal()
        return refuse(cause.code, self._store.why(cause))

    def _queue_of(self, send: headers.Send, admission: Admission) -> Queue:
        if send.queue_id < 0:
            send.queue_id = self._random.randrange(admission.config.write_queue_nums)
        queue = admission.queues.get(send.queue_id)
        if queue is None:
            queue = self._store.queue(send.topic, send.queue_id)
            admission.queues[send.queue_id] = queue
        return queue

    def _with_key(self, text: bytes) -> bytes:
        """The message gets an id where its client gave none (spec 02 ch. 15, 13)."""
        end = b"" if not text or text.endswith(b"\x02") else b"\x02"
        return b"%s%sUNIQ_KEY\x01%s\x02" % (
            text,
            end,
            self._ids.make(self._clock.now_ms()).encode(),
        )

    def _stage_batch(
        self, connection: Connection, batch: headers.Send, admission: Admission
    ) -> Refusal | None:
        """All members of a batch, or none: one place in one file, consecutive offsets."""
        if batch.topic.startswith(names.RETRY) or len(batch.topic) > names.LONGEST_TOPIC:
            why = f"batch request does not support retry group {batch.topic}"
            return refuse(ResponseCode.MESSAGE_ILLEGAL, why)
        if batch.marks & MARKS_NOT_BUILT:
            return self._refusal_of(batch, admission)
        if len(batch.body) > self._largest_body:
            return self._illegal()
        try:
            found = records.members(batch.body)
        except Malformed as error:
            return refuse(ResponseCode.SYSTEM_ERROR, f"the batch cannot be read: {error}")
        members = []
        for flag, body, text in found:
            member = headers.Send(
                topic=batch.topic,
                queue_id=batch.queue_id,
                sys_flag=batch.sys_flag | admission.sys_flag,
                born_ms=batch.born_ms,
                message_flag=flag,
                properties=properties.of_member(text, batch.properties),
                reconsume_times=batch.reconsume_times,
                body=body,
            )
            if not member.unique_key:
                member.properties = self._with_key(member.properties)
            refusal = self._refusal_of(member, admission)
            if refusal is not None:
                return refusal
            members.append(member)
        if not members:
            return self._illegal()
        queue = self._queue_of(batch, admission)
        for member in members:
            member.queue_id = batch.queue_id
        cause = self._store.stage_batch(members, queue, connection.born_host, self._suffix)
        if cause is not None:
            return self._refusal_for(cause)
        waits = not batch.marks & records.NO_WAIT
        self._replies.batch(connection, batch, members, waits=waits)
        return None

    def _refuse(self, connection: Connection, send: headers.Send, refusal: Refusal) -> None:
        if not send.flag & 2:
            connection.write(refusal_of_send(send, refusal.code, refusal.remark))
