"""How the benchmark measures: load and processor time of a server, and the small figures."""

import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.subjects import ON_LOAD_CORE, Server, build
from tests.processes import ROOT

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
# Warm is what does not move by more than this from one load to the next.
STEADY = 0.05


@dataclass(frozen=True)
class Reading:
    """One load: messages a second, processor time a message, and how long replies took."""

    rate: float
    cpu_us: float
    p50_us: float
    p99_us: float
    refused: int
    load_cpu: float

    def fields(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def load(
    server: Server, *, seconds: float = 2, connections: int = 8, window: int = 32, body: int = 1024
) -> Reading:
    """Send for that long, keeping connections x window messages in flight."""
    program = build("load")
    counts = map(str, (connections, window, body, seconds))
    command = [*ON_LOAD_CORE, program, "send", "127.0.0.1", str(server.port), *counts]
    before = cpu_seconds(server.process.pid)
    done = subprocess.run(command, capture_output=True, text=True)
    used = cpu_seconds(server.process.pid) - before
    if done.returncode:
        raise SystemExit(
            f"the load at {server.name} failed: {done.stderr}\n{server.process.errors}"
        )
    said = json.loads(done.stdout)
    return Reading(
        rate=said["rate"],
        cpu_us=used / said["total"] * 1e6,
        p50_us=said["p50_us"],
        p99_us=said["p99_us"],
        refused=said["bad"],
        load_cpu=said["load_cpu"],
    )


def warm(server: Server, *, steady_for: int = 1, most: int = 60, seconds: float = 2) -> int:
    """Load until the rate no longer moves, so many times in a row; how many loads it took.

    On a machine where others work too it may never come to rest, so there is a limit.
    """
    steady, before = 0, load(server, seconds=seconds).rate
    for count in range(2, most + 1):
        rate = load(server, seconds=seconds).rate
        steady = steady + 1 if abs(rate - before) <= STEADY * before else 0
        if steady == steady_for:
            return count
        before = rate
    print(f"{server.name} still moved by more than 5 % after {most} loads", file=sys.stderr)
    return most


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def resident_mib(pids: Sequence[int]) -> float:
    """Memory that the processes have in use."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return round(total / 1024, 1)


def first_answer_s(port: int, began: float, timeout_s: float = 30) -> float:
    """Seconds from `began` (monotonic) until the server at that port answers a send."""
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(_send_frame())
                if connection.recv(4):
                    return time.monotonic() - began
        except OSError:
            time.sleep(0.001)
    raise SystemExit(f"port {port} did not answer within {timeout_s:g} s")


def _send_frame() -> bytes:
    fields = {"a": "bench", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "0"}
    fields |= {"g": "1731955569000", "i": "", "j": "0", "k": "false", "m": "false"}
    remoting = {"code": 310, "flag": 0, "language": "JAVA", "opaque": 1, "version": 479}
    header = json.dumps({**remoting, "extFields": fields}).encode()
    return struct.pack(">II", 4 + len(header) + 1, len(header)) + header + b"x"


def import_ms(times: int = 7) -> float:
    """What `import cometmq` takes in a fresh process."""
    program = "import time; t = time.perf_counter(); import cometmq; print(time.perf_counter() - t)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    taken = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(times)
    ]
    return round(statistics.median(float(each.stdout) for each in taken) * 1000, 1)


def disk_syncs(folder: Path, size: int, seconds: float = 2) -> float:
    """How often a second the disk makes `size` new bytes of an allocated file durable."""
    file = os.open(folder / "syncs", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.posix_fallocate(file, 0, 64 << 20)
        os.fsync(file)
        data, position, count = b"x" * size, 0, 0
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            os.pwrite(file, data, position)
            os.fdatasync(file)
            position = (position + size) % (60 << 20)
            count += 1
        return round(count / (time.monotonic() - began), 1)
    finally:
        os.close(file)
        (folder / "syncs").unlink()
