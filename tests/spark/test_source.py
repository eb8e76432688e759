"""The source `rocketmq` on a real Spark and our node: what was sent is what is read."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cometmq import Message, Producer
from tests.processes import NodeUp, free_port, start_node
from tests.spark.rows import rows_of
from tests.spark.sent import check, send_all

MESSAGES = 100_000


def read(spark: Any, namesrv: str, topics: str, **options: str) -> Any:
    """The frame of some topics."""
    options = {"namesrv": namesrv, "topics": topics, **options}
    return spark.read.format("rocketmq").options(**options).load()


def test_every_column_of_a_hundred_thousand_messages_is_what_was_sent(
    spark: Any, node: NodeUp, record_property: Callable[[str, object], None]
) -> None:
    sent = asyncio.run(send_all(node.namesrv, node.broker, "Everything", MESSAGES))
    began = time.perf_counter()
    table = read(spark, node.namesrv, "Everything").toArrow()
    record_property("read_s", round(time.perf_counter() - began, 2))
    record_property("read_mb", table.nbytes >> 20)
    check(rows_of([table]), sent)
