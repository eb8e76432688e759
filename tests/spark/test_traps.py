"""What PySpark 4.3 does to a source that reads in batches: each test fails when a later one changes
it (spec 09 ch. 23, traps 2-7, 15, 35, 36, 46, 47; trap 33, 40 and 41 in test_source.py).
"""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

PAIRS = pa.map_(pa.string(), pa.string())
MOMENT = pa.timestamp("us", "UTC")


def batch(values: list[Any], kind: Any = None) -> Any:
    return pa.record_batch([pa.array(values, kind or pa.int32())], names=["a"])


READS: dict[str, Any] = {
    "good": lambda: iter([batch([1])]),
    "a list": lambda: [batch([1])],
    "wider numbers": lambda: iter([batch([1], pa.int64())]),
    "another name": lambda: iter([batch([1]).rename_columns(["b"])]),
    "a table": lambda: iter([pa.Table.from_batches([batch([1, 2])])]),
    "no type": lambda: iter([batch([], pa.null())]),
    "empty": lambda: iter([batch([])]),
    "text": lambda: iter([batch(["x"], pa.large_string())]),
    "later": lambda: iter([batch([1]), batch(["x"], pa.string())]),
    "pairs": lambda: iter([batch([[("k", "first"), ("k", "last")]], PAIRS)]),
    "moment": lambda: iter([batch([0], MOMENT)]),
}
"""What a task yields, by name."""


class Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = dict(options)
        self.planned = False

    def partitions(self) -> Any:
        self.planned = True
        return {
            "one": [InputPartition(0)],
            "none": [],
            "a tuple": (InputPartition(0),),
        }[self.options.get("plan", "one")]

    def read(self, partition: InputPartition) -> Any:
        if "state" in self.options:
            return iter([batch([int(self.planned)])])
        if self.options.get("plan") == "none":
            assert partition.value is None
        return READS[self.options.get("read", "good")]()


class Pushing(Reader):
    def pushFilters(self, filters: Any) -> Iterator[Any]:
        yield from filters


class Trap(DataSource):
    @classmethod
    def name(cls) -> str:
        return "trap"

    def schema(self) -> Any:
        if "ddl" in self.options:
            return StructType.fromDDL("a INT")
        return f"a {self.options.get('type', 'INT')}"

    def reader(self, schema: Any) -> Reader:
        return (Pushing if "push" in self.options else Reader)(self.options)


@pytest.fixture(scope="module")
def trap(spark: Any) -> Any:
    """Reads this source with such options."""
    spark.dataSource.register(Trap)
    return lambda **options: spark.read.format("trap").options(**options).load()


def test_rows_arrive(trap: Any) -> None:
    assert [row.a for row in trap().collect()] == [1]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"read": "wider numbers"}, "DATA_SOURCE_RETURN_SCHEMA_MISMATCH"),
        ({"read": "another name"}, "DATA_SOURCE_RETURN_SCHEMA_MISMATCH"),
        ({"read": "no type"}, "DATA_SOURCE_RETURN_SCHEMA_MISMATCH"),
        ({"read": "text", "type": "STRING"}, "DATA_SOURCE_RETURN_SCHEMA_MISMATCH"),
        ({"read": "a table"}, "DATA_SOURCE_RETURN_SCHEMA_MISMATCH"),
        ({"read": "a list"}, "DATA_SOURCE_INVALID_RETURN_TYPE"),
        ({"plan": "a tuple"}, "DATA_SOURCE_TYPE_MISMATCH"),
        ({"push": "1"}, "DATA_SOURCE_PUSHDOWN_DISABLED"),
        ({"ddl": "1"}, "PYTHON_DATA_SOURCE_ERROR"),
    ],
    ids=lambda given: " ".join(given.values()) if isinstance(given, dict) else "",
)
def test_what_spark_refuses(trap: Any, options: dict[str, str], error: str) -> None:
    with pytest.raises(Exception, match=error):
        trap(**options).collect()


def test_only_the_first_batch_is_checked(trap: Any) -> None:
    with pytest.raises(Exception) as caught:
        trap(read="later").collect()
    assert "DATA_SOURCE_" not in str(caught.value)


def test_an_empty_plan_is_a_task_with_a_partition_of_nothing(trap: Any) -> None:
    assert [row.a for row in trap(plan="none").collect()] == [1]


def test_the_reader_that_reads_is_not_the_one_that_planned(trap: Any) -> None:
    assert [row.a for row in trap(state="1").collect()] == [0]


def test_times_are_naive_in_rows_and_not_in_arrow(trap: Any) -> None:
    frame = trap(read="moment", type="TIMESTAMP")
    assert frame.toArrow().schema.field("a").type == MOMENT
    assert frame.collect()[0].a.tzinfo is None
    assert frame.toArrow().column("a")[0].as_py().tzinfo is not None
    assert frame.toArrow().column("a")[0].as_py().timestamp() == 0
    assert frame.collect()[0].a == datetime.datetime.fromtimestamp(0)


def test_a_map_with_a_name_twice_passes(trap: Any) -> None:
    frame = trap(read="pairs", type="MAP<STRING,STRING>")
    assert frame.collect()[0].a == {"k": "last"}
    assert frame.selectExpr("a['k'] AS k").collect()[0].k == "first"


def test_an_empty_batch_of_the_right_type_passes(trap: Any) -> None:
    assert trap(read="empty").collect() == []
