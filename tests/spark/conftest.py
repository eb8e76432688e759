"""One Spark session for all tests, on the Java from PyPI, with all that it writes apart."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT, NodeUp, start_node


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark with two cores; a second one of these fixtures gets the same."""
    pytest.importorskip("pyspark")
    from cometmq.spark import session
    from cometmq.spark.java import shim

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("COMETMQ_JAVA_HOME", str(shim(os.environ)))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # What the workers import: the package, and the sources that tests make.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        config = {
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": "2",
        }
        running = session("local[2]", config=config)
        yield running
        running.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeUp]:
    """Our node, once for all: use topics of your own."""
    started = start_node(tmp_path_factory.mktemp("node") / "data")
    yield started
    started.process.stop()
