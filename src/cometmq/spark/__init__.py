"""The data pipeline on Spark: the source `rocketmq`, and a session that has all it needs."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cometmq.runtime import CometError
from cometmq.spark.java import NoJava, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NoJava", "SparkMissing", "register", "session"]

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    # Over loopback TCP every Python task waits about 40 ms for nothing (spec 09 ch. 20, item 9).
    "spark.python.unix.domain.socket.enabled": "true",
}


class SparkMissing(CometError):
    """PySpark, or what it needs to be of use here, is not installed."""


def register(spark: "SparkSession") -> None:
    """Makes `spark.read.format("rocketmq")` known to a session."""
    _check_installed()
    from cometmq.spark.source import DefaultSource

    spark.dataSource.register(DefaultSource)


def session(
    master: str = "local[*,4]", *, memory: str = "1g", config: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session that knows the source, on a Java that is found or brought along.

    `config` comes over what we set. A session that exists already is taken as it is.
    """
    _check_installed()
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        builder = SparkSession.builder.master(master).config("spark.driver.memory", memory)
        for name, value in {**DEFAULTS, **(config or {})}.items():
            builder = builder.config(name, value)
        with _environment():
            spark = builder.getOrCreate()
    register(spark)
    return spark


def _check_installed() -> None:
    missing = [name for name in ("pyspark", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise SparkMissing(
            f"cometmq.spark needs the extra 'spark', {' and '.join(missing)} not found: "
            "pip install 'cometmq[spark]'"
        )


@contextmanager
def _environment() -> Iterator[None]:
    """What Spark's processes read as they start, and nobody else should see."""
    # Without this Spark runs its workers by the python3 of PATH, not by the one that runs us.
    needed = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    needed = {name: os.environ.get(name, value) for name, value in needed.items()}
    needed["JAVA_HOME"] = str(java_home(os.environ))
    before = {name: os.environ[name] for name in needed if name in os.environ}
    os.environ.update(needed)
    try:
        yield
    finally:
        for name in needed:
            del os.environ[name]
        os.environ.update(before)
