"""The pytest plugin: the fixture `cometmq_node`, a node in memory that runs while the test does."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from cometmq.testing.node import Node


@pytest.fixture
def cometmq_node() -> Iterator[Node]:
    """A whole node in memory on free ports, on a loop and a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="cometmq-node")
    thread.start()
    try:
        node = Node()
        asyncio.run_coroutine_threadsafe(node.start(), loop).result()
        yield node
        asyncio.run_coroutine_threadsafe(node.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
