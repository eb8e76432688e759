"""Processes that tests start, and read line by line: nothing here waits by sleeping."""

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent


class ProcessEnded(AssertionError):
    """The process ended, or stayed silent too long; the text ends with what it had printed."""


class LineProcess:
    """A child process with its standard output as lines, its errors kept for the failure's text."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        name: str = "",
    ) -> None:
        self.name = name or str(command[0])
        self.seen: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors = cwd / f"{self.name}-{time.monotonic_ns()}.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.pid = self._process.pid
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.decode(errors="replace").rstrip("\r\n"))
        self._lines.put(None)

    def say(self, line: str) -> None:
        """Write one line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def line(self, wanted: Callable[[str], bool] = bool, *, timeout_s: float = 60) -> str:
        """The next line that is wanted; those before it are only kept in `seen`."""
        ends = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                raise ProcessEnded(self._tell(f"was silent for {timeout_s:g} s")) from None
            if line is None:
                self._lines.put(None)
                raise ProcessEnded(self._tell(f"ended with code {self._process.wait()}"))
            self.seen.append(line)
            if wanted(line):
                return line

    def _tell(self, what: str) -> str:
        errors = self._errors.read_text(errors="replace")[-4000:]
        return "\n".join([f"{self.name} {what}", *self.seen[-20:], errors])

    @property
    def errors(self) -> str:
        """What it wrote to standard error so far."""
        return self._errors.read_text(errors="replace")

    @property
    def running(self) -> bool:
        """Is it still there?"""
        return self._process.poll() is None

    def send_signal(self, number: int) -> None:
        """Send one signal to it, and to nothing it started."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float = 30) -> int:
        """Its exit code; fails when it does not end in time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ProcessEnded(self._tell(f"did not end within {timeout_s:g} s")) from None

    def kill(self) -> None:
        """End it as a power cut would end it: at once."""
        self._process.kill()
        self._process.wait()
        self.close_input()

    def close_input(self) -> None:
        """Close its standard input, which our own programs take as the wish to end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def stop(self, timeout_s: float = 30) -> int:
        """Ask it to end by SIGTERM, and kill it when it does not; its exit code."""
        if self.running:
            self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self.close_input()


def free_ports(*offsets: int) -> Iterator[int]:
    """Ports whose neighbours at the given offsets are free as well.

    They lie below the range from which the system picks ports for outgoing connections, so that no
    connection made in between can take them.
    """
    start = 20_000 + os.getpid() * 16 % 10_000
    for port in [*range(start, 32_000, 8), *range(20_000, start, 8)]:
        if all(_is_free(port + offset) for offset in (0, *offsets)):
            yield port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do it: a connection that lingers in TIME_WAIT does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_ports = free_ports(-2, 1)


def free_port() -> int:
    """A port of its own for each caller of this process; port-2 and port+1 are free too."""
    return next(_ports)


@dataclass
class NodeUp:
    """A node that `cometmq up` runs, once it said that it is ready."""

    process: LineProcess
    ready: str
    data: Path
    namesrv: str
    broker: str

    def restart(self, *options: str) -> "NodeUp":
        """Start again on the same directory and ports, after a stop or a kill."""
        return start_node(self.data, self.namesrv, self.broker, options)


def start_node(
    data: Path,
    namesrv: str = "",
    broker: str = "",
    options: Sequence[str] = (),
    *,
    kernel: str = "",
    data_option: bool = True,
    timeout_s: float = 60,
) -> NodeUp:
    """Run `cometmq up` in a process and wait until it is ready."""
    namesrv = namesrv or f"127.0.0.1:{free_port()}"
    broker = broker or f"127.0.0.1:{free_port()}"
    words = ["--data", str(data)] if data_option else []
    words += ["--namesrv", namesrv, "--broker", broker, *options]
    return NodeUp(*_up(data, words, kernel, timeout_s), data, namesrv, broker)


def start_broker(data: Path, name: str, namesrv: str, timeout_s: float = 60) -> NodeUp:
    """Run a broker that registers at a name server which is there already."""
    broker = f"127.0.0.1:{free_port()}"
    words = ["--data", str(data), "--broker", broker]
    words += ["--set", f"brokerName={name}", "--set", f"namesrvAddr={namesrv}"]
    return NodeUp(*_up(data, words, "", timeout_s), data, namesrv, broker)


def _up(data: Path, words: list[str], kernel: str, timeout_s: float) -> tuple[LineProcess, str]:
    command = [sys.executable, "-m", "cometmq", "up", *words]
    env = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    if kernel:
        env["COMETMQ_KERNEL"] = kernel
    data.parent.mkdir(parents=True, exist_ok=True)
    process = LineProcess(command, cwd=data.parent, env=env, name="node")
    try:
        ready = process.line(lambda line: line.startswith("ready"), timeout_s=timeout_s)
    except BaseException:
        process.stop()
        raise
    return process, ready


def interrupt(process: LineProcess) -> int:
    """Press Ctrl-C and return the exit code."""
    process.send_signal(signal.SIGINT)
    return process.wait()
