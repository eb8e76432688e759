"""The driver: from frames to handlers and back, the same for every request code.

It decodes, asks the gate, keeps the limits, calls, parks what waits, and encodes. What a code
means is none of its business.
"""

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
from cometmq.runtime import Clock, CometError, Timer
from cometmq.serving.gate import Gate
from cometmq.serving.handling import Answer, Entry, HandlerTable, Outcome, Refused, Wait

log = logging.getLogger("cometmq.serving")

Item: TypeAlias = frames.Frame | headers.Send | headers.Pull
Lane = Callable[[Connection, list[headers.Send]], None]
"""Takes sends that the kernel has decoded already, and answers them itself."""

BUSY = "[OVERLOAD]system busy, start flow control for a while"


@dataclass(eq=False, slots=True)
class _Parked:
    """A request that waits, watched from three sides: its time, its peer, what it waits for."""

    entry: Entry
    connection: Connection
    request: Command
    wait: Wait
    unwatch: list[Callable[[], object]] = field(default_factory=list)


@dataclass(eq=False)
class Driver:
    """Serves the requests of all connections of one server."""

    table: HandlerTable
    gate: Gate
    clock: Clock
    lane: Lane | None = None
    most_waiting: int = 100_000
    """Requests that wait for something, of all codes and connections."""
    _parked: dict[_Parked, None] = field(default_factory=dict, init=False)
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
        entry = self.table.get(request.code)
        if entry is None:
            remark = f" request type {request.code} not supported"
            answer = Answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
            _write(connection, request, answer)
            return
        outcome = _guarded(entry, lambda: self._serve(entry, connection, request, header))
        if not isinstance(outcome, Wait):
            _write(connection, request, outcome)
        elif connection.open:
            self._park(_Parked(entry, connection, request, outcome))

    def _serve(
        self,
        entry: Entry,
        connection: Connection,
        request: Command,
        header: RequestHeader | None,
    ) -> Outcome:
        """What the handler says to what the limits and the gate let through."""
        now_ms, declared = self.clock.now_ms(), entry.declared
        if len(request.body) > declared.largest_body:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"a body of {len(request.body)} bytes is too large for code {entry.code}, "
                f"which takes {declared.largest_body} at most",
            )
        self.gate.check(declared.needs, connection.local, connection.remote, entry.name)
        if header is None:
            header = declared.header.read(request.fields)
        outcome = entry.serve(header, request, connection, now_ms)
        full = entry.waiting >= declared.most_waiting or len(self._parked) >= self.most_waiting
        if full and isinstance(outcome, Wait):
            raise Refused(ResponseCode.SYSTEM_BUSY, BUSY)
        return outcome

    def _park(self, parked: _Parked) -> None:
        wait = parked.wait
        timer = Timer(lambda: self._resume(parked, late=True))
        timer.start(max(0, wait.until_ms - self.clock.now_ms()) / 1000)
        leave = parked.connection.ended.watch(lambda _: self._drop(parked))
        watch = wait.on.watch(lambda _: self._resume(parked))
        parked.unwatch += (timer.stop, leave, watch)
        parked.entry.waiting += 1
        self._parked[parked] = None

    def _resume(self, parked: _Parked, *, late: bool = False) -> None:
        """What was waited for has come, or the time is over."""
        wait, now_ms = parked.wait, self.clock.now_ms()
        # A timer may be a millisecond early, and `then` must see its deadline passed.
        at_ms = max(now_ms, wait.until_ms) if late else now_ms
        outcome = _guarded(parked.entry, lambda: wait.then(at_ms))
        if isinstance(outcome, Wait):
            assert not late, f"{parked.entry.name} must answer when its time is over"
            parked.wait = Wait(outcome.on, wait.until_ms, outcome.then)
            parked.unwatch.pop()()
            parked.unwatch.append(outcome.on.watch(lambda _: self._resume(parked)))
        else:
            self._drop(parked)
            _write(parked.connection, parked.request, outcome)

    def _drop(self, parked: _Parked) -> None:
        """Nobody waits for this answer any more."""
        del self._parked[parked]
        parked.entry.waiting -= 1
        for end in parked.unwatch:
            end()

    def close(self) -> None:
        """Serves nothing more, and drops everything that waits."""
        self._closed = True
        for parked in list(self._parked):
            self._drop(parked)


def _guarded(entry: Entry, call: Callable[[], Outcome]) -> Outcome:
    try:
        return call()
    except CometError as error:
        return Answer(code=error.code or ResponseCode.SYSTEM_ERROR, remark=str(error))
    except Exception as error:
        log.exception("%s failed", entry.name)
        return Answer(code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


def _write(
    connection: Connection, request: Command, outcome: ResponseHeader | Answer | None
) -> None:
    if outcome is None or request.is_oneway:
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
