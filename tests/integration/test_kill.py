"""kill -9 of a real node under load: nothing that was acknowledged is missing."""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from cometmq import Consumer, Message, Producer
from cometmq.runtime import CometError
from tests.processes import NodeUp, start_node

ROUNDS = int(os.environ.get("COMETMQ_KILLS", "3"))
SENDERS = 16


async def load(namesrv: str, acknowledged: set[bytes], round_: int, enough: asyncio.Event) -> None:
    """Sends until the node dies; what it acknowledged is remembered."""

    async def send(producer: Producer, sender: int) -> None:
        n = 0
        while True:
            body = b"%d-%d-%d" % (round_, sender, n)
            n += 1
            try:
                await producer.send(Message("load", body + b" " * (n % 700)), timeout_ms=2_000)
            except CometError:
                return
            acknowledged.add(body)
            if n == 60:
                enough.set()

    async with Producer(namesrv, group="load", tries=1) as producer:
        await asyncio.gather(*(send(producer, n) for n in range(SENDERS)))


async def load_and_kill(node: NodeUp, acknowledged: set[bytes], round_: int) -> None:
    enough = asyncio.Event()
    loading = asyncio.ensure_future(load(node.namesrv, acknowledged, round_, enough))
    await asyncio.wait_for(enough.wait(), 60)
    node.process.kill()
    await loading
    assert (node.data / "abort").exists()


async def read_all(namesrv: str, wanted: set[bytes], group: str) -> Counter[bytes]:
    found, missing = Counter[bytes](), set(wanted)
    async with asyncio.timeout(60):
        async with Consumer(
            namesrv, group=group, subscribe={"load": "*"}, start="earliest"
        ) as consumer:
            async for message in consumer:
                body = message.body.rstrip()
                found[body] += 1
                missing.discard(body)
                if not missing:
                    break
    return found


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("kernel", ["", "pure"])
def test_nothing_acknowledged_is_missing_after_kill_9(
    tmp_path: Path, flush: str, kernel: str
) -> None:
    if kernel == "pure" and flush == "ASYNC_FLUSH":
        pytest.skip("one smoke of the plain kernel is enough")
    options = ["--set", f"flushDiskType={flush}", "--set", "mappedFileSizeCommitLog=1048576"]
    acknowledged: set[bytes] = set()
    node = start_node(tmp_path / "data", options=options, kernel=kernel)
    for number in range(1 if kernel == "pure" else ROUNDS):
        asyncio.run(load_and_kill(node, acknowledged, number))
        node = start_node(node.data, node.namesrv, node.broker, options, kernel=kernel)
        found = asyncio.run(read_all(node.namesrv, acknowledged, f"reader-{number}"))
        assert acknowledged <= set(found)
        assert max(found.values()) == 1
    assert len(acknowledged) > 60
    assert node.process.stop() == 0
