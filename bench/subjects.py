"""The servers that the benchmark compares, each started on the core that servers have."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.peer import Original, Peer
from tests.processes import ROOT, LineProcess, free_port

HERE = Path(__file__).resolve().parent
SERVER_CORE, LOAD_CORE = 0, 1
ON_SERVER_CORE = ["taskset", "-c", str(SERVER_CORE)]
ON_LOAD_CORE = ["taskset", "-c", str(LOAD_CORE)]

# The original's own defaults but for the heap, which its script would size for a large machine.
JAVA_FLAGS = ["-Xms2g", "-Xmx2g", "-XX:+UseG1GC"]


@dataclass
class Server:
    """A running server: what is measured are its port and its processes."""

    name: str
    port: int
    process: LineProcess
    others: Sequence[LineProcess] = ()


def build(name: str, *flags: str) -> Path:
    """Compile one of our C programs, if its source is newer than what is there."""
    source, program = HERE / f"{name}.c", ROOT / "build" / "bench" / name
    newest = max(file.stat().st_mtime for file in [source, *HERE.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        program.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O3", str(source), "-o", str(program), *flags], check=True)
    return program


@contextlib.contextmanager
def mark(folder: Path) -> Iterator[Server]:
    """The C server."""
    data = _empty(folder / "mark")
    port = free_port()
    command = [*ON_SERVER_CORE, build("limit", "-lz"), str(port), str(data)]
    with LineProcess(command, cwd=folder, name="mark") as process:
        process.line()
        yield Server("mark", port, process)
    shutil.rmtree(data)


@contextlib.contextmanager
def node(folder: Path, kernel: str, flush: str = "ASYNC_FLUSH") -> Iterator[Server]:
    """Our node on an empty directory, with the compiled ("fast") or the plain ("pure") kernel."""
    data = _empty(folder / f"node-{kernel}")
    process, _, port = start_node(folder, data, kernel, flush)
    with process:
        process.line(lambda line: line.startswith("ready"))
        yield Server(f"node-{kernel}", port, process)
    shutil.rmtree(data)


def start_node(
    folder: Path, data: Path, kernel: str, flush: str = "ASYNC_FLUSH"
) -> tuple[LineProcess, int, int]:
    """Start our node without waiting for it; the process, and its ports: name server, broker."""
    namesrv, broker = free_port(), free_port()
    command = [*ON_SERVER_CORE, sys.executable, "-m", "cometmq", "up", "--data", str(data)]
    command += ["--namesrv", f"127.0.0.1:{namesrv}", "--broker", f"127.0.0.1:{broker}"]
    command += ["--set", f"flushDiskType={flush}"]
    environment = {"COMETMQ_KERNEL": kernel, "PYTHONPATH": str(ROOT / "src")}
    process = LineProcess(command, cwd=folder, env=environment, name=f"node-{kernel}")
    return process, namesrv, broker


@contextlib.contextmanager
def original(folder: Path) -> Iterator[Server]:
    """The original's broker, as it comes; its name server runs beside it on the other core."""
    home = _empty(folder / "original")
    with Original(Peer.install(), home) as servers:
        servers.start_namesrv()
        address = servers.start_broker(
            settings={"flushDiskType": "ASYNC_FLUSH", "mappedFileSizeCommitLog": str(1 << 30)},
            flags=JAVA_FLAGS,
            before=ON_SERVER_CORE,
        )
        broker, namesrv = servers.processes["broker-a"], servers.processes["namesrv"]
        yield Server("original", int(address.rsplit(":", 1)[1]), broker, [namesrv])
    shutil.rmtree(home)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
