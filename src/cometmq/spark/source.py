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
from cometmq.spark.columns import COLUMNS
from cometmq.spark.reading import Range, chunks, ranges

if TYPE_CHECKING:
    import pyarrow as pa

KNOWN = {
    "namesrv": "the name servers, as '127.0.0.1:9876' or several parted by ';'",
    "topics": "one topic, or several parted by commas",
    "columns": "some of the columns, parted by commas; without it there are all",
}


@dataclass(frozen=True)
class Options:
    """What the user asks for."""

    namesrv: str
    topics: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Options":
        """Reads Spark's options; BadSetting names all that is wrong with them at once."""
        values = {"columns": ",".join(COLUMNS)} | {one.lower(): given[one] for one in given}
        listed = {one: _listed(values.get(one, "")) for one in KNOWN}
        topics, columns = listed["topics"], listed["columns"]
        faults = [
            *(f"{one!r} is not known here" for one in values if one not in KNOWN),
            *(f"{one!r} is missing: {KNOWN[one]}" for one in KNOWN if not listed[one]),
            *(fault for topic in topics if (fault := _topic_fault(topic))),
            *(f"there is no column {one!r}" for one in columns if one not in COLUMNS),
            *(
                f"{one!r} names something twice"
                for one, parts in listed.items()
                if len(set(parts)) < len(parts)
            ),
        ]
        if faults:
            raise BadSetting(
                f"[PIPE_OPTION_VALUE] {'; '.join(faults)}. Options are {', '.join(KNOWN)}; columns "
                f"are {', '.join(COLUMNS)}"
            )
        return cls(values["namesrv"], topics, tuple(one for one in COLUMNS if one in columns))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _topic_fault(topic: str) -> str | None:
    if fault := names.topic_fault(topic):
        return f"topic {topic!r}: {fault}"
    if names.is_system_topic(topic) or topic.startswith((names.RETRY, names.DLQ)):
        return f"topic {topic!r} is one of the system, and reading those is not built yet"
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
        return "rocketmq"

    def schema(self) -> str:
        # A StructType would need a context, a text needs none.
        columns = Options.read(self.options).columns
        return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)

    def reader(self, schema: object) -> "Reader":
        return Reader(Options.read(self.options))


@dataclass(frozen=True)
class Reader(DataSourceReader):
    """A batch: from the earliest message to what is the latest when it is planned."""

    options: Options

    def partitions(self) -> list[Task]:
        """One task a queue."""
        found = asyncio.run(ranges(self.options.namesrv, self.options.topics))
        return [Task(self.options, one) for one in found]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The messages of one task; for an empty plan Spark makes a task of nothing."""
        if not isinstance(partition, Task):
            return
        # Spark looks for sources, and plans, in processes that need nothing so heavy.
        from cometmq.spark.decoder import batches

        _freeze()
        options, wanted = partition.options, partition.range
        with asyncio.Runner() as runner:
            coming = chunks(options.namesrv, wanted)
            try:
                while data := runner.run(_next(coming)):
                    yield from batches(data, wanted.queue.broker, options.columns)
            finally:
                runner.run(coming.aclose())


async def _next(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


@cache
def _freeze() -> None:
    """PySpark collects garbage after every task: what was imported need not be looked at again."""
    gc.collect()
    gc.freeze()
