"""The pytest plugin: the fixture `cometmq_node`, a node in memory that runs while the test does."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from cometmq.testing.node import Node


@pytest.fixture
def cometmq_node() -> Iterator[Node]:
    """A whole node in memory on free ports, on a loop and a thread of its own."""
    started = threading.Event()
    failures: list[BaseException] = []
    loops: list[asyncio.AbstractEventLoop] = []
    stops: list[asyncio.Event] = []
    node: list[Node] = []

    async def live() -> None:
        loops.append(asyncio.get_running_loop())
        stops.append(asyncio.Event())
        async with Node() as running:
            node.append(running)
            started.set()
            await stops[0].wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            failures.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="cometmq-node")
    thread.start()
    started.wait()
    if failures:
        raise failures[0]
    yield node[0]
    loops[0].call_soon_threadsafe(stops[0].set)
    thread.join()
    if failures:
        raise failures[0]
