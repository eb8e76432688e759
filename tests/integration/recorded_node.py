"""A node on a directory under a recording seam: `python recorded_node.py DIRECTORY RECORD`."""

import asyncio
import json
import sys
from pathlib import Path

from cometmq.message import Message
from cometmq.store import LocalDisk
from cometmq.testing import Node
from tests.recording import Recording

SENDS = 60


async def life(recording: Recording, directory: str) -> None:
    """A start, sends over several log files, a queue read from its beginning, a clean stop."""
    store = {"mapped_file_size_commit_log": 16 << 10, "mapped_file_size_consume_queue": 400}
    broker = {"flush_consumer_offset_interval": 100}
    disk = recording.of(LocalDisk(directory))
    async with Node(disk=disk, store=store, broker=broker) as node:
        await node.make_topic("orders", 2)
        async with node.producer() as producer:
            for number in range(SENDS):
                await producer.send(Message("orders", b"%d" % number * 300))
        async with node.consumer({"orders": "*"}) as consumer:
            for _ in range(SENDS):
                await anext(consumer)


def main(directory: str, record: str) -> None:
    """Two lives: one on an empty directory, one that recovers it."""
    recording = Recording()
    asyncio.run(life(recording, directory))
    asyncio.run(life(recording, directory))
    Path(record).write_text(json.dumps(recording.calls))


if __name__ == "__main__":
    main(*sys.argv[1:])
