"""Decoder: the records of a queue into Arrow batches, column by column (spec 09 ch. 9.2).

No Python object is made for a message; only compressed bodies and texts that are no UTF-8 are
looked at one by one. What a record is stands in kernel.records, which tests compare with this.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.kernel import Malformed
from cometmq.message import BadCompression, SysFlag, decompress, host_text
from cometmq.net import Address
from cometmq.spark.columns import COLUMNS

Ints = npt.NDArray[np.int64]

MOST_ROWS = 8192
MOST_BYTES = 8 << 20
"""Limits of one batch; a larger message makes a batch of its own (spec 09 ch. 4)."""

MOST_INFLATED = 256 << 20
"""Limit of one body after decompression."""

V1, V2 = 0xDAA320A7, 0xDAA320AB
_NO_BODY = 91
"""The shortest record: V1, IPv4, no body, no topic, no properties (spec 03 ch. 3.1)."""


def _layout(fields: str) -> np.dtype[Any]:
    """Numbers that lie one behind the other, high byte first, as "name:type ..."."""
    return np.dtype([(name, f">{kind}") for name, kind in (f.split(":") for f in fields.split())])


_HEAD = _layout(
    "storeSize:i4 magic:u4 bodyCrc:u4 queueId:i4 flag:i4 queueOffset:i8 physicalOffset:i8 "
    "sysFlag:i4 bornTimestamp:i8"
)
_MIDDLE = _layout("reconsumeTimes:i4 preparedTransactionOffset:i8 length:i4")
_SHORT, _LONG = np.dtype(">i2"), np.dtype(">i8")
_WIDE = 20
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), "<u2")

# Years 1 to 9999, all that a TIMESTAMP may be; what a sender's clock says is not ours to trust.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999

_ARROW = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "BINARY": pa.binary(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "MAP<STRING,STRING>": pa.map_(pa.string(), pa.string()),
}

_PROPERTY = {"msgId": "UNIQ_KEY", "tags": "TAGS", "keys": "KEYS"}


def schema(columns: Sequence[str]) -> pa.Schema:
    """What batches of these columns look like; Spark takes no other form, however close."""
    return pa.schema([(name, _ARROW[COLUMNS[name]]) for name in columns])


def batches(data: bytes, broker: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All records of `data`, which are whole, in batches; Malformed where one is broken."""
    starts = _starts(data)
    at = 0
    while at < len(starts) - 1:
        within = int(np.searchsorted(starts, starts[at] + MOST_BYTES, "right")) - 1
        end = min(at + MOST_ROWS, max(within, at + 1))
        batch = Records(data, starts[at : end + 1]).batch(broker, columns)
        yield batch
        at += batch.num_rows


def _starts(data: bytes) -> Ints:
    """Where each record begins, and where the last one ends."""
    # The one loop over messages that is left: each length says where the next one is.
    size_at = struct.Struct(">i").unpack_from
    starts, at, end = [0], 0, len(data)
    while at < end:
        size = size_at(data, at)[0] if end - at >= _NO_BODY else 0
        if not _NO_BODY <= size <= end - at:
            raise Malformed(f"a record of {_NO_BODY} to {end - at} bytes expected, not {size}")
        at += size
        starts.append(at)
    return np.array(starts, np.int64)


