"""Connections and servers over the simulated network: pieces, limits, idleness, slow peers."""

import asyncio
import random

import pytest

from cometmq.kernel import frames
from cometmq.net import Limits, Server
from cometmq.net.network import Address
from cometmq.protocol import Command, HeartBeat
from cometmq.testing import SimulatedNetwork, simulate


class Peer(asyncio.Protocol):
    """A raw client: keeps what comes."""

    def __init__(self):
        self.data = b""
        self.ended = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data

    def connection_lost(self, error):
        self.ended = asyncio.get_running_loop().time()


def with_server(work, **limits):
    """Runs `work(connect, taken, server)`; the server keeps and answers each frame's body."""

    async def main():
        network = SimulatedNetwork(random.Random(3))
        taken = []

        def took(connection, items):
            for frame in items:
                taken.append(frame)
                connection.write(frames.join(0, b'{"flag":1}', frame.body))

        server = Server(took, Limits(**limits))
        await server.start(network.machine(), "127.0.0.1", 1)

        async def connect():
            peer = Peer()
            await network.machine().connect("127.0.0.1", 1, lambda: peer)
            return peer

        try:
            return await work(connect, taken, server)
        finally:
            server.close()

    return simulate(main)


BEAT = Command.request(HeartBeat(), b"body").write()


def test_a_frame_that_comes_byte_by_byte_is_taken_when_it_is_whole():
    async def work(connect, taken, server):
        peer = await connect()
        for byte in BEAT[:-1]:
            peer.transport.write(bytes([byte]))
        await asyncio.sleep(1)
        assert taken == []
        peer.transport.write(BEAT[-1:] + BEAT + BEAT[:10])
        await asyncio.sleep(1)
        assert [one.body for one in taken] == [b"body", b"body"]

    with_server(work)


@pytest.mark.spec("RN4", "RN5", "RN6")
@pytest.mark.parametrize(
    "bad",
    [
        (2 << 20).to_bytes(4) + b"\x00\x00\x00\x10",
        b"\x00\x00\x00\x08\x00\x00\x00\x63abcd",
        b"\x00\x00\x00\x08\x07\x00\x00\x04abcd",
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
    ],
)
def test_a_frame_that_breaks_the_format_ends_its_connection_and_no_other(bad):
    async def work(connect, taken, server):
        one, other = await connect(), await connect()
        one.transport.write(bad)
        await asyncio.sleep(0.5)
        assert one.ended is not None
        assert other.ended is None
        other.transport.write(BEAT)
        await asyncio.sleep(0.5)
        assert frames.split(other.data, 1 << 20)[0][0].body == b"body"

    with_server(work, frame_bytes=1 << 20)


@pytest.mark.spec("RN19")
def test_an_idle_connection_is_closed_after_its_time_and_one_that_is_used_is_not():
    async def work(connect, taken, server):
        idle, used = await connect(), await connect()
        for _ in range(4):
            used.transport.write(BEAT)
            await asyncio.sleep(60)
        assert idle.ended == pytest.approx(120, abs=2.5)
        assert used.ended is None

    with_server(work)


def test_one_connection_more_than_allowed_is_closed_at_once():
    async def work(connect, taken, server):
        peers = [await connect() for _ in range(3)]
        await asyncio.sleep(0.5)
        assert [peer.ended is None for peer in peers] == [True, True, False]
        peers[0].transport.close()
        await asyncio.sleep(0.5)
        late = await connect()
        await asyncio.sleep(0.5)
        assert late.ended is None

    with_server(work, connections=2)


@pytest.mark.spec("RN58")
def test_nothing_more_is_read_from_a_peer_that_does_not_take_its_answers():
    async def work(connect, taken, server):
        peer = await connect()
        peer.transport.pause_reading()
        large = Command.request(HeartBeat(), bytes(256 << 10)).write()
        for _ in range(64):
            peer.transport.write(large)
        await asyncio.sleep(30)
        stopped = len(taken)
        assert stopped < 32
        peer.transport.resume_reading()
        await asyncio.sleep(30)
        assert len(taken) == 64

    with_server(work)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9876", Address("127.0.0.1", 9876)),
        ("[::1]:1", Address("::1", 1)),
        ("::1:1", Address("::1", 1)),
    ],
)
def test_addresses_are_read_at_the_last_colon(text, address):
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:65536", "h:١"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        Address.parse(text)
