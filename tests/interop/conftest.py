"""Fixtures of tests that need the original: its jars, its servers, and ours beside them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.peer import VERSION, Original, Peer, PeerUnavailable
from tests.processes import start_node


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("interop")


def install(version: str) -> Peer:
    """The original of that version, or the test is skipped; in CI it is a failure."""
    try:
        return Peer.install(version)
    except PeerUnavailable as missing:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs the original: {missing}")
        pytest.skip(f"the original is not to be had here: {missing}")


@pytest.fixture(scope="session")
def peer() -> Peer:
    """The original that interop means unless it says otherwise."""
    return install(VERSION)


@dataclass(frozen=True)
class Served:
    """A name server with one broker, whoever runs them."""

    who: str
    namesrv: str
    broker: str


@pytest.fixture(scope="session")
def original(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The original's name server and broker, once for the whole run: use topics of your own."""
    with Original(peer, tmp_path_factory.mktemp("original")) as servers:
        namesrv = servers.start_namesrv()
        yield Served("original", namesrv, servers.start_broker())


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Our node, as `cometmq up` runs it, once for the whole run: use topics of your own."""
    node = start_node(tmp_path_factory.mktemp("ours") / "data")
    yield Served("ours", node.namesrv, node.broker)
    assert node.process.stop() == 0, node.process.errors


@pytest.fixture(params=["ours", "original"])
def served(request: pytest.FixtureRequest) -> Served:
    """Ours and the original in turn: a test of this fixture says what both do."""
    found: Served = request.getfixturevalue(request.param)
    return found
