"""Counted, not timed: messages a sync, the turn of a held pull's answer, what a start reads."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq.message import Message
from cometmq.net import Connection
from cometmq.protocol import PullMessage, ResponseCode
from cometmq.testing import (
    ForgetfulDisk,
    Node,
    SimulatedNetwork,
    SimulatedThreads,
    VirtualLoop,
    simulate,
)
from tests.processes import ROOT

IN_FLIGHT = 256
ROUNDS = 8
SYNC_S = 0.001
SUSPEND, SUBSCRIPTION = 2, 4
LARGE_STORE = Path(__file__).parent / "large_store.py"


@pytest.mark.spec("STO-21")
def test_with_256_sends_in_flight_a_sync_covers_20_messages_and_more(
    say: Callable[[str], None],
) -> None:
    async def main() -> float:
        chance = random.Random(1)
        machine = SimulatedNetwork(chance).machine()
        disk, threads = ForgetfulDisk(chance), SimulatedThreads(chance, most_s=0)
        disk.sync_s, disk.pause = SYNC_S, threads.pause
        async with Node(machine=machine, disk=disk, threads=threads, chance=chance) as node:
            await node.make_topic("orders")
            async with node.producer() as producer:
                await producer.send(Message("orders", b"the route is known from here on"))
                before = disk.counts["sync", "commitlog"]

                async def send(rounds: int) -> None:
                    for _ in range(rounds):
                        await producer.send(Message("orders", b"x" * 1024))

                await asyncio.gather(*(send(ROUNDS) for _ in range(IN_FLIGHT)))
            return IN_FLIGHT * ROUNDS / (disk.counts["sync", "commitlog"] - before)

    messages = simulate(main)
    say(f"{messages:.1f} messages a sync")
    assert messages >= 20


class Turns:
    """In which turn of the loop `visible` passed a position, and in which a pull was answered."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.visible: list[int] = []
        self.answered: list[int] = []

    def passed(self, position: int) -> None:
        self.visible.append(self.loop.turns)


def test_a_held_pull_is_answered_in_the_turn_in_which_visible_passes_its_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"what the pull waits for"
    write = Connection.write

    async def main() -> Turns:
        turns = Turns()

        def written(connection: Connection, data: bytes) -> None:
            # The send carries these bytes too; the answer is what comes from the broker's port.
            if body in data and connection.local == node.address:
                turns.answered.append(turns.loop.turns)
            write(connection, data)

        monkeypatch.setattr(Connection, "write", written)
        async with Node(machine=SimulatedNetwork(random.Random(1)).machine()) as node:
            await node.make_topic("orders", 1)
            flags = SUSPEND | SUBSCRIPTION
            pull = PullMessage("g", "orders", 0, 0, 32, flags, 0, 15_000, "*", 0)
            held = asyncio.create_task(node.ask(pull))
            await asyncio.sleep(1)
            node.broker.store.visible.watch(turns.passed)
            async with node.producer() as producer:
                await producer.send(Message("orders", body))
            answer = await held
            assert answer.code == ResponseCode.SUCCESS
            assert body in answer.body
        return turns

    turns = simulate(main)
    assert turns.visible == turns.answered
    assert len(turns.visible) == 1


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, str(LARGE_STORE), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)


def test_a_start_after_kill_9_reads_two_log_files_and_costs_little_memory(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    filled = run("fill", str(tmp_path / "large"))
    assert filled.returncode == -signal.SIGKILL, filled.stderr[-2000:]
    starts = {}
    for name in ("empty", "large"):
        done = run("start", str(tmp_path / name))
        assert done.returncode == 0, done.stderr[-2000:]
        starts[name] = json.loads(done.stdout)
    large, empty = starts["large"], starts["empty"]
    more = (large["memory"] - empty["memory"]) / (1 << 20)
    say(
        f"{large['messages']} messages in {large['files']} files: {large['read']} files read, "
        f"{more:.1f} MiB more than an empty node, started in {large['seconds']:.2f} s"
    )
    assert large["messages"] >= 1_000_000
    assert large["files"] > 40
    assert large["read"] <= 2
    assert more <= 30
