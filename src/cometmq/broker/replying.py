"""Replies: each send waits in the queue of the watermark it asked for, and leaves with a prefix."""

import asyncio
from collections import deque
from dataclasses import dataclass

from cometmq.kernel import headers, replies
from cometmq.message import offset_id
from cometmq.net import Connection
from cometmq.protocol import Command, ResponseCode, SendAnswer
from cometmq.runtime import Clock
from cometmq.store import Fault, Store, Watermark

EXTRA = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""Every answer to a send carries these, refusals included (spec 02 ch. 15)."""

ONE_WAY = 2
"""The bit of a frame's flag that asks for no answer."""


@dataclass(slots=True)
class _Waiting:
    """What one turn of one connection sent: answered together, when its last record is safe."""

    end: int
    size: int
    deadline: float
    connection: Connection
    sends: list[headers.Send]
    members: list[headers.Send] | None
    """The messages of a batch, which is the only one of `sends` then."""


class _Queue:
    """Those who wait for one watermark, in the order of the log."""

    def __init__(self, owner: "Replies", watermark: Watermark) -> None:
        self._owner = owner
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        watermark.watch(self.passed)
        watermark.faults.watch(self.broken)

    def add(self, waiting: _Waiting) -> None:
        """Waits; the watermark has not passed its end yet."""
        self._waiting.append(waiting)
        if self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._waiting[0].deadline, self._late)

    def _late(self) -> None:
        """Deadlines stand in the order of the ends: only the front can be late."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._waiting and self._waiting[0].deadline <= now:
            self._owner.answer(self._waiting.popleft(), ResponseCode.FLUSH_DISK_TIMEOUT)
        if self._waiting:
            self._set_timer()

    def passed(self, position: int) -> None:
        """The watermark has moved: everything before it is answered."""
        while self._waiting and self._waiting[0].end <= position:
            self._owner.answer(self._waiting.popleft(), ResponseCode.SUCCESS)

    def broken(self, fault: Fault) -> None:
        """The watermark will not move any further."""
        self.passed(fault.beyond)
        while self._waiting:
            waiting = self._waiting.popleft()
            if fault.stored:
                self._owner.answer(waiting, ResponseCode.FLUSH_DISK_TIMEOUT, fault.why)
            else:
                self._owner.fail(waiting, fault.why)

    def close(self) -> None:
        """Answers nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()


class Replies:
    """Answers sends when what was asked for is true."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.bytes_in_flight = 0
        self._clock = clock
        self._store = store
        self._timeout_s = store.settings.sync_flush_timeout / 1000
        self._written = _Queue(self, store.written)
        sync = store.settings.is_sync
        self._synced = _Queue(self, store.synced) if sync else self._written

    def when_synced(self, connection: Connection, sends: list[headers.Send]) -> None:
        """Answers as the flush mode promises."""
        self._add(self._synced, connection, sends)

    def when_written(self, connection: Connection, sends: list[headers.Send]) -> None:
        """Answers as soon as the file system has it: the client did not want to wait."""
        self._add(self._written, connection, sends)

    def batch(
        self,
        connection: Connection,
        batch: headers.Send,
        members: list[headers.Send],
        *,
        waits: bool,
    ) -> None:
        """Answers a batch, with the ids of all its members."""
        self._add(self._synced if waits else self._written, connection, [batch], members)

    def _add(
        self,
        queue: _Queue,
        connection: Connection,
        sends: list[headers.Send],
        members: list[headers.Send] | None = None,
    ) -> None:
        if not sends:
            return
        stored = members or sends
        end = stored[-1].end
        size = end - stored[0].position
        self.bytes_in_flight += size
        deadline = self._clock.time() + self._timeout_s
        queue.add(_Waiting(end, size, deadline, connection, sends, members))

    def answer(self, waiting: _Waiting, code: int, remark: str = "") -> None:
        """Says where the messages are."""
        self.bytes_in_flight -= waiting.size
        host = self._store.store_host
        if waiting.members is None:
            host_hex = host.hex().upper().encode()
            data = replies.sent(waiting.sends, code, host_hex, remark.encode())
        else:
            data = _of_batch(waiting.sends[0], waiting.members, host, code, remark)
        if data:
            waiting.connection.write(data)

    def fail(self, waiting: _Waiting, why: str) -> None:
        """Says that nothing of it was stored."""
        self.bytes_in_flight -= waiting.size
        for send in waiting.sends:
            self.refuse(waiting.connection, send, ResponseCode.SERVICE_NOT_AVAILABLE, why)

    def refuse(
        self, connection: Connection, send: headers.Send, code: int, remark: str | None
    ) -> None:
        """Says no to a send."""
        if not send.flag & ONE_WAY:
            answer = Command.answer(send.codec, send.opaque, code, remark, EXTRA)
            connection.write(answer.write())

    def close(self) -> None:
        """Answers nobody any more."""
        self._written.close()
        self._synced.close()


def _of_batch(
    batch: headers.Send, members: list[headers.Send], host: bytes, code: int, remark: str
) -> bytes:
    if batch.flag & ONE_WAY:
        return b""
    header = SendAnswer(
        msg_id=",".join(offset_id(host, one.position) for one in members),
        queue_id=batch.queue_id,
        queue_offset=members[0].queue_offset,
        transaction_id=batch.unique_key.decode() or None,
    )
    fields = {**header.fields(), **EXTRA}
    return Command.answer(batch.codec, batch.opaque, code, remark or None, fields).write()
