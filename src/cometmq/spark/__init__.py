"""The data pipeline on Spark: the source `rocketmq`, and a session that has all it needs."""

from typing import TYPE_CHECKING

from cometmq.runtime import CometError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkMissing", "register", "session"]


class SparkMissing(CometError):
    """PySpark or what it needs is not installed."""


def register(spark: "SparkSession") -> None:
    """Makes `spark.read.format("rocketmq")` known to a session that exists."""
    try:
        from cometmq.spark.source import DefaultSource
    except ImportError as missing:
        raise SparkMissing(
            f"cometmq.spark needs the extra 'spark': pip install 'cometmq[spark]' ({missing})"
        ) from missing
    spark.dataSource.register(DefaultSource)
