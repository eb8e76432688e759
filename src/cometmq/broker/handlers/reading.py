"""Single records, by their place in the log."""

from cometmq.protocol import ResponseCode, ViewMessageById
from cometmq.serving import Answer, Outcome, Refusal, Sub, Wait, handles
from cometmq.store import Cold, Store

READ_MS = 5_000


@handles(ViewMessageById, needs=Sub.topic("topic"))
def view_message_by_id(store: Store, ask: ViewMessageById, now_ms: int) -> Outcome:
    """The record at this place of the commit log."""
    return _answer(ask, store.message_at(ask.offset), now_ms, now_ms + READ_MS)


def _answer(
    ask: ViewMessageById, found: bytes | Cold[bytes | None] | None, now_ms: int, until: int
) -> Outcome:
    if isinstance(found, Cold):
        cold = found
        if cold.error is not None:
            return Refusal(ResponseCode.SYSTEM_ERROR, str(cold.error))
        if not cold.done and now_ms < until:
            return Wait(cold, until, lambda now: _answer(ask, cold, now, until))
        found = cold.found
    if found is None:
        why = f"can not find message by the offset, {ask.offset}"
        return Refusal(ResponseCode.SYSTEM_ERROR, why)
    return Answer(body=found)
