"""Sends: from a decoded send to its place in the log, and to its reply, for both lanes.

What a send means stands here once: `admit` decides by topic, its answer is kept until a topic
changes; what depends on the single message is one mask, and the few questions behind it. Then each
send waits in the queue of the watermark it asked for, and leaves with a prefix.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from cometmq.broker.handlers.topics import Groups, Topics, described
from cometmq.broker.settings import BrokerSettings
from cometmq.kernel import Malformed, headers, records, replies
from cometmq.message import SysFlag, UniqueIds, names, offset_id, properties
from cometmq.net import Connection
from cometmq.protocol import ONEWAY, Command, RequestHeader, ResponseCode, SendAnswer, SendMessage
from cometmq.runtime import Clock, Timer
from cometmq.serving import FAQ, Outcome, Pub, Refused, handles
from cometmq.store import Fault, Queue, Store, Watermark

FLAGS_NOT_BUILT = 0xCC
"""Transactions, inner batches and batches to unwrap: never stored as something else."""

MARKS_NOT_BUILT = headers.DELAY | headers.TIMER | headers.TRAN | headers.INNER
PLAIN = headers.UNIQUE
ASIDE = MARKS_NOT_BUILT | headers.OWN | headers.ODD | headers.NO_WAIT | PLAIN
"""Of these marks an ordinary send has PLAIN alone."""

BUSY = "[REJECTREQUEST]system busy, start flow control for a while"

LARGEST = 16 << 20
"""What a frame can carry; a body beyond the setting for messages is refused with its own code."""

SHARED = [one.attribute for one in SendMessage.table if one not in RequestHeader.table]
"""What the header says of the message; the kernel has the same names for it."""

EXTRA = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""Every answer to a send carries these, refusals included (spec 02 ch. 15)."""


@dataclass(slots=True)
class _Waiting:
    """What one turn of one connection sent: answered together, when its last record is safe."""

    sends: list[headers.Send]
    end: int
    deadline: float
    connection: Connection
    batch: headers.Send | None
    """Whose members the sends are: it is what is answered."""


@dataclass(eq=False)
class Replies:
    """Those who wait for one watermark, in the order of the log."""

    store: Store
    watermark: Watermark
    clock: Clock
    bytes_waiting: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._timeout_s = self.store.settings.sync_flush_timeout / 1000
        self._waiting: deque[_Waiting] = deque()
        self._timer = Timer(self._late)
        self.watermark.watch(self._passed)
        self.watermark.faults.watch(self._broken)

    def add(
        self, connection: Connection, sends: list[headers.Send], batch: headers.Send | None = None
    ) -> None:
        """Answers these sends, or the batch whose members they are, when the watermark passes."""
        if sends:
            end, deadline = sends[-1].end, self.clock.time() + self._timeout_s
            self.bytes_waiting += end - sends[0].position
            self._waiting.append(_Waiting(sends, end, deadline, connection, batch))
            self._timer.start(self._timeout_s)  # it runs already for whoever came before

    def _late(self) -> None:
        """Deadlines stand in the order of the ends: only the front can be late."""
        now = self.clock.time()
        while self._waiting and self._waiting[0].deadline <= now:
            self._answer(self._waiting.popleft(), ResponseCode.FLUSH_DISK_TIMEOUT)
        if self._waiting:
            self._timer.start(self._waiting[0].deadline - now)

    def _passed(self, position: int) -> None:
        while self._waiting and self._waiting[0].end <= position:
            self._answer(self._waiting.popleft(), ResponseCode.SUCCESS)

    def _broken(self, fault: Fault) -> None:
        stored, lost = ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SERVICE_NOT_AVAILABLE
        while self._waiting and self._waiting[-1].end > fault.beyond:
            self._answer(self._waiting.pop(), stored if fault.stored else lost, fault.why)

    def _answer(self, waiting: _Waiting, code: int, remark: str = "") -> None:
        """Says where the messages are, or that nothing of them was stored."""
        connection, sends, batch = waiting.connection, waiting.sends, waiting.batch
        self.bytes_waiting -= waiting.end - sends[0].position
        host = self.store.store_host
        if code == ResponseCode.SERVICE_NOT_AVAILABLE:
            for send in [batch] if batch is not None else sends:
                tell(connection, send, code, remark)
        elif batch is not None:
            header = SendAnswer(
                msg_id=",".join(offset_id(host, one.position) for one in sends),
                queue_id=batch.queue_id,
                queue_offset=sends[0].queue_offset,
                transaction_id=batch.unique_key.decode() or None,
            )
            tell(connection, batch, code, remark or None, {**header.fields(), **EXTRA})
        elif data := replies.sent(sends, code, host.hex().upper().encode(), remark.encode()):
            connection.write(data)

    def close(self) -> None:
        """Answers nobody any more."""
        self._timer.stop()
        self._waiting.clear()


