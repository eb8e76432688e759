"""The driver: from frames to handlers and back, the same for every request code.

It decodes, asks the gate, keeps the limits, calls, parks what waits, and encodes. What a code
means is none of its business.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from typing import TypeAlias, cast

from cometmq.kernel import Malformed, frames, headers
from cometmq.net import Connection
from cometmq.protocol import Command, PullMessage, RequestHeader, ResponseCode
from cometmq.runtime import Clock, CometError, Refused
from cometmq.serving.handling import Answer, Gate, Handler, Outcome, Said, Wait

log = logging.getLogger("cometmq.serving")

Item: TypeAlias = frames.Frame | headers.Send | headers.Pull
Lane = Callable[[Connection, list[headers.Send]], None]
"""Takes sends that the kernel has decoded already, and answers them itself."""

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

    table: dict[int, Handler]
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
        for kind, run in groupby(takewhile(lambda _: connection.usable, items), type):
            if kind is headers.Send:
                assert self.lane is not None, "only a broker lets the kernel read sends"
                self.lane(connection, cast(list[headers.Send], list(run)))
                continue
            for item in run:
                self._ask(connection, cast(frames.Frame | headers.Pull, item))

    def _ask(self, connection: Connection, item: frames.Frame | headers.Pull) -> None:
        """Finds who serves a request, and asks."""
        header: RequestHeader | None = None
        if isinstance(item, headers.Pull):  # the kernel has read its header
            request = Command(item.code, item.opaque, item.flag, item.version, codec=item.codec)
            header = PullMessage(*item.fields)
        else:
            try:
                request = Command.read(item)
            except Malformed as error:
                connection.abort(error)
                return
            if request.is_answer:
                log.info("answer %d from %s matches no request", request.opaque, connection.remote)
                return
        handler = self.table.get(request.code)
        if handler is None:
            remark = f" request type {request.code} not supported"
            answer = Answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
            _write(connection, request, answer)
            return
        call = _Call(handler, connection, request)
        self._look(call, lambda now_ms: self._serve(call, header, now_ms), self.clock.now_ms())

    def _look(
        self, call: _Call, then: Callable[[int], Outcome], now_ms: int, until_ms: int | None = None
    ) -> None:
        """Answers what can be answered, and parks what waits; a deadline it has does not move."""
        try:
            outcome = then(now_ms)
            if isinstance(outcome, Wait) and until_ms is not None:
                assert now_ms < until_ms, f"{call.handler.name} must answer when its time is over"
                outcome = replace(outcome, until_ms=until_ms)
        except CometError as error:
            outcome = Answer(code=error.code or ResponseCode.SYSTEM_ERROR, remark=str(error))
        except Exception as error:
            log.exception("%s failed", call.handler.name)
            remark = f"{type(error).__name__}: {error}"
            outcome = Answer(code=ResponseCode.SYSTEM_ERROR, remark=remark)
        if not isinstance(outcome, Wait):
            _write(call.connection, call.request, outcome)
        elif call.connection.usable:
            self._park(call, outcome)

    def _serve(self, call: _Call, header: RequestHeader | None, now_ms: int) -> Outcome:
        """What the handler says to what the limits and the gate let through."""
        handler, request = call.handler, call.request
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
        self._look(call, wait.then, max(self.clock.now_ms(), least_ms), wait.until_ms)

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


def _write(connection: Connection, request: Command, outcome: Said) -> None:
    if outcome is None or request.is_oneway:
        return
    if isinstance(outcome, bytes):
        connection.write(outcome)
        return
    answer = outcome if isinstance(outcome, Answer) else Answer(outcome)
    fields = answer.header.fields() if answer.header is not None else {}
    ends = answer.code, answer.remark, fields, answer.body
    connection.write(Command.answer(request.codec, request.opaque, *ends).write())
