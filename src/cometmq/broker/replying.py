"""Replies: each send waits in the queue of the watermark it asked for, and leaves with a prefix."""

from collections import deque
from dataclasses import dataclass, field

from cometmq.kernel import headers, replies
from cometmq.message import offset_id
from cometmq.net import Connection
from cometmq.protocol import ONEWAY, Command, ResponseCode, SendAnswer
from cometmq.runtime import Clock, Timer
from cometmq.store import Fault, Store, Watermark

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
        self._passed(fault.beyond)
        stored, lost = ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SERVICE_NOT_AVAILABLE
        while self._waiting:
            self._answer(self._waiting.popleft(), stored if fault.stored else lost, fault.why)

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
