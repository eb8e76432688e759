"""Hostile frames at a real node: no crash, bounded memory, and others are served meanwhile."""

import asyncio
import os
import random
import struct
import time
from pathlib import Path

from cometmq import Message, Producer
from cometmq.protocol import Command, HeartBeat, PullMessage, SendMessageV2
from tests.processes import start_node

FRAMES = int(os.environ.get("COMETMQ_HOSTILE", "5000"))
CONNECTIONS = 64
LIMIT = 1 << 20
SEED = int(os.environ.get("COMETMQ_SEED", "1"))


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def good(chance: random.Random) -> bytes:
    """A frame as a client would write it."""
    body = chance.randbytes(chance.choice((0, 10, 1000, 100_000)))
    send = SendMessageV2("g", "hostile", "TBW102", 4, chance.randrange(-1, 5), 0, 1, 0)
    pull = PullMessage("g", "hostile", 0, chance.randrange(100), 32, 6, 0, 15_000, "*", 0)
    header = chance.choice((send, pull, HeartBeat()))
    command = Command.request(header, body, opaque=chance.getrandbits(31))
    command.codec = chance.choice((0, 0, 0, 1))
    return command.write()


def hostile(chance: random.Random) -> bytes:
    """A frame that is broken in one of many ways."""
    kind = chance.randrange(9)
    frame = bytearray(good(chance))
    if kind == 0:  # random bytes
        return chance.randbytes(chance.randrange(1, 300))
    if kind == 1:  # a few bytes changed
        for _ in range(chance.randrange(1, 20)):
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        return bytes(frame)
    if kind == 2:  # a length that lies
        frame[0:4] = struct.pack(">i", chance.choice((-1, 0, 3, LIMIT, LIMIT + 1, 2**31 - 1)))
        return bytes(frame)
    if kind == 3:  # a header length that lies
        frame[5:8] = chance.randbytes(3)
        return bytes(frame)
    if kind == 4:  # never whole
        return bytes(frame[: chance.randrange(1, len(frame))])
    if kind == 5:  # deep nesting
        deep = b'{"extFields":' * chance.randrange(1, 5000)
        return struct.pack(">II", 4 + len(deep), len(deep)) + deep
    if kind == 6:  # any code, any body
        text = b'{"code":%d,"opaque":1}' % chance.choice((17, 34, 35, 103, 200, 351, 99999, -5))
        body = chance.randbytes(chance.randrange(0, 500))
        return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body
    if kind == 7:  # large
        return struct.pack(">II", LIMIT - 4, 2) + b"{}" + bytes(LIMIT - 10)
    return bytes(frame)


def test_hostile_frames_harm_nobody_else(tmp_path: Path) -> None:
    options = ["--set", f"frameMaxLength={LIMIT}", "--set", f"maxBytesInFlight={4 << 20}"]
    node = start_node(tmp_path / "data", options=options)
    host, _, port = node.broker.rpartition(":")
    before = resident(node.process.pid)
    most = before

    opened = 0

    async def attack(number: int) -> None:
        nonlocal opened
        chance = random.Random(SEED * 1000 + number)
        writer: asyncio.StreamWriter | None = None
        for _ in range(FRAMES // CONNECTIONS):
            if writer is None or writer.is_closing():
                reader, writer = await asyncio.open_connection(host, int(port))
                opened += 1
                reading = asyncio.ensure_future(drain(reader, chance.random() < 0.8))
            try:
                writer.write(hostile(chance))
                await asyncio.wait_for(writer.drain(), 5)
            except (OSError, TimeoutError):
                writer.close()
            # Behind a frame that ends its connection, or never ends itself, nothing is looked at:
            # the node gets the time to answer, and the next frame often a connection of its own.
            await asyncio.wait([reading], timeout=0.01)
            if reading.done() or chance.random() < 0.3:
                writer.close()
        if writer is not None:
            writer.close()

    async def drain(reader: asyncio.StreamReader, reads: bool) -> None:
        """Reads answers until the connection ends; some attackers never read."""
        try:
            while reads and await reader.read(1 << 16):
                pass
            if not reads:
                await asyncio.sleep(3600)
        except OSError:
            pass

    async def main() -> None:
        nonlocal most
        slowest = 0.0
        async with Producer(node.namesrv, group="honest", timeout_ms=20_000) as producer:
            attackers = [asyncio.ensure_future(attack(n)) for n in range(CONNECTIONS)]
            while not all(one.done() for one in attackers):
                began = time.monotonic()
                await producer.send(Message("honest", b"still there"))
                slowest = max(slowest, time.monotonic() - began)
                most = max(most, resident(node.process.pid))
                await asyncio.sleep(0.02)
            for one in attackers:
                one.result()
            await producer.send(Message("honest", b"still there"))
        assert slowest < 20
        assert opened > FRAMES // 4

    asyncio.run(main())
    assert node.process.running, node.process.errors
    assert most - before < 300 << 20
    assert node.process.stop() == 0
    assert "Traceback" not in node.process.errors
