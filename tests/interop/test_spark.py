"""The source `rocketmq` on a real Spark and the original: what was sent is what is read."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import Served
from tests.spark.conftest import spark as spark
from tests.spark.rows import rows_of
from tests.spark.sent import check, has_ipv6, send_all


@pytest.mark.spark
def test_every_column_of_a_hundred_thousand_messages_on_the_original_is_what_was_sent(
    spark: Any, original: Served, record_property: Callable[[str, object], None]
) -> None:
    # It listens on every address: half of the messages come from an IPv6 one.
    also = (f"[::1]:{original.broker.rpartition(':')[2]}",) if has_ipv6() else ()
    where = (original.namesrv, original.broker, "Everything", 100_000)
    sent = asyncio.run(send_all(*where, also=also))
    began = time.perf_counter()
    options = {"namesrv": original.namesrv, "topics": "Everything"}
    table = spark.read.format("rocketmq").options(**options).load().toArrow()
    record_property("read_s", round(time.perf_counter() - began, 2))
    check(rows_of([table]), sent)
