"""The source `rocketmq` on a real Spark and our node: what was sent is what is read."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cometmq import Message, Producer
from cometmq.spark.columns import COLUMNS
from tests.processes import NodeUp, free_port, start_node
from tests.spark.rows import rows_of
from tests.spark.sent import check, has_ipv6, send_all


def read(spark: Any, namesrv: str, topics: str, **options: str) -> Any:
    """The frame of some topics."""
    options = {"namesrv": namesrv, "topics": topics, **options}
    return spark.read.format("rocketmq").options(**options).load()


async def send(namesrv: str, *messages: Message) -> None:
    async with Producer(namesrv, group="sender") as producer:
        for message in messages:
            await producer.send(message)


def test_every_column_of_a_hundred_thousand_messages_is_what_was_sent(
    spark: Any, node: NodeUp, record_property: Callable[[str, object], None]
) -> None:
    sent = asyncio.run(send_all(node.namesrv, node.broker, "Everything", 100_000))
    began = time.perf_counter()
    table = read(spark, node.namesrv, "Everything").toArrow()
    record_property("read_s", round(time.perf_counter() - began, 2))
    record_property("read_mb", table.nbytes >> 20)
    check(rows_of([table]), sent)


@pytest.mark.spec("PIPE-5")
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_hosts_of_a_node_on_ipv6_stand_in_brackets(spark: Any, tmp_path: Path) -> None:
    node = start_node(tmp_path / "data", broker=f"[::1]:{free_port()}")
    try:
        sent = asyncio.run(send_all(node.namesrv, node.broker, "Wide", 2_000))
        table = read(spark, node.namesrv, "Wide").toArrow()
    finally:
        node.process.stop()
    rows = rows_of([table])
    check(rows, sent)
    assert {row["storeHost"] for row in rows} == {node.broker}
    assert {len(row["offsetMsgId"]) for row in rows} == {56}


@pytest.mark.spec("PIPE-2")
def test_the_schema_is_the_table_of_the_columns(spark: Any, node: NodeUp) -> None:
    frame = read(spark, node.namesrv, "any")
    found = {field.name: field.dataType.simpleString().upper() for field in frame.schema}
    assert list(found.items()) == list(COLUMNS.items())
    assert all(field.nullable for field in frame.schema)


def test_several_topics_and_some_columns_come_in_the_order_of_the_table(
    spark: Any, node: NodeUp
) -> None:
    messages = [Message(topic, b"x", keys=["k"]) for topic in ("One", "Two", "Two")]
    asyncio.run(send(node.namesrv, *messages))
    frame = read(spark, node.namesrv, "One, Two", Columns="keys,topic")
    assert frame.columns == ["topic", "keys"]
    assert sorted(map(tuple, frame.collect())) == [("One", "k"), ("Two", "k"), ("Two", "k")]


def test_spark_finds_the_source_by_itself(spark: Any, node: NodeUp) -> None:
    """A second session of the same Spark was told nothing of it."""
    asyncio.run(send(node.namesrv, Message("Found", b"x")))
    assert read(spark.newSession(), node.namesrv, "Found").count() == 1


def test_a_topic_without_messages_has_no_rows(spark: Any, node: NodeUp) -> None:
    """Spark makes a task of an empty plan (trap 6 of spec 09 ch. 23); it reads nothing."""
    asyncio.run(send_all(node.namesrv, node.broker, "Nothing", 0))
    frame = read(spark, node.namesrv, "Nothing")
    assert frame.rdd.getNumPartitions() == 1
    assert frame.collect() == []


def test_what_is_wrong_with_the_options_is_said_all_at_once(spark: Any, node: NodeUp) -> None:
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        read(spark, node.namesrv, "a,%RETRY%g,a", columns="topic,colour", startingOffset="1")
    for fault in (
        "'startingoffset' is not known here",
        "topic '%RETRY%g' is one of the system",
        "there is no column 'colour'",
        "'topics' names something twice",
        "Options are namesrv, topics, columns",
    ):
        assert fault in str(caught.value)


def test_an_unknown_topic_says_where_it_was_looked_for(spark: Any, node: NodeUp) -> None:
    with pytest.raises(
        Exception, match=f"no route for topic 'Missing': name server {node.namesrv}"
    ):
        read(spark, node.namesrv, "Missing").count()


@pytest.mark.spec("PIPE-105")
def test_workers_run_by_the_interpreter_that_runs_us(spark: Any) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    run_by = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert run_by == [sys.executable]
