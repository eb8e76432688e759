"""A smoke of the foreign client on the plain kernel; everything else runs on the compiled one."""

from pathlib import Path

from tests.interop.java_clients import JavaProducer, JavaPushConsumer, OutgoingMessage
from tests.interop.peer import Peer
from tests.processes import start_node


def test_java_sends_and_receives_through_the_plain_kernel(peer: Peer, tmp_path: Path) -> None:
    node = start_node(tmp_path / "data", kernel="pure")
    try:
        assert "kernel pure" in node.ready
        with JavaProducer(peer, tmp_path / "p", node.namesrv, "shop") as producer:
            for number in range(5):
                producer.send(OutgoingMessage("plain", b"%d" % number, tag="t"))
            producer.send(*[OutgoingMessage("plain", b"b", tag="t")] * 3, mode="batch")
        with JavaPushConsumer(peer, tmp_path / "c", node.namesrv, "g", {"plain": "t"}) as consumer:
            bodies = sorted(message.body for message in consumer.messages(8))
        assert bodies == [b"0", b"1", b"2", b"3", b"4", b"b", b"b", b"b"]
    finally:
        assert node.process.stop() == 0