def tell(
    connection: Connection,
    send: headers.Send,
    code: int,
    remark: str | None,
    fields: dict[str, str] = EXTRA,
) -> None:
    """Answers one send by itself: says no, or where a batch is."""
    if not send.flag & ONEWAY:
        answer = Command.answer(send.codec, send.opaque, code, remark, fields)
        connection.write(answer.write())


@dataclass(eq=False)
class Sends:
    """Takes sends of both lanes: the kernel's, and those of the generic codec."""

    settings: BrokerSettings
    store: Store
    topics: Topics
    groups: Groups
    safe: Replies
    """Who wait for what the flush mode promises."""
    written: Replies
    """Who did not want to wait for more than the file system."""
    clock: Clock
    chance: random.Random

    def __post_init__(self) -> None:
        self._most_in_flight = self.settings.max_bytes_in_flight
        self._largest_body = self.store.settings.max_message_size
        cluster = self.settings.broker_cluster_name
        self._suffix = properties.encode({**EXTRA, "CLUSTER": cluster})
        self._longest_properties = properties.LONGEST - 1 - len(self._suffix)
        self._ids = UniqueIds(self.settings.registered, self.chance.getrandbits(16), self.chance)
        self._admitted: dict[str, dict[int, Queue]] = {}
        """Queues of topics that may be sent to: all that does not depend on the single message."""
        self._flags: dict[str, int] = {}
        """What the broker adds to the sysFlag of these topics' messages."""
        self._until_saved: dict[Connection, list[headers.Send]] = {}
        self._bytes_held = 0
        self.topics.changed.watch(lambda _: self._admitted.clear())
        self.topics.saves.watch(self._topics_saved)

    def take(self, connection: Connection, sends: list[headers.Send]) -> None:
        """Stages what may be sent and refuses the rest; the replies follow by their watermarks."""
        if connection in self._until_saved:
            self._hold(connection, sends)  # a connection's order is kept
            return
        admitted, unsaved = self._admitted, self.topics.unsaved
        staged: list[headers.Send] = []
        for send in sends:
            try:
                queues = admitted.get(send.topic) or self.admit(send)
                if send.topic in unsaved:  # what it holds must not be acknowledged before
                    self._hold(connection, sends[sends.index(send) :])
                    break
                queue = queues.get(send.queue_id)
                if queue is not None and send.marks & ASIDE == PLAIN and not send.batch:
                    self._check(send)
                    self.store.stage(send, queue, connection.born_host, self._suffix)
                    staged.append(send)
                else:
                    # Replies stand in the order of the log: those before go first.
                    self.safe.add(connection, staged)
                    staged = []
                    self._take_aside(connection, send, queues)
            except Refused as refusal:
                tell(connection, send, refusal.code, str(refusal))
        self.safe.add(connection, staged)

    def _hold(self, connection: Connection, sends: list[headers.Send]) -> None:
        """Keeps sends until their topic is on disk; if its save has failed, there is another."""
        held = self._until_saved.setdefault(connection, [])
        hosts = len(connection.born_host), len(self.store.store_host)
        for send in sends:
            in_flight = self.safe.bytes_waiting + self.written.bytes_waiting
            if in_flight + self._bytes_held > self._most_in_flight:
                tell(connection, send, ResponseCode.SYSTEM_BUSY, BUSY)
            else:
                held.append(send)
                lengths = len(send.topic), len(send.body), len(send.properties)
                self._bytes_held += records.size_of(*lengths, *hosts)
        self.topics.save()

    def _topics_saved(self, failure: str | None) -> None:
        held, self._until_saved, self._bytes_held = self._until_saved, {}, 0
        for connection, sends in held.items():
            if failure is None:
                self.take(connection, sends)
                continue
            for send in sends:
                tell(connection, send, ResponseCode.SERVICE_NOT_AVAILABLE, failure)

    def admit(self, send: headers.Send) -> dict[int, Queue]:
        """What holds for every send to a topic, or Refused: the queues that sends have named."""
        topic = send.topic
        if why := names.topic_fault(topic, by_broker=True):
            raise Refused(ResponseCode.INVALID_PARAMETER, why)
        if not names.may_send_to(topic):
            why = f"Sending message to topic[{topic}] is forbidden."
            raise Refused(ResponseCode.NO_PERMISSION, why)
        group = topic.removeprefix(names.RETRY)
        if group != topic and self.groups.find(group) is None:
            why = f"subscription group not exist, {group} \n{FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        config = self.topics.find(topic) or self.topics.make_for_send(send)
        if config is None:
            why = f"topic[{topic}] not exist, apply first please!\n{FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
        multi = config.topic_filter_type == "MULTI_TAG"
        self._flags[topic] = SysFlag.MULTI_TAGS if multi else 0
        return self._admitted.setdefault(topic, {})

    def _take_aside(
        self, connection: Connection, send: headers.Send, queues: dict[int, Queue]
    ) -> None:
        """A send that needs more than a look: another text, another queue, several messages."""
        if send.batch:
            sends = self._stage_batch(connection, send, queues)
        else:
            sends = [send]
            self._complete(send)
            queue = self._queue_of(connection, send, queues)
            self._check(send)
            self.store.stage(send, queue, connection.born_host, self._suffix)
        waiting = self.written if send.marks & headers.NO_WAIT else self.safe
        waiting.add(connection, sends, send if send.batch else None)

    def _complete(self, send: headers.Send) -> None:
        """The properties in plain form, and an id where the client gave none (spec 02 15, 13)."""
        if send.marks & (headers.OWN | headers.ODD):
            send.rewrite(properties.rewrite(send.properties))
        if not send.unique_key:
            text = send.properties
            end = b"" if not text or text.endswith(b"\x02") else b"\x02"
            key = self._ids.make(self.clock.now_ms()).encode()
            send.rewrite(b"%s%sUNIQ_KEY\x01%s\x02" % (text, end, key))

    def _check(self, send: headers.Send) -> None:
        """What depends on the single message, batch members included."""
        if send.marks & MARKS_NOT_BUILT or send.sys_flag & FLAGS_NOT_BUILT:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                "delayed and timer messages, transactions and inner batches are not built yet: "
                "this broker does not store them as something else",
            )
        fits = 0 < len(send.body) <= self._largest_body
        if not fits or len(send.properties) > self._longest_properties:
            raise self.store.too_large()
        if 0 <= send.max_reconsume_times < send.reconsume_times:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"tried {send.reconsume_times} times: dead letters are not built yet",
            )
        if self.safe.bytes_waiting + self.written.bytes_waiting > self._most_in_flight:
            raise Refused(ResponseCode.SYSTEM_BUSY, BUSY)
        send.sys_flag |= self._flags[send.topic]

    def _queue_of(
        self, connection: Connection, send: headers.Send, queues: dict[int, Queue]
    ) -> Queue:
        """The queue that a send names; any, where its number is negative."""
        config = self.topics.find(send.topic)
        assert config is not None, "it has just been admitted"
        most = max(config.read_queue_nums, config.write_queue_nums)
        if send.queue_id < 0 < config.write_queue_nums:
            send.queue_id = self.chance.randrange(config.write_queue_nums)
        if not 0 <= send.queue_id < most:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{send.queue_id}] is illegal, {described(config)} "
                f"Producer: {connection.remote}",
            )
        queue = queues[send.queue_id] = self.store.queue(send.topic, send.queue_id)
        return queue

    def _stage_batch(
        self, connection: Connection, batch: headers.Send, queues: dict[int, Queue]
    ) -> list[headers.Send]:
        """All members of a batch, or none: one place in one file, consecutive offsets."""
        if batch.topic.startswith(names.RETRY) or len(batch.topic) > names.LONGEST_TOPIC:
            why = f"batch request does not support retry group {batch.topic}"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
        self._check(batch)
        queue = self._queue_of(connection, batch, queues)
        try:
            found = records.members(batch.body)
        except Malformed as error:
            why = f"the batch cannot be read: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why) from None
        members = []
        for flag, body, text in found:
            member = headers.Send(
                topic=batch.topic,
                queue_id=batch.queue_id,
                sys_flag=batch.sys_flag,
                born_ms=batch.born_ms,
                message_flag=flag,
                properties=properties.of_member(text, batch.properties),
                reconsume_times=batch.reconsume_times,
                body=body,
            )
            self._complete(member)
            self._check(member)
            members.append(member)
        self.store.stage_batch(members, queue, connection.born_host, self._suffix)
        return members


@handles(SendMessage, needs=Pub(topic="topic"), largest_body=LARGEST)
def send_message(
    sends: Sends, ask: SendMessage, request: Command, connection: Connection
) -> Outcome:
    """Store this message, or these."""
    given = {name: getattr(ask, name) for name in SHARED}
    given["properties"] = (ask.properties or "").encode("utf-8", "replace")
    if ask.max_reconsume_times is None:
        del given["max_reconsume_times"]
    send = headers.Send(
        code=request.code,
        codec=request.codec,
        opaque=request.opaque,
        flag=request.flag,
        version=request.version,
        body=request.body,
        **given,
    )
    sends.take(connection, [send])
    return None
