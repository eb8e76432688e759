"""`cometmq up`, `send` and `receive` as processes: what they print, refuse, and leave behind."""

import os
import socket
import subprocess
import sys

import pytest

from cometmq.node import PROOF_TOPIC
from cometmq.runtime.settings import parse_properties
from tests.processes import ROOT, free_port, interrupt, start_broker, start_node

ENV = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def command(*words, cwd, expect=0, timeout_s=60):
    """Runs the command to its end; its output and its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "cometmq", *map(str, words)],
        cwd=cwd,
        env=ENV,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout, done.stderr


def refused(*words, cwd):
    """The sentence with which the command refuses: one line, no trace."""
    _, errors = command("up", *words, cwd=cwd, expect=1)
    said = [line for line in errors.splitlines() if line.startswith("cometmq up: ")]
    assert len(said) == 1, errors
    assert "Traceback" not in errors
    return said[0].removeprefix("cometmq up: ")


def ports():
    return ("--namesrv", f"127.0.0.1:{free_port()}", "--broker", f"127.0.0.1:{free_port()}")


def test_a_message_goes_from_send_to_receive_and_both_end(tmp_path):
    node = start_node(tmp_path / "data")
    try:
        command("send", "-n", node.namesrv, "orders", "hello", cwd=tmp_path)
        command("send", "-n", node.namesrv, "orders", "wörld", cwd=tmp_path)
        out, _ = command("receive", "-n", node.namesrv, "orders", "--count", 2, cwd=tmp_path)
        assert sorted(out.splitlines()) == ["hello", "wörld"]
    finally:
        assert node.process.stop() == 0


@pytest.mark.spec("STO-41")
@pytest.mark.parametrize("stop", ["interrupt", "terminate"])
def test_it_stops_cleanly_and_what_it_had_is_there_again(tmp_path, stop):
    node = start_node(tmp_path / "data")
    command("send", "-n", node.namesrv, "orders", "kept", cwd=tmp_path)
    assert (tmp_path / "data" / "abort").read_text() == str(node.process.pid)
    assert (interrupt(node.process) if stop == "interrupt" else node.process.stop()) == 0
    assert not (tmp_path / "data" / "abort").exists()
    again = node.restart()
    try:
        out, _ = command("receive", "-n", again.namesrv, "orders", "--count", 1, cwd=tmp_path)
        assert out == "kept\n"
    finally:
        again.process.stop()


def test_the_ready_line_says_where_everything_is_and_the_properties_lie_beside_the_store(tmp_path):
    node = start_node(tmp_path / "data")
    try:
        assert node.ready.startswith("ready")
        for part in (node.namesrv, node.broker, str(tmp_path / "data"), "SYNC_FLUSH"):
            assert part in node.ready
        found = parse_properties((tmp_path / "data" / "broker.conf").read_text())
        assert found["mappedFileSizeCommitLog"] == str(64 << 20)
        assert found["storePathRootDir"] == str(tmp_path / "data")
        assert (tmp_path / "data" / "consumequeue" / PROOF_TOPIC / "0").is_dir()
    finally:
        node.process.stop()


def test_a_port_in_use_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option, what in (("--namesrv", "name server"), ("--broker", "broker")):
            words = [*ports(), option, f"127.0.0.1:{port}"]
            said = refused("--data", tmp_path / what.replace(" ", ""), *words, cwd=tmp_path)
            assert said.startswith(f"the {what} cannot listen on 127.0.0.1:{port}")
            assert option in said


@pytest.mark.spec("STO-42")
def test_a_directory_in_use_is_one_sentence(tmp_path):
    node = start_node(tmp_path / "data")
    try:
        said = refused("--data", tmp_path / "data", *ports(), cwd=tmp_path)
        assert str(tmp_path / "data") in said
        assert "Lock failed,MQ already started" in said
    finally:
        node.process.stop()


def test_a_foreign_directory_is_one_sentence_and_stays_as_it_is(tmp_path):
    log = tmp_path / "data" / "commitlog" / "00000000000000000000"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\x00\x00\x00\x10\xda\xa3\x20\xa7" + bytes((64 << 20) - 8))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    refused("--data", tmp_path / "data", *ports(), cwd=tmp_path)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    assert {path: after[path] for path in before if path.is_file()} == {
        path: time for path, time in before.items() if path.is_file()
    }


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    said = refused("--data", tmp_path / "file", *ports(), cwd=tmp_path)
    assert str(tmp_path / "file") in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--set", "listenPort"), "expected KEY=VALUE"),
        (("--set", "listenPort=x"), "listenPort=x: expected a whole number"),
        (("--set", "flushDiskType=FAST"), "expected SYNC_FLUSH or ASYNC_FLUSH"),
        (("--namesrv", "nowhere"), "expected HOST:PORT"),
        (("-c", "missing.conf"), "cannot be read"),
        (("--set", "brokerIP1=203.0.113.9"), "is no address of this machine"),
        (("--set", "brokerIP1=127.0.0.2", "--set", "bindAddress=127.0.0.1"), "listened on"),
        (("--set", "storePathCommitLog=/elsewhere"), "another place is not built yet"),
    ],
)
def test_what_cannot_be_set_is_one_sentence(tmp_path, words, text):
    assert text in refused(*words, cwd=tmp_path)
    assert not (tmp_path / "cometmq-data" / "commitlog").exists()


def test_a_file_without_a_directory_needs_one(tmp_path):
    (tmp_path / "broker.conf").write_text("brokerName=b\n")
    said = refused("-c", "broker.conf", cwd=tmp_path)
    assert "storePathRootDir" in said
    assert "--data" in said


def test_a_file_keeps_its_meaning_and_idle_keys_are_listed_once(tmp_path):
    broker = free_port()
    (tmp_path / "broker.conf").write_text(
        f"brokerName=mine\nlistenPort={broker}\nstorePathRootDir={tmp_path}/store\n"
        "mappedFileSizeCommitLog=1048576\nfileReservedTime=48\nbrokerNmae=typo\n"
    )
    namesrv = f"127.0.0.1:{free_port()}"
    node = start_node(
        tmp_path / "unused", namesrv, f"127.0.0.1:{broker}", ["-c", str(tmp_path / "broker.conf")],
        data_option=False,
    )  # fmt: skip
    try:
        assert "broker mine at 127.0.0.1" in node.ready
        assert (tmp_path / "store" / "commitlog" / "0".zfill(20)).stat().st_size == 1048576
        idle = [line for line in node.process.errors.splitlines() if "no effect" in line]
        assert len(idle) == 1
        assert "fileReservedTime" in idle[0]
        assert "brokerNmae (did you mean brokerName?)" in idle[0]
    finally:
        node.process.stop()


def test_a_broker_starts_while_its_name_server_is_away(tmp_path):
    namesrv = f"127.0.0.1:{free_port()}"
    broker = start_broker(tmp_path / "data", "lonely", namesrv)
    try:
        assert "broker lonely" in broker.ready
        other = start_node(tmp_path / "other", namesrv=namesrv)
        try:
            for _ in range(100):
                out, _ = command("send", "-n", namesrv, "lonely", "hello", cwd=tmp_path)
                if " lonely/" in out:
                    break
            assert " lonely/" in out
        finally:
            other.process.stop()
    finally:
        broker.process.stop()


def test_names_of_hosts_do_as_well_as_addresses(tmp_path):
    names = [f"localhost:{free_port()}" for _ in range(2)]
    node = start_node(tmp_path / "data", *names)
    try:
        assert " at 127.0.0.1:" in node.ready
        command("send", "-n", names[0], "orders", "hello", cwd=tmp_path)
        out, _ = command("receive", "-n", names[0], "orders", "--count", 0, cwd=tmp_path)
        assert out == ""
    finally:
        node.process.stop()


def test_a_broker_that_makes_neither_topics_nor_groups_by_itself_proves_itself_too(tmp_path):
    unset = ["autoCreateSubscriptionGroup=false", "autoCreateTopicEnable=false"]
    node = start_node(tmp_path / "data", options=["--set", unset[0], "--set", unset[1]])
    assert node.process.stop() == 0


def test_what_cannot_be_sent_is_one_sentence(tmp_path):
    for topic, text, said in (("a b", "x", "illegal characters"), ("orders", "", "length is zero")):
        _, errors = command("send", topic, text, cwd=tmp_path, expect=1)
        assert errors.startswith("cometmq send: ")
        assert said in errors
        assert "Traceback" not in errors
