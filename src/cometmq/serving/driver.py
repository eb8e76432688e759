"""The driver: from frames to handlers and back, the same for every request code.

It decodes, asks the gate, keeps the limits, calls, parks what waits, and encodes. What a code
means is none of its business.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cometmq.kernel import frames, headers, replies
from cometmq.kernel.faults import Malformed
from cometmq.net import Connection
from cometmq.protocol import (
    BadRequest,
    Command,
    PullAnswer,
    PullMessage,
    RequestHeader,
    ResponseCode,
)
from cometmq.runtime import Clock, CometError
from cometmq.serving.answers import Answer, Elsewhere, Outcome, Refusal, Request, Wait
from cometmq.serving.gate import Gate
from cometmq.serving.table import Entry, HandlerTable

log = logging.getLogger("cometmq.serving")

Item: TypeAlias = frames.Frame | headers.Send | headers.Pull
Lane = Callable[[Connection, list[headers.Send]], None]
"""Takes sends that the kernel has decoded already, and answers them itself."""


def _no_lane(connection: Connection, sends: list[headers.Send]) -> None:
    raise AssertionError("only a broker lets the kernel read sends")


@dataclass(frozen=True)
class ServingLimits:
    """What a server holds for its peers at a time."""

    waiting: int = 100_000
    """Requests that wait for something, of all codes and connections."""


class Driver:
    """Serves the requests of all connections of one server."""

    def __init__(
        self,
        table: HandlerTable,
        gate: Gate,
        clock: Clock,
        limits: ServingLimits | None = None,
        lane: Lane = _no_lane,
    ) -> None:
        self._table = table
        self._gate = gate
        self._clock = clock
        self._limits = limits or ServingLimits()
        self._lane = lane
        self._parked: dict[Connection, dict[_Parked, None]] = {}
        self._waiting = 0
        self._closed = False

    def took(self, connection: Connection, items: Sequence[Item]) -> None:
        """Serves what one read brought, in its order."""
        if self._closed:
            return
        sends: list[headers.Send] = []
        for item in items:
            if type(item) is headers.Send:
                sends.append(item)
                continue
            if sends:
                self._lane(connection, sends)
                sends = []
            if type(item) is headers.Pull:
                self._pull(connection, item)
            else:
                assert isinstance(item, frames.Frame)
                self._serve(connection, item)
        if sends:
            self._lane(connection, sends)

    def _serve(self, connection: Connection, frame: frames.Frame) -> None:
        try:
            command = Command.read(frame)
        except Malformed as error:
            connection.abort(error)
            return
        if command.is_answer:
            log.info("answer %d from %s matches no request", command.opaque, connection.remote)
            return
        request = Request(
            connection,
            command.code,
            command.codec,
            command.opaque,
            command.version,
            command.is_oneway,
            command.language,
            command.fields,
            command.body,
        )
        entry = self._table.find(command.code)
        if entry is None:
            remark = f" request type {command.code} not supported"
            self._write(request, Refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
            return
        header: RequestHeader | Refusal
        try:
            header = entry.declared.header.read(request.fields)
        except BadRequest as error:
            header = Refusal(ResponseCode.SYSTEM_ERROR, str(error))
        self._settle(entry, request, self._outcome(entry, request, header))

    def _pull(self, connection: Connection, pull: headers.Pull) -> None:
        """A pull whose header the kernel has read."""
        entry = self._table.find(pull.code)
        assert entry is not None, "only a broker lets the kernel read pulls"
        oneway = bool(pull.flag & 2)
        request = Request(connection, pull.code, pull.codec, pull.opaque, pull.version, oneway)
        outcome = self._outcome(entry, request, PullMessage(*pull.fields))
        self._settle(entry, request, outcome)

    def _outcome(self, entry: Entry, request: Request, header: RequestHeader | Refusal) -> Outcome:
        declared = entry.declared
        if len(request.body) > declared.largest_body:
            return Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"a body of {len(request.body)} bytes is too large for code {entry.code}, "
                f"which takes {declared.largest_body} at most",
            )
        ends = request.connection
        refusal = self._gate.refuses(declared.needs, ends.local, ends.remote, entry.name)
        if refusal is not None:
            return refusal
        if isinstance(header, Refusal):
            return header
        return self._guarded(entry, lambda now: entry.serve(header, request, now))

    def _guarded(self, entry: Entry, call: Callable[[int], Outcome]) -> Outcome:
        try:
            return call(self._clock.now_ms())
        except CometError as error:
            return Refusal(error.code or ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:
            log.exception("%s failed", entry.name)
            return Refusal(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _settle(self, entry: Entry, request: Request, outcome: Outcome) -> None:
        if not isinstance(outcome, Wait):
            self._write(request, outcome)
        elif entry.waiting >= entry.declared.most_waiting or self._waiting >= self._limits.waiting:
            busy = "[OVERLOAD]system busy, start flow control for a while"
            self._write(request, Refusal(ResponseCode.SYSTEM_BUSY, busy))
        elif request.connection.open:
            parked = _Parked(self, entry, request, outcome)
            ours = self._parked.get(request.connection)
            if ours is None:
                ours = self._parked[request.connection] = {}
                request.connection.ended.watch(lambda _: self._drop(request.connection))
            ours[parked] = None
            entry.waiting += 1
            self._waiting += 1
            parked.begin()

    def resume(self, parked: "_Parked") -> None:
        """What was waited for has come, or the time is over."""
        outcome = self._guarded(parked.entry, parked.call)
        if isinstance(outcome, Wait):
            parked.go_on(outcome)
            return
        self._parked.get(parked.request.connection, {}).pop(parked, None)
        self._forget(parked)
        self._write(parked.request, outcome)

    def _drop(self, connection: Connection) -> None:
        for parked in self._parked.pop(connection, {}):
            self._forget(parked)

    def _forget(self, parked: "_Parked") -> None:
        parked.end()
        parked.entry.waiting -= 1
        self._waiting -= 1

    def close(self) -> None:
        """Serves nothing more, and drops everything that waits."""
        self._closed = True
        for connection in list(self._parked):
            self._drop(connection)

    def _write(self, request: Request, outcome: Outcome) -> None:
        if outcome is None or isinstance(outcome, Elsewhere) or request.oneway:
            return
        assert not isinstance(outcome, Wait)
        if not isinstance(outcome, (Answer, Refusal)):
            outcome = Answer(outcome)
        header = outcome.header
        body = outcome.body if isinstance(outcome, Answer) else b""
        if isinstance(header, PullAnswer):  # the one answer besides sends that is often asked
            head = replies.pulled(
                request.codec,
                request.opaque,
                outcome.code,
                (outcome.remark or "").encode(),
                header.suggest_which_broker_id,
                header.next_begin_offset,
                header.min_offset,
                header.max_offset,
                len(body),
            )
            request.connection.write(head + body if body else head)
            return
        fields = header.fields() if header is not None else {}
        command = Command.answer(
            request.codec,
            request.opaque,
            outcome.code,
            outcome.remark,
            {**fields, **outcome.extra},
            body,
        )
        request.connection.write(command.write())


class _Parked:
    """A request that waits; identity is what tells one from another."""

    def __init__(self, driver: Driver, entry: Entry, request: Request, wait: Wait) -> None:
        self.entry = entry
        self.request = request
        self._driver = driver
        self._wait = wait
        self._unwatch: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late = False

    def begin(self) -> None:
        """Watches, and sets the clock for the deadline."""
        left_ms = max(0, self._wait.until_ms - self._driver._clock.now_ms())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(left_ms / 1000, self._pass)
        self._unwatch = self._wait.on.watch(self._tell)

    def _tell(self, _: object) -> None:
        if self._unwatch is not None:
            self._driver.resume(self)

    def _pass(self) -> None:
        self._late = True
        self._driver.resume(self)

    def call(self, now_ms: int) -> Outcome:
        """Decides; a timer may be a millisecond early, and `then` must see its deadline passed."""
        return self._wait.then(max(now_ms, self._wait.until_ms) if self._late else now_ms)

    def go_on(self, wait: Wait) -> None:
        """Waits for something further, with the deadline it has."""
        assert not self._late, f"{self.entry.name} must answer when its time is over"
        if self._unwatch is not None:
            self._unwatch()
        self._wait = Wait(wait.on, self._wait.until_ms, wait.then)
        self._unwatch = wait.on.watch(self._tell)

    def end(self) -> None:
        """Watches no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
