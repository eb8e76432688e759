"""Rows as tests compare them: what the kernel reads of a record, and what Arrow or Spark gives."""

import re
from collections.abc import Iterable
from typing import Any

from cometmq.kernel.pure.records import Record
from cometmq.message import decompress, host_text, offset_id, properties
from cometmq.net import Address

Row = dict[str, Any]

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
TIMES = ("bornTimestamp", "storeTimestamp", "deliverTimestamp")


def row_of(record: Record, broker: str) -> Row:
    """The 22 columns of a record, straight from its fields."""
    pairs = properties.parse(record.properties)
    due = [
        int(found)
        for name in ("TIMER_OUT_MS", "TIMER_DELIVER_MS")
        if re.fullmatch(r"[0-9]{1,15}", found := pairs.get(name, ""))
    ]
    return {
        "topic": record.topic,
        "brokerName": broker,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "physicalOffset": record.position,
        "msgId": pairs.get("UNIQ_KEY"),
        "offsetMsgId": offset_id(record.store_host, record.position),
        "tags": pairs.get("TAGS"),
        "keys": pairs.get("KEYS"),
        "value": record.body and decompress(record.body, record.sys_flag, 1 << 28),
        "properties": pairs,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "reconsumeTimes": record.reconsume_times,
        "bornTimestamp": within(record.born_ms),
        "storeTimestamp": within(record.store_ms),
        "deliverTimestamp": within(due[0]) if due else None,
        "bornHost": str(Address(*host_text(record.born_host))),
        "storeHost": str(Address(*host_text(record.store_host))),
        "bodyCrc": record.body_crc & 0xFFFFFFFF,
        "preparedTransactionOffset": record.prepared_offset,
        "storeSize": record.size,
    }


def within(ms: int) -> int:
    """The moment, or the nearest one that a calendar has."""
    return min(max(ms, FIRST_MS), LAST_MS)


def rows_of(batches: Iterable[Any]) -> list[Row]:
    """The rows of batches or tables: times as milliseconds, properties with each name once."""
    rows: list[Row] = []
    for batch in batches:
        columns = {}
        for name in batch.schema.names:
            column = batch.column(name)
            if name in TIMES:
                us = column.cast("int64").to_pylist()
                columns[name] = [one if one is None else one // 1000 for one in us]
            elif name == "properties":
                columns[name] = [once(pairs) for pairs in column.to_pylist()]
            else:
                columns[name] = column.to_pylist()
        rows += [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
    return rows


def once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """A map; a name in it twice is a fault, which Spark would not notice."""
    found = dict(pairs)
    assert len(found) == len(pairs), pairs
    return found
