"""The property string of a message: `name 0x01 value 0x02` repeated (spec 02 5.3, 03 3.4)."""

from collections.abc import Iterable, Mapping

LONGEST = 32767  # the length is a signed 16-bit number
KEYS, TAGS, WAIT, UNIQ_KEY = "KEYS", "TAGS", "WAIT", "UNIQ_KEY"
POP_CK, TRANSIENT = "POP_CK", "__RMQ.TRANSIENT."
# What a broker says itself, over whatever a client sent.
OF_BROKER = ("CLUSTER", "MSG_REGION", "TRACE_ON")

# Names that only the system may put (spec 02 ch. 6, rows marked R).
RESERVED = frozenset(
    """
    KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME
    MAX_RECONSUME_TIMES MSG_REGION TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO CONSUME_START_TIME
    DUP_INFO TRAN_PREPARED_QUEUE_OFFSET INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL
    ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME
    INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL
    __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
    """.split()  # noqa: SIM905
)


def parse(data: bytes) -> dict[str, str]:
    """The pairs. A piece without name or value is no pair, and the last of equal names counts."""
    return {
        str(name, errors="replace"): str(value, errors="replace") for name, value in _pairs(data)
    }


def _pairs(data: bytes) -> Iterable[tuple[bytes, bytes]]:
    for piece in data.split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if name and value:
            yield name, value


def encode(pairs: Mapping[str, str]) -> bytes:
    """The property string, with the last 0x02: that is how brokers store it now."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    return text.encode(errors="replace")


def fault(name: str, value: str) -> str | None:
    """Why a user may not put this property, or would not get it back as it was."""
    if name in RESERVED or name.startswith(TRANSIENT):
        return f"The Property<{name}> is used by system, input another please"
    if not name.strip() or not value.strip():
        return f"a property needs a name and a value, got {name!r} = {value!r}"
    if "\x01" in name or "\x02" in name + value:
        return f"a property holds 0x01 or 0x02, which end names and values: {name!r}"
    return None


def rewrite(
    data: bytes, *, drop: Iterable[str] = (*OF_BROKER, POP_CK), put: Mapping[str, str] | None = None
) -> bytes:
    """The pairs in plain form, each once, without transient and dropped ones; `put` comes last."""
    put = put or {}
    gone = {name.encode() for name in (*drop, *put)}
    kept = [
        name + b"\x01" + value + b"\x02"
        for name, value in dict(_pairs(data)).items()
        if name not in gone and not name.startswith(TRANSIENT.encode())
    ]
    return b"".join(kept) + encode(put)


def of_member(member: bytes, batch: bytes) -> bytes:
    """What a member of a batch is stored with: the batch's pairs over its own, but for its id."""
    of_batch = parse(batch)
    if any(name == UNIQ_KEY.encode() for name, _ in _pairs(member)):
        of_batch.pop(UNIQ_KEY, None)
    return rewrite(rewrite(member, drop=(), put=of_batch))
