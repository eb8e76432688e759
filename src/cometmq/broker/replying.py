"""Replies: each send waits in the queue of the watermark it asked for, and leaves with a prefix."""

from collections import deque
from dataclasses import dataclass

from cometmq.kernel import headers, replies
from cometmq.message import offset_id
from cometmq.net import Connection
from cometmq.protocol import Command, ResponseCode, SendAnswer
from cometmq.runtime import Clock, Timer
from cometmq.store import Fault, Store, Watermark

EXTRA = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""Every answer to a send carries these, refusals included (spec 02 ch. 15)."""

ONE_WAY = 2
"""The bit of a frame's flag that asks for no answer."""


@dataclass(slots=True)
class _Waiting:
    """What one turn of one connection sent: answered together, when its last record is safe."""

    sends: list[headers.Send]
    end: int
    deadline: float
    connection: Connection
    batch: headers.Send | None
    """Whose members the sends are: it is what is answered."""


class _Queue:
    """Those who wait for one watermark, in the order of the log."""

    def __init__(self, owner: "Replies", watermark: Watermark) -> None:
        self._owner = owner
        self._waiting: deque[_Waiting] = deque()
        self._timer = Timer(self._late)
        watermark.watch(self)

    def add(self, waiting: _Waiting, timeout_s: float) -> None:
        """Waits; the watermark has not passed its end yet."""
        self._waiting.append(waiting)
        self._timer.start(timeout_s)  # it runs already for whoever came before

    def _late(self) -> None:
        """Deadlines stand in the order of the ends: only the front can be late."""
        now = self._owner.clock.time()
        while self._waiting and self._waiting[0].deadline <= now:
            self._owner.answer(self._waiting.popleft(), ResponseCode.FLUSH_DISK_TIMEOUT)
        if self._waiting:
            self._timer.start(self._waiting[0].deadline - now)

    def passed(self, position: int) -> None:
        while self._waiting and self._waiting[0].end <= position:
            self._owner.answer(self._waiting.popleft(), ResponseCode.SUCCESS)

    def broken(self, fault: Fault) -> None:
        self.passed(fault.beyond)
        stored, lost = ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SERVICE_NOT_AVAILABLE
        while self._waiting:
            self._owner.answer(self._waiting.popleft(), stored if fault.stored else lost, fault.why)

    def close(self) -> None:
        """Answers nobody any more."""
        self._timer.stop()
        self._waiting.clear()


class Replies:
    """Answers sends when what was asked for is true."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.clock = clock
        self.bytes_in_flight = 0
        self._store = store
        self._timeout_s = store.settings.sync_flush_timeout / 1000
        self._written = _Queue(self, store.written)
        is_sync = store.settings.is_sync
        self._synced = _Queue(self, store.synced) if is_sync else self._written

    def when_safe(
        self,
        connection: Connection,
        sends: list[headers.Send],
        *,
        waits: bool = True,
        batch: headers.Send | None = None,
    ) -> None:
        """Answers as the flush mode promises, or those who do not want to wait as soon as the
        file system has it; where these are a batch's members, the batch, with all their ids."""
        if not sends:
            return
        end, deadline = sends[-1].end, self.clock.time() + self._timeout_s
        self.bytes_in_flight += end - sends[0].position
        queue = self._synced if waits else self._written
        queue.add(_Waiting(sends, end, deadline, connection, batch), self._timeout_s)

    def answer(self, waiting: _Waiting, code: int, remark: str = "") -> None:
        """Says where the messages are, or that nothing of them was stored."""
        connection, sends, batch = waiting.connection, waiting.sends, waiting.batch
        self.bytes_in_flight -= waiting.end - sends[0].position
        host = self._store.store_host
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
        self._written.close()
        self._synced.close()


def tell(
    connection: Connection,
    send: headers.Send,
    code: int,
    remark: str | None,
    fields: dict[str, str] = EXTRA,
) -> None:
    """Answers one send by itself: says no, or where a batch is."""
    if not send.flag & ONE_WAY:
        answer = Command.answer(send.codec, send.opaque, code, remark, fields)
        connection.write(answer.write())
