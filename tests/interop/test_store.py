"""Our directories in the original: it opens them, finds what we stored, and mends nothing."""

import asyncio
import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from cometmq import Consumer, Message, Producer
from cometmq.protocol import fastjson
from tests.interop.peer import Peer
from tests.processes import NodeUp, start_node

# What the original says of every directory, its own included (spec 03 10.3).
USUAL = (
    "No resource file with name",
    "Load default",
    "found a illegal magic code 0x0",
    "truncate dirty logic files",
    "Maybe try to build consume queue repeatedly",
)
ADDED = {"created timerwheel", "created config/timercheck"}

Sent = dict[tuple[int, int], tuple[bytes, str]]


def ask(peer: Peer, node: NodeUp, home: Path) -> Any:
    """What the original's own classes find in a copy of the node's directory."""
    conf = node.data / "broker.conf"
    said = peer.run(home, "StoreOracle", str(node.data), "--conf", str(conf), timeout_s=300)
    found = json.loads(said)
    assert found["loaded"], found["failure"]
    strange = [w for w in found["log"]["warnings"] if not any(usual in w for usual in USUAL)]
    assert strange == []
    return found


async def fill(namesrv: str) -> Sent:
    """Single messages, batches, a compressed one, over two log files; half of them consumed."""
    sent: Sent = {}
    async with Producer(namesrv, group="shop") as producer:
        for n in range(600):
            body = b"message %d " % n + bytes(n * 3)
            tag = ("red", "blue", "green")[n % 3]
            message = Message("stored", body, tag=tag, keys=[f"k{n}"])
            receipt = await producer.send(message)
            sent[receipt.queue_id, receipt.queue_offset] = body, tag
        batch = [Message("stored", b"member %d" % n, tag="red") for n in range(10)]
        receipt = await producer.send(batch)
        for n in range(10):
            sent[receipt.queue_id, receipt.queue_offset + n] = b"member %d" % n, "red"
    async with Consumer(
        namesrv, group="half", subscribe={"stored": "*"}, start="earliest"
    ) as consumer:
        taken = 0
        async for message in consumer:
            await message.ack()
            taken += 1
            if taken == 300:
                break
    return sent


def compare(found: Any, sent: Sent) -> None:
    records = [one for one in found["commitLog"]["records"] if one["topic"] == "stored"]
    assert len(records) == len(sent)
    positions: dict[int, list[int]] = defaultdict(list)
    for one in records:
        body, tag = sent[one["queueId"], one["queueOffset"]]
        assert one["bodySha256"] == hashlib.sha256(body).hexdigest()
        assert one["properties"]["TAGS"] == tag
        assert one["recordedPhysicalOffset"] == one["physicalOffset"]
        positions[one["queueId"]].append(one["physicalOffset"])
    queues = found["queues"]["stored"]
    assert {int(number) for number in queues} == set(positions)
    for number, queue in queues.items():
        expected = positions[int(number)]
        assert (queue["min"], queue["max"]) == (0, len(expected))
        assert queue["readPhysicalOffsets"] == expected
        assert [entry["pos"] for entry in queue["entries"]] == expected


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_original_opens_our_directory_and_mends_nothing(
    peer: Peer, tmp_path: Path, end: str
) -> None:
    options = ["--set", "mappedFileSizeCommitLog=262144", "--set", "brokerName=mine"]
    node = start_node(tmp_path / "data", options=options)
    sent = asyncio.run(fill(node.namesrv))
    if end == "stop":
        assert node.process.stop() == 0
    else:
        node.process.kill()
    found = ask(peer, node, tmp_path / "oracle")
    changes = set(found["changedByLoading"])
    if end == "stop":
        assert changes == ADDED
    else:
        # The log file that was made ahead may go; nothing with a message in it.
        starts = [int(one.name) for one in (node.data / "commitlog").iterdir()]
        ahead = f"removed commitlog/{max(starts):020}"
        removed = {one for one in changes if one.startswith("removed")}
        assert removed <= {ahead}
        last = max(one["physicalOffset"] for one in found["commitLog"]["records"])
        assert last < max(starts)
    compare(found, sent)
    if end == "stop":
        offsets = fastjson.loads(found["managers"]["ConsumerOffsetManager"])["offsetTable"]
        assert sum(offsets["stored@half"].values()) == 300
        topics = fastjson.loads(found["managers"]["TopicConfigManager"])["topicConfigTable"]
        assert topics["stored"]["writeQueueNums"] == 4
    again = node.restart(*options)
    assert again.process.stop() == 0
