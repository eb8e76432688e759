"""A store of a million messages: `fill DIRECTORY` makes it and dies, `start DIRECTORY` opens it."""

import asyncio
import json
import os
import signal
import sys
import time

from cometmq.kernel import headers
from cometmq.runtime import Clock, LocalThreads
from cometmq.store import LocalDisk, Store, StoreSettings
from cometmq.testing import Node
from tests.recording import Recording

MESSAGES = 1_000_000
QUEUES = 8
A_TURN = 2_000
FILE_SIZE = 4 << 20
STORE = {"mapped_file_size_commit_log": FILE_SIZE}
HOST = b"\x7f\x00\x00\x01\x00\x00\xc3\x50"


async def fill(directory: str) -> None:
    """Stages what a broker would, 2,000 messages a turn, and is killed when all are there."""
    settings = StoreSettings(**STORE)
    store = await Store.open(
        settings, disk=LocalDisk(directory), threads=LocalThreads(), clock=Clock()
    )
    queues = [store.queue("orders", number) for number in range(QUEUES)]
    body = b"x" * 70
    staged = 0
    while staged < MESSAGES:
        for _ in range(A_TURN):
            send = headers.Send(topic="orders", body=body, properties=b"", born_ms=1)
            store.stage(send, queues[staged % QUEUES], HOST, b"TAGS\x01a\x02")
            staged += 1
        await asyncio.sleep(0)
        while store.is_busy or store.synced.position < store.written.position:
            await asyncio.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


async def start(directory: str) -> None:
    """Starts a node there and tells what that took."""
    recording = Recording()
    began = time.perf_counter()
    async with Node(disk=recording.of(LocalDisk(directory)), store=STORE) as node:
        seconds = time.perf_counter() - began
        store = node.broker.store
        read = {
            path
            for _, name, path in recording.calls
            if name in ("pread", "pread_now") and path.startswith("commitlog/")
        }
        with open("/proc/self/statm") as file:
            memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        found = {
            "messages": sum(store.queue("orders", number).max_offset for number in range(QUEUES)),
            "files": len(os.listdir(f"{directory}/commitlog")),
            "read": len(read),
            "memory": memory,
            "seconds": seconds,
        }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run({"fill": fill, "start": start}[sys.argv[1]](sys.argv[2]))
