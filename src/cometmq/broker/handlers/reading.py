"""Single records, by their place in the log; and what any read does whose bytes are cold."""

from collections.abc import Callable
from typing import TypeVar, cast

from cometmq.protocol import ResponseCode, ViewMessageById
from cometmq.serving import Answer, Outcome, Sub, Wait, handles, refuse
from cometmq.store import Cold, Store

T = TypeVar("T")

READ_MS = 5_000
"""How long a cold read may take before the client is told to ask again."""


@handles(ViewMessageById, needs=Sub.topic("topic"))
def view_message_by_id(store: Store, ask: ViewMessageById, now_ms: int) -> Outcome:
    """The record at this place of the commit log."""

    def decide(record: bytes | None, now_ms: int) -> Outcome:
        if record is not None:
            return Answer(body=record)
        why = f"can not find message by the offset, {ask.offset}"
        return refuse(ResponseCode.SYSTEM_ERROR, why)

    return when_read(store.message_at(ask.offset), now_ms, now_ms + READ_MS, decide)


def when_read(
    found: T | Cold[T], now_ms: int, until_ms: int, decide: Callable[[T, int], Outcome]
) -> Outcome:
    """Decides on what was read: now, or when the disk has delivered it."""
    if not isinstance(found, Cold):
        return decide(found, now_ms)
    if found.error is not None:
        return refuse(ResponseCode.SYSTEM_ERROR, str(found.error))
    if found.done:
        return decide(cast(T, found.found), now_ms)
    if now_ms >= until_ms:
        return refuse(ResponseCode.SYSTEM_BUSY, "the disk did not deliver in time, ask again")
    return Wait(found, until_ms, lambda now: when_read(found, now, until_ms, decide))
