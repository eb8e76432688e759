"""Both kernels side by side, for the tests that run on each and those that compare them."""

import os
import struct
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cometmq.kernel import MODULES, Malformed
from cometmq.kernel.pure.records import V2, Record


class Kernel(SimpleNamespace):
    """The five modules of one kernel under their names."""

    name: str
    frames: ModuleType
    headers: ModuleType
    records: ModuleType
    entries: ModuleType
    replies: ModuleType


def load(name: str) -> Kernel:
    """A kernel; where the compiled one was not built its tests are skipped, but never in CI."""
    try:
        modules = {each: import_module(f"cometmq.kernel.{name}.{each}") for each in MODULES}
    except ImportError:
        if os.environ.get("CI") or os.environ.get("COMETMQ_SANITIZE"):
            raise
        pytest.skip("the compiled kernel is not built")
    return Kernel(name=name, **modules)


SEND_FIELDS = (
    *("code", "codec", "opaque", "flag", "version", "group", "topic", "default_topic"),
    *("default_topic_queues", "queue_id", "sys_flag", "born_ms", "message_flag", "properties"),
    *("reconsume_times", "unit_mode", "max_reconsume_times", "batch", "body"),
    *("marks", "tag_hash", "unique_key", "position", "size", "queue_offset", "end"),
    "prepared_offset",
)
PULL_FIELDS = ("code", "codec", "opaque", "flag", "version", "fields")
RECORD_FIELDS = (
    *("position", "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "sys_flag"),
    *("born_ms", "born_host", "store_ms", "store_host", "reconsume_times", "prepared_offset"),
    *("body", "topic", "properties"),
)
FIELDS = {
    "Send": SEND_FIELDS,
    "Pull": PULL_FIELDS,
    "Record": RECORD_FIELDS,
    "Frame": ("codec", "header", "body"),
}


def encode(record: Record) -> bytes:
    """The bytes of a record with the format, position and CRC that it names."""
    topic, properties = record.topic.encode(), record.properties
    name = struct.pack(">h" if record.magic == V2 else ">b", len(topic)) + topic
    rest = record.born_host + struct.pack(">q", record.store_ms) + record.store_host
    numbers = record.reconsume_times, record.prepared_offset, len(record.body)
    rest += struct.pack(">iqi", *numbers) + record.body + name
    rest += struct.pack(">h", len(properties)) + properties
    head = *record[2:7], record.position, *record[7:9]
    return struct.pack(">iIiiiqqiq", 48 + len(rest), *head) + rest


def plain(value: Any) -> Any:
    """What a kernel gave, in a form that compares across kernels."""
    kind = type(value).__name__
    if kind in FIELDS:
        return (kind, *(plain(getattr(value, name)) for name in FIELDS[kind]))
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return (kind, value)


def outcome(function: Any, *arguments: Any) -> Any:
    """The result of a call in plain form, or that it was Malformed and what came before that."""
    try:
        return plain(function(*arguments))
    except Malformed as fault:
        return ("Malformed", plain(fault.before))