class Records:
    """Some records that lie one behind the other, as columns; each is made when it is asked for."""

    def __init__(self, data: bytes, starts: Ints) -> None:
        """Finds where each field of each record lies; Malformed unless all lengths agree."""
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        begin, end = starts[:-1], starts[1:]
        self._head = head = self._gather(begin, _HEAD)
        self._born_wide, self._store_wide, inner = (
            (head["sysFlag"] & flag) != 0
            for flag in (SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.INNER_BATCH)
        )
        self._demand(~inner, "a form that is built: it is an inner batch")
        self._demand((head["magic"] == V1) | (head["magic"] == V2), "a magic that is known")
        self._born_at = begin + _HEAD.itemsize
        self._stored_at = self._born_at + 8 + 12 * self._born_wide
        self._store_at = self._stored_at + 8
        middle = self._store_at + 8 + 12 * self._store_wide
        body = middle + _MIDDLE.itemsize
        wide = (head["magic"] == V2).astype(np.int64)
        self._demand(body + wide + 3 <= end, "room for its hosts")
        self._middle = self._gather(middle, _MIDDLE)
        body_end = body + self._middle["length"]
        topic = body_end + 1 + wide
        self._demand((body_end >= body) & (topic + 2 <= end), "a body that fits")
        # Lengths are signed, as Java's are.
        narrow = self._bytes[topic - 1].view(np.int8)
        topic_end = topic + np.where(wide, self._gather(topic - 2, _SHORT), narrow)
        self._demand((topic_end >= topic) & (topic_end + 2 <= end), "a topic that fits")
        properties = topic_end + 2
        length = self._gather(topic_end, _SHORT)
        self._demand(properties + length == end, "properties up to its end")
        self._edges = (begin, body, body_end, topic, topic_end, properties, end)

    def _gather(self, at: Ints, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """What lies at these places, all of one kind."""
        windows = np.lib.stride_tricks.sliding_window_view(self._bytes, kind.itemsize)
        found: npt.NDArray[Any] = windows[at].view(kind).reshape(len(at))
        return found

    def _demand(self, holds: npt.NDArray[np.bool_], what: str) -> None:
        if not holds.all():
            row = self._head[int(np.argmin(holds))]
            raise Malformed(
                f"the record at {row['physicalOffset']} of the log (queue {row['queueId']}, offset "
                f"{row['queueOffset']}, {row['storeSize']} bytes) lacks {what}"
            )

    def batch(self, broker: str, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns; fewer rows where bodies grow beyond measure as they are decompressed."""
        made = [self._column(name, broker) for name in columns]
        rows = min(map(len, made), default=0)
        arrays = [one.slice(0, rows) for one in made]
        return pa.RecordBatch.from_arrays(arrays, list(columns)).cast(schema(columns))

    def _column(self, name: str, broker: str) -> pa.Array:
        if name in _PROPERTY:
            return self._property(_PROPERTY[name])
        own = {
            "topic": lambda: _text(self._field(3)),
            "brokerName": lambda: pa.repeat(pa.scalar(broker), len(self._head)),
            "value": self._bodies,
            "properties": lambda: self._properties[0],
            "bornHost": lambda: self._hosts(self._born_at, self._born_wide, _host),
            "storeHost": lambda: self._hosts(self._store_at, self._store_wide, _host),
            "offsetMsgId": self._offset_ids,
            "bornTimestamp": lambda: _times(self._head["bornTimestamp"]),
            "storeTimestamp": lambda: _times(self._gather(self._stored_at, _LONG)),
            "deliverTimestamp": self._deliver_times,
        }
        if name in own:
            return own[name]()
        table = self._middle if name in _MIDDLE.names else self._head  # type: ignore[operator]
        return pa.array(table[name].astype(np.int64))

    def _field(self, number: int) -> pa.Array:
        """The bytes between an edge and the next one, of every record."""
        return _between(self._edges, pa.py_buffer(self._data), number)

    def _bodies(self) -> pa.Array:
        """The bodies as they were sent."""
        stored = self._field(1)
        # An empty body is not looked into, whatever the flag says: the original does the same.
        _, body, body_end, *_ = self._edges
        packed = ((self._head["sysFlag"] & SysFlag.COMPRESSED) != 0) & (body < body_end)
        if not packed.any():
            return stored
        plain: list[bytes] = []
        total = 0
        for row in np.flatnonzero(packed).tolist():
            plain.append(self._inflate(row, stored[row].as_py()))
            total += len(plain[-1])
            if total > MOST_INFLATED // 4:  # the others make a batch of their own
                stored, packed = stored.slice(0, row + 1), packed[: row + 1]
                break
        return pc.replace_with_mask(stored, pa.array(packed), pa.array(plain, pa.binary()))

    def _inflate(self, row: int, body: bytes) -> bytes:
        head = self._head[row]
        try:
            return decompress(body, int(head["sysFlag"]), MOST_INFLATED)
        except BadCompression as error:
            raise Malformed(
                f"the body at queue {head['queueId']}, offset {head['queueOffset']} cannot be "
                f"decompressed: {error}; read the other columns without `value`"
            ) from None

    @cached_property
    def _properties(self) -> tuple[pa.Array, pa.Array, Ints]:
        return _pairs(self._field(5))

    def _property(self, name: str) -> pa.Array:
        """The value of this name in each row, null where it has none."""
        maps, names, rows = self._properties
        pairs = np.flatnonzero(names.indices.to_numpy() == names.dictionary.index(name).as_py())
        places = np.full(len(maps), -1)
        places[rows[pairs]] = pairs
        return maps.items.take(pa.array(places, mask=places < 0))

    def _hosts(
        self, at: Ints, wide: npt.NDArray[np.bool_], write: Callable[[bytes], str]
    ) -> pa.Array:
        """Hosts as text; each different one is written once."""
        # Address and port, 20 bytes of which a narrow one fills 8, and whether it is wide.
        hosts = self._gather(at, np.dtype(f"V{_WIDE}")).view(np.uint8).reshape(-1, _WIDE)
        hosts[~wide, 8:] = 0
        keys = _alike(np.column_stack([hosts, wide]).astype(np.uint8)).dictionary_encode()
        texts = [
            write(key[:_WIDE] if key[_WIDE] else key[:8]) for key in keys.dictionary.to_pylist()
        ]
        return pa.array(texts, pa.string()).take(keys.indices)

    def _offset_ids(self) -> pa.Array:
        """Store host and place in the log, in hexadecimal digits (spec 03 ch. 3.8)."""
        hosts = self._hosts(self._store_at, self._store_wide, lambda host: host.hex().upper())
        places = self._head["physicalOffset"].copy().view(np.uint8).reshape(-1, 8)
        digits = _alike(_HEX[places]).cast(pa.binary()).cast(pa.string())
        return pc.binary_join_element_wise(hosts, digits, "")

    def _deliver_times(self) -> pa.Array:
        """When a timer was or is due; what is no number there is no time."""
        texts = [self._property(f"TIMER_{name}_MS") for name in ("OUT", "DELIVER")]
        numbers = [
            pc.if_else(pc.match_substring_regex(text, r"^\d{1,15}$"), text, None).cast(pa.int64())
            for text in texts
        ]
        found = pc.coalesce(*numbers)
        times = _times(found.fill_null(0).to_numpy())
        return pc.if_else(found.is_valid(), times, None)


def _pairs(strings: pa.Array) -> tuple[pa.Array, pa.Array, Ints]:
    """The pairs that property strings hold (spec 03 ch. 3.4), as a map for each row; and the name
    and the row of each pair.
    """
    _, offsets, data = strings.buffers()
    edges = np.frombuffer(offsets, np.int32, len(strings) + 1).astype(np.int64)
    text = np.frombuffer(data or b"", np.uint8, edges[-1])
    # A pair ends at a 0x02 or at the end of its string, where the last 0x02 may be missing.
    parted = np.flatnonzero(text == 2)
    ends = np.concatenate([edges[1:], parted])
    order = np.argsort(ends, kind="stable")  # the end of a string before a 0x02 behind it
    following = np.concatenate([edges[1:], parted + 1])[order]
    ends, begins = ends[order], np.append(0, following[:-1])
    # A name ends at the first 0x01; a value may hold more of them.
    marks = np.append(np.flatnonzero(text == 1), len(text))
    divides = marks[np.searchsorted(marks, begins)] if len(ends) else ends
    sound = (divides > begins) & (divides < ends - 1)
    begins, divides, ends = begins[sound], divides[sound], ends[sound]
    cuts = (begins, divides, divides + 1, ends)
    names, values = (_text(_between(cuts, pa.py_buffer(text), place)) for place in (0, 2))
    # Of equal names in a row the last counts, as the original has it.
    rows = np.searchsorted(edges, begins, "right") - 1
    encoded = names.dictionary_encode()
    pairs = rows * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
    order = np.argsort(pairs, kind="stable")
    kept = np.sort(order[np.diff(pairs[order], append=-1) != 0], kind="stable")
    encoded, rows = encoded.take(kept), rows[kept]
    starts = np.searchsorted(rows, np.arange(len(strings) + 1)).astype(np.int32)
    names = encoded.dictionary_decode()
    return pa.MapArray.from_arrays(pa.array(starts), names, values.take(kept)), encoded, rows


def _alike(rows: npt.NDArray[Any]) -> pa.Array:
    """The bytes of each row, all of one length, without a copy."""
    kind = pa.binary(rows[0].nbytes)
    return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])


def _between(edges: Sequence[Ints], data: pa.Buffer, number: int) -> pa.Array:
    """The bytes between one edge and the next, in each row; the rows follow each other."""
    width = len(edges)
    every = np.full(width * len(edges[0]) + 1, data.size, np.int32)
    for place, edge in enumerate(edges):
        every[place:-1:width] = edge
    count = len(every) - 1
    pieces = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(every), data])
    return pieces.take(pa.array(np.arange(number, count, width)))


def _text(found: pa.Array) -> pa.Array:
    """Bytes as text; bytes that are no UTF-8 become U+FFFD."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return _mended(found)


def _mended(found: pa.Array) -> pa.Array:
    return pa.array([str(one, "utf-8", "replace") for one in found.to_pylist()], pa.string())


def _times(ms: npt.NDArray[Any]) -> pa.Array:
    """Milliseconds as timestamps; what no calendar has becomes its first or last moment."""
    us = np.clip(ms.astype(np.int64), _FIRST_MS, _LAST_MS) * 1000
    return pa.array(us).view(pa.timestamp("us", "UTC"))


def _host(packed: bytes) -> str:
    return str(Address(*host_text(packed)))
