"""The data source `rocketmq` of Spark: its options, its plan and its tasks (spec 09 ch. 2-7)."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cometmq.message import names
from cometmq.runtime import BadSetting
from cometmq.spark.columns import COLUMNS, ddl
from cometmq.spark.reading import Range, Reading, pulled

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Options:
    """What the user asks for."""

    namesrv: str
    topics: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Options":
        """Reads Spark's options; BadSetting names all that is wrong with them at once."""
        values = {name.lower(): value for name, value in given.items()}
        faults = [
            f"option {name!r} is not known; this source takes namesrv, topics and columns"
            for name in given
            if name.lower() not in ("namesrv", "topics", "columns")
        ]
        namesrv = values.get("namesrv", "")
        if not namesrv.strip():
            faults.append("option 'namesrv' is missing; write it as '127.0.0.1:9876'")
        topics = _listed(values.get("topics", ""))
        if not topics:
            faults.append("option 'topics' is missing; name one topic, or several with commas")
        faults += [fault for topic in topics if (fault := _topic_fault(topic))]
        columns = _listed(values["columns"]) if "columns" in values else tuple(COLUMNS)
        faults += [
            f"option 'columns': there is no {name!r}; there are {', '.join(COLUMNS)}"
            for name in columns
            if name not in COLUMNS
        ]
        if not columns:
            faults.append("option 'columns' names none; leave it out to have all of them")
        faults += [
            f"option {option!r} names {name!r} twice"
            for option, listed in (("topics", topics), ("columns", columns))
            for name in dict.fromkeys(listed)
            if listed.count(name) > 1
        ]
        if faults:
            raise BadSetting("; ".join(faults))
        return cls(namesrv, topics, tuple(name for name in COLUMNS if name in columns))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _topic_fault(topic: str) -> str | None:
    if fault := names.topic_fault(topic):
        return f"option 'topics', {topic!r}: {fault}"
    if names.is_system_topic(topic) or topic.startswith((names.RETRY, names.DLQ)):
        return f"option 'topics': {topic!r} is of the system; reading such topics is not built yet"
    return None


@dataclass(frozen=True)
class Task(InputPartition):
    """Everything that one task needs: nothing else of the plan is seen where it runs."""

    options: Options
    range: Range


class DefaultSource(DataSource):
    """`spark.read.format("rocketmq")`; Spark finds it under this name."""

    @classmethod
    def name(cls) -> str:
        """What users write into `format`."""
        return "rocketmq"

    def schema(self) -> str:
        """The columns that were asked for."""
        return ddl(Options.read(self.options).columns)

    def reader(self, schema: object) -> "Reader":
        """What plans and reads."""
        return Reader(Options.read(self.options))


class Reader(DataSourceReader):
    """A batch: from the earliest message to what is the latest when it is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[Task]:
        """One task a queue."""
        return [Task(self._options, one) for one in asyncio.run(self._ranges())]

    async def _ranges(self) -> list[Range]:
        async with Reading(self._options.namesrv) as reading:
            return await reading.ranges(self._options.topics)

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        """The messages of one task; for an empty plan Spark makes a task of nothing."""
        if not isinstance(partition, Task):
            return
        # Spark looks for sources, and plans, in processes that need nothing so heavy.
        from cometmq.spark import decoding

        _freeze()
        options, wanted = partition.options, partition.range
        with asyncio.Runner() as runner:
            chunks = pulled(options.namesrv, wanted)
            try:
                while data := runner.run(_next(chunks)):
                    yield from decoding.batches(data, wanted.queue.broker, options.columns)
            finally:
                runner.run(chunks.aclose())


async def _next(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


@cache
def _freeze() -> None:
    """PySpark collects garbage after every task: what was imported need not be looked at again."""
    gc.collect()
    gc.freeze()
