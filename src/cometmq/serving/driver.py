"""The driver: from frames to handlers and back, the same for every request code.

It decodes, asks the gate, keeps the limits, calls, parks what waits, and encodes. What a code
means is none of its business.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias, cast

from cometmq.kernel import frames, headers, replies
from cometmq.kernel.faults import Malformed
from cometmq.net import Connection
from cometmq.protocol import (
    Command,
    PullAnswer,
    PullMessage,
    RequestHeader,
    ResponseCode,
    ResponseHeader,
)
from cometmq.runtime import Clock, CometError
from cometmq.serving.handling import Answer, Gate, Handler, HandlerTable, Outcome, Refused, Wait

log = logging.getLogger("cometmq.serving")

Item: TypeAlias = frames.Frame | headers.Send | headers.Pull
Lane = Callable[[Connection, list[headers.Send]], None]
"""Takes sends that the kernel has decoded already, and answers them itself."""

ONE_WAY = 2
"""The bit of a request's flag that asks for no answer."""

BUSY = "[OVERLOAD]system busy, start flow control for a while"


@dataclass(eq=False, slots=True)
class _Call:
    """A request and who serves it; while it waits it is watched from three sides: its time, its
    peer, what it waits for."""

    handler: Handler
    connection: Connection
    request: Command
    unwatch: tuple[Callable[[], object], ...] = ()


@dataclass(eq=False)
class Driver:
    """Serves the requests of all connections of one server."""

    table: HandlerTable
    gate: Gate
    clock: Clock
    lane: Lane | None = None
    most_waiting: int = 100_000
    """Requests that wait for something, of all codes and connections."""
    _parked: dict[_Call, None] = field(default_factory=dict, init=False)
    _closed: bool = field(default=False, init=False)

    def took(self, connection: Connection, items: Sequence[Item]) -> None:
        """Serves what one read brought, in its order."""
        if self._closed:
            return
        for kind, run in groupby(items, type):
            if kind is headers.Send:
                assert self.lane is not None, "only a broker lets the kernel read sends"
                self.lane(connection, cast(list[headers.Send], list(run)))
                continue
            for item in run:
                if isinstance(item, headers.Pull):
                    self._pull(connection, item)
                else:
                    self._read(connection, cast(frames.Frame, item))

    def _pull(self, connection: Connection, pull: headers.Pull) -> None:
        """A pull whose header the kernel has read."""
        request = Command(pull.code, pull.opaque, pull.flag, pull.version, codec=pull.codec)
        self._ask(connection, request, PullMessage(*pull.fields))

    def _read(self, connection: Connection, frame: frames.Frame) -> None:
        try:
            request = Command.read(frame)
        except Malformed as error:
            connection.abort(error)
            return
        if request.is_answer:
            log.info("answer %d from %s matches no request", request.opaque, connection.remote)
        else:
            self._ask(connection, request)

    def _ask(
        self, connection: Connection, request: Command, header: RequestHeader | None = None
    ) -> None:
        """Asks the handler, and answers or parks; `header` where the kernel has read it."""
        handler = self.table.get(request.code)
        if handler is None:
            remark = f" request type {request.code} not supported"
            answer = Answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
            _write(connection, request, answer)
            return
        call = _Call(handler, connection, request)
        self._settle(call, lambda: self._serve(call, header))

    def _settle(self, call: _Call, ask: Callable[[], Outcome]) -> None:
        """Answers what can be answered, and parks what waits."""
        try:
            outcome = ask()
        except CometError as error:
            outcome = Answer(code=error.code or ResponseCode.SYSTEM_ERROR, remark=str(error))
        except Exception as error:
            log.exception("%s failed", call.handler.name)
            remark = f"{type(error).__name__}: {error}"
            outcome = Answer(code=ResponseCode.SYSTEM_ERROR, remark=remark)
        if not isinstance(outcome, Wait):
            _write(call.connection, call.request, outcome)
        elif call.connection.open:
            self._park(call, outcome)

    def _serve(self, call: _Call, header: RequestHeader | None) -> Outcome:
        """What the handler says to what the limits and the gate let through."""
        now_ms, handler, request = self.clock.now_ms(), call.handler, call.request
        if len(request.body) > handler.largest_body:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"a body of {len(request.body)} bytes is too large for code {request.code}, "
                f"which takes {handler.largest_body} at most",
            )
        self.gate.check(handler, call.connection.local, call.connection.remote)
        if header is None:
            header = handler.header.read(request.fields)
        outcome = handler.serve(header, request, call.connection, now_ms)
        full = handler.waiting >= handler.most_waiting or len(self._parked) >= self.most_waiting
        if full and isinstance(outcome, Wait):
            raise Refused(ResponseCode.SYSTEM_BUSY, BUSY)
        return outcome

    def _park(self, call: _Call, wait: Wait) -> None:
        # No Timer: tens of thousands may be parked, and each object of theirs is the collector's.
        loop, left_ms = asyncio.get_running_loop(), wait.until_ms - self.clock.now_ms()
        timer = loop.call_later(max(0, left_ms) / 1000, self._resume, call, wait, wait.until_ms)
        leave = call.connection.ended.watch(lambda _: self._drop(call))
        call.unwatch = (timer.cancel, leave, wait.on.watch(lambda _: self._resume(call, wait)))
        call.handler.waiting += 1
        self._parked[call] = None

    def _resume(self, call: _Call, wait: Wait, least_ms: int = 0) -> None:
        """What was waited for has come, or the time is over."""
        self._drop(call)
        # A timer may be a millisecond early, and `then` must see its deadline passed.
        at_ms = max(self.clock.now_ms(), least_ms)

        def look() -> Outcome:
            outcome = wait.then(at_ms)
            if isinstance(outcome, Wait):
                late = f"{call.handler.name} must answer when its time is over"
                assert at_ms < wait.until_ms, late
                return Wait(outcome.on, wait.until_ms, outcome.then)
            return outcome

        self._settle(call, look)

    def _drop(self, call: _Call) -> None:
        """Nobody waits for this answer any more."""
        del self._parked[call]
        call.handler.waiting -= 1
        ends, call.unwatch = call.unwatch, ()
        for end in ends:
            end()

    def close(self) -> None:
        """Serves nothing more, and drops everything that waits."""
        self._closed = True
        for call in list(self._parked):
            self._drop(call)


def _write(
    connection: Connection, request: Command, outcome: ResponseHeader | Answer | None
) -> None:
    if outcome is None or request.flag & ONE_WAY:
        return
    answer = outcome if isinstance(outcome, Answer) else Answer(outcome)
    header, body, code, remark = answer.header, answer.body, answer.code, answer.remark
    if isinstance(header, PullAnswer):  # the one answer besides sends that is often asked
        head = replies.pulled(
            request.codec,
            request.opaque,
            code,
            (remark or "").encode(),
            header.suggest_which_broker_id,
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            len(body),
        )
        connection.write(head + body if body else head)
        return
    fields = header.fields() if header is not None else {}
    command = Command.answer(request.codec, request.opaque, code, remark, fields, body)
    connection.write(command.write())
