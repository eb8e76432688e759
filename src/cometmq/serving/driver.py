"""The driver: from frames to handlers and back, the same for every request code.

It decodes, asks the gate, keeps the limits, calls, parks what waits, and encodes. What a code
means is none of its business.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from cometmq.serving.answers import Answer, Elsewhere, Outcome, Request, Wait, refuse
from cometmq.serving.gate import Gate
from cometmq.serving.table import Entry, HandlerTable

log = logging.getLogger("cometmq.serving")

Item: TypeAlias = frames.Frame | headers.Send | headers.Pull
Lane = Callable[[Connection, list[headers.Send]], None]
"""Takes sends that the kernel has decoded already, and answers them itself."""


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
        lane: Lane | None = None,
    ) -> None:
        self._table = table
        self._gate = gate
        self._clock = clock
        self._most_waiting = (limits or ServingLimits()).waiting
        self._lane = lane
        self._parked: dict[_Parked, None] = {}
        self._closed = False

    def took(self, connection: Connection, items: Sequence[Item]) -> None:
        """Serves what one read brought, in its order."""
        if self._closed:
            return
        for kind, run in groupby(items, type):
            if kind is headers.Send:
                assert self._lane is not None, "only a broker lets the kernel read sends"
                self._lane(connection, cast(list[headers.Send], list(run)))
                continue
            for item in run:
                if isinstance(item, headers.Pull):
                    self._pull(connection, item)
                else:
                    self._serve(connection, cast(frames.Frame, item))

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
            command.body,
        )
        entry = self._table.find(command.code)
        if entry is None:
            remark = f" request type {command.code} not supported"
            self._write(request, refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
            return
        self._ask(entry, request, lambda: entry.declared.header.read(command.fields))

    def _pull(self, connection: Connection, pull: headers.Pull) -> None:
        """A pull whose header the kernel has read."""
        entry = self._table.find(pull.code)
        assert entry is not None, "only a broker lets the kernel read pulls"
        oneway = bool(pull.flag & 2)
        request = Request(connection, pull.code, pull.codec, pull.opaque, pull.version, oneway)
        self._ask(entry, request, lambda: PullMessage(*pull.fields))

    def _ask(self, entry: Entry, request: Request, read: Callable[[], RequestHeader]) -> None:
        """Asks the handler what the limits and the gate let through, and answers or parks it."""
        now_ms, declared, ends = self._clock.now_ms(), entry.declared, request.connection
        outcome: Outcome | None
        if len(request.body) > declared.largest_body:
            outcome = refuse(
                ResponseCode.SYSTEM_ERROR,
                f"a body of {len(request.body)} bytes is too large for code {entry.code}, "
                f"which takes {declared.largest_body} at most",
            )
        else:
            outcome = self._gate.refuses(declared.needs, ends.local, ends.remote, entry.name)
        if outcome is None:
            outcome = _guarded(entry, lambda: entry.serve(read(), request, now_ms))
        if not isinstance(outcome, Wait):
            self._write(request, outcome)
        elif entry.waiting >= declared.most_waiting or len(self._parked) >= self._most_waiting:
            busy = "[OVERLOAD]system busy, start flow control for a while"
            self._write(request, refuse(ResponseCode.SYSTEM_BUSY, busy))
        elif request.connection.open:
            entry.waiting += 1
            left_ms = max(0, outcome.until_ms - now_ms)
            self._parked[_Parked(self, entry, request, outcome, left_ms / 1000)] = None

    def resume(self, parked: "_Parked", *, late: bool) -> None:
        """What was waited for has come, or the time is over."""
        wait, now_ms = parked.wait, self._clock.now_ms()
        # A timer may be a millisecond early, and `then` must see its deadline passed.
        at_ms = max(now_ms, wait.until_ms) if late else now_ms
        outcome = _guarded(parked.entry, lambda: wait.then(at_ms))
        if isinstance(outcome, Wait):
            assert not late, f"{parked.entry.name} must answer when its time is over"
            parked.go_on(outcome)
        else:
            self.drop(parked)
            self._write(parked.request, outcome)

    def drop(self, parked: "_Parked") -> None:
        """Nobody waits for this answer any more."""
        del self._parked[parked]
        parked.entry.waiting -= 1
        parked.end()

    def close(self) -> None:
        """Serves nothing more, and drops everything that waits."""
        self._closed = True
        for parked in list(self._parked):
            self.drop(parked)

    def _write(self, request: Request, outcome: ResponseHeader | Answer | Elsewhere) -> None:
        if isinstance(outcome, Elsewhere) or request.oneway:
            return
        if not isinstance(outcome, Answer):
            outcome = Answer(outcome)
        header, body = outcome.header, outcome.body
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
        fields = {**(header.fields() if header is not None else {}), **outcome.extra}
        code, remark = outcome.code, outcome.remark
        command = Command.answer(request.codec, request.opaque, code, remark, fields, body)
        request.connection.write(command.write())


def _guarded(entry: Entry, call: Callable[[], Outcome]) -> Outcome:
    try:
        return call()
    except CometError as error:
        return refuse(error.code or ResponseCode.SYSTEM_ERROR, str(error))
    except Exception as error:
        log.exception("%s failed", entry.name)
        return refuse(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


class _Parked:
    """A request that waits, watched from three sides: what it waits for, its time, its peer."""

    def __init__(
        self, driver: Driver, entry: Entry, request: Request, wait: Wait, left_s: float
    ) -> None:
        self.entry = entry
        self.request = request
        self.wait = wait
        self._driver = driver
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(left_s, lambda: driver.resume(self, late=True))
        self._leave = request.connection.ended.watch(lambda _: driver.drop(self))
        self._unwatch = wait.on.watch(self._tell)

    def _tell(self, _: object) -> None:
        self._driver.resume(self, late=False)

    def go_on(self, wait: Wait) -> None:
        """Waits for something further, with the deadline it has."""
        self._unwatch()
        self.wait = Wait(wait.on, self.wait.until_ms, wait.then)
        self._unwatch = wait.on.watch(self._tell)

    def end(self) -> None:
        """Watches no more."""
        self._timer.cancel()
        self._leave()
        self._unwatch()
