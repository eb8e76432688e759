"""The original in processes of its own: its jars, its servers on loopback, our Java programs.

The jars come by Maven, once a machine, into COMETMQ_PEER_LIB or ~/.cache/rocketmq-peer, a folder a
version. Everything that is started writes only below the folder it is given, and is ended by its
own process id.
"""

import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.processes import LineProcess, free_port

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "java"
VERSION = os.environ.get("COMETMQ_PEER", "5.3.3")

# The original reaches into these packages, which Java keeps closed since 16.
OPENED = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
]
# Compiling at the first level only starts a process on two cores in half the time.
QUICK = ["-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
# 4.x looks for these files and does not start without them.
LOGGED_PARTS = ("namesrv", "broker", "tools")
QUIET = '<configuration><root level="ERROR"/></configuration>'


class PeerUnavailable(Exception):
    """The original cannot be had here; the text says what is missing."""


@dataclass(frozen=True)
class Peer:
    """The jars of one version of the original, and our programs compiled for it."""

    version: str
    library: Path
    classes: Path

    @classmethod
    def install(cls, version: str = VERSION) -> Self:
        """Fetch the jars and compile the programs, unless both are there already."""
        for command in ("java", "javac", "mvn"):
            if shutil.which(command) is None:
                raise PeerUnavailable(f"'{command}' is not installed (Java 11 or later and Maven)")
        home = os.environ.get("COMETMQ_PEER_LIB")
        root = Path(home) if home else Path.home() / ".cache" / "rocketmq-peer"
        library = root / version
        if not any(library.glob("rocketmq-client-*.jar")):
            _fetch(version, library)
        return cls(version, library, _compile(library, root / "classes"))

    @property
    def class_path(self) -> str:
        """The programs first, then every jar."""
        return f"{self.classes}{os.pathsep}{self.library}/*"

    def command(
        self, home: Path, main: str, *arguments: str, flags: Sequence[str] = QUICK
    ) -> list[str]:
        """The command that runs a class with `home` in place of the user's own folder."""
        logs = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
        return ["java", *flags, *OPENED, *logs, "-cp", self.class_path, main, *arguments]

    def run(self, home: Path, main: str, *arguments: str, timeout_s: float = 120) -> str:
        """Run a class to its end and return what it printed."""
        command = self.command(_furnish(home), main, *arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env=_environment(home)
        )
        if done.returncode:
            raise AssertionError(f"{main} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(
        self,
        home: Path,
        main: str,
        *arguments: str,
        flags: Sequence[str] = QUICK,
        before: Sequence[str] = (),
    ) -> LineProcess:
        """Start a class and read its lines while it runs; `before` is a command to start it by."""
        _furnish(home)
        command = [*before, *self.command(home, main, *arguments, flags=flags)]
        name = main.rsplit(".", 1)[-1]
        return LineProcess(command, cwd=home, env=_environment(home), name=name)


def _fetch(version: str, library: Path) -> None:
    # Into a folder of its own and renamed: an interrupted download is never taken for a whole one.
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Dpeer={version}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            reason = (done.stdout + done.stderr).strip()[-800:]
            raise PeerUnavailable(f"Maven could not fetch RocketMQ {version}: {reason}")
        Path(folder).chmod(0o755)
        shutil.rmtree(library, ignore_errors=True)
        shutil.copytree(folder, library)


def _compile(library: Path, root: Path) -> Path:
    """Compile once for each state of the sources: `java File.java` would compile each time."""
    sources = sorted(PROGRAMS.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = root / f"{library.name}-{digest}"
    if not (classes / "done").exists():
        classes.mkdir(parents=True, exist_ok=True)
        command = ["javac", "--release", "11", "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
        command += ["-cp", f"{library}/*", *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"tests/interop/java does not compile\n{done.stderr}")
        (classes / "done").touch()
    return classes


def _environment(home: Path) -> dict[str, str]:
    return {"ROCKETMQ_HOME": str(home)}


def _furnish(home: Path) -> Path:
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for part in LOGGED_PARTS:
        (home / "conf" / f"logback_{part}.xml").write_text(QUIET)
    return home


@dataclass
class Original:
    """A name server and brokers of the original; whatever still runs at the end is killed.

    Their orderly stop takes 15 s; a test that needs it (to look at the files) calls `stop`.
    """

    peer: Peer
    home: Path
    namesrv: str = ""
    processes: dict[str, LineProcess] = field(default_factory=dict)
    brokers: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self.processes.values()):
            process.kill()

    def start_namesrv(self, flags: Sequence[str] = QUICK) -> str:
        """Start the name server and return its address."""
        port = free_port()
        settings = _write(self.home / "namesrv" / "namesrv.conf", {"listenPort": str(port)})
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self._start("namesrv", main, settings, flags)
        self.namesrv = f"127.0.0.1:{port}"
        return self.namesrv

    def start_broker(
        self,
        name: str = "broker-a",
        settings: Mapping[str, str] | None = None,
        *,
        flags: Sequence[str] = QUICK,
        before: Sequence[str] = (),
    ) -> str:
        """Start a broker of that name, or start it again; return its address."""
        home = self.home / name
        address = self.brokers.get(name) or f"127.0.0.1:{free_port()}"
        port = int(address.rsplit(":", 1)[1])
        in_force = {
            "brokerName": name,
            "brokerClusterName": "DefaultCluster",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": self.namesrv,
            "listenPort": str(port),
            "haListenPort": str(port + 1),
            "storePathRootDir": str(home / "store"),
            "storePathCommitLog": str(home / "store" / "commitlog"),
            "mappedFileSizeCommitLog": str(64 << 20),
            **(settings or {}),
        }
        file = _write(home / "broker.conf", in_force)
        self._start(name, "org.apache.rocketmq.broker.BrokerStartup", file, flags, before)
        _wait_for_route(self.namesrv, address)
        self.brokers[name] = address
        return address

    def stop(self, name: str) -> None:
        """Stop one server as an operator would."""
        self.processes.pop(name).stop(timeout_s=60)

    def kill(self, name: str) -> None:
        """End one server at once."""
        self.processes.pop(name).kill()

    def _start(
        self,
        name: str,
        main: str,
        settings: Path,
        flags: Sequence[str],
        before: Sequence[str] = (),
    ) -> None:
        process = self.peer.start(
            settings.parent, main, "-c", str(settings), flags=flags, before=before
        )
        self.processes[name] = process
        process.line(lambda line: "boot success" in line, timeout_s=120)


def _wait_for_route(namesrv: str, broker: str, timeout_s: float = 60) -> None:
    """Wait until the name server names the broker: it says "boot success" before it is registered.

    Nothing tells when that has happened, so the route of the topic that all brokers have is asked
    for again and again.
    """
    host, port = namesrv.split(":")
    fields = {"code": 105, "opaque": 1, "flag": 0, "language": "JAVA", "version": 479}
    header = json.dumps({**fields, "extFields": {"topic": "TBW102"}}).encode()
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(frame)
            answer = connection.makefile("rb")
            (length,) = struct.unpack(">I", answer.read(4))
            if broker.encode() in answer.read(length):
                return
        time.sleep(0.05)
    raise AssertionError(f"the name server {namesrv} does not know {broker} after {timeout_s:g} s")


def _write(file: Path, settings: Mapping[str, str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file
