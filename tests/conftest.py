"""What every test has: soak mode, spec ids in the report, the fixture of a node in a process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import NodeUp, start_node


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="the long forms of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        ids = [each for marker in item.iter_markers("spec") for each in marker.args]
        if ids:
            item.user_properties.append(("spec", " ".join(ids)))
    if not config.getoption("soak"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        if slow:
            config.hook.pytest_deselected(items=slow)
            items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Is this the long run?"""
    return bool(request.config.getoption("soak"))


@pytest.fixture
def node_up(tmp_path: Path) -> Iterator[Callable[..., NodeUp]]:
    """Start nodes as users do, `node_up("--set", "key=value", kernel="pure")`."""
    started: list[NodeUp] = []

    def start(*options: str, data: str = "data", kernel: str = "") -> NodeUp:
        started.append(start_node(tmp_path / data, options=options, kernel=kernel))
        return started[-1]

    yield start
    for node in started:
        node.process.stop()
