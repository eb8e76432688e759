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


def with_server(work, keep=None, **limits):
    """Runs `work(connect, taken, server)`; the server keeps and answers each frame's body, and
    adds its connections to `keep`."""

    async def main():
        network = SimulatedNetwork(random.Random(3))
        taken = []

        def took(connection, items):
            if keep is not None:
                keep.append(connection)
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


@pytest.mark.parametrize(
    ("address", "text", "packed"),
    [
        (Address("127.0.0.1", 9876), "127.0.0.1:9876", b"\x7f\0\0\1" + (9876).to_bytes(4)),
        (Address("::1", 1), "[::1]:1", bytes(15) + b"\1" + (1).to_bytes(4)),
        (Address("fe80::1%eth0", 1), "[fe80::1%eth0]:1", b"\xfe\x80" + bytes(13) + b"\1\0\0\0\1"),
    ],
)
def test_addresses_are_written_for_people_and_for_records(address, text, packed):
    assert (str(address), address.packed()) == (text, packed)


def test_what_came_whole_before_a_bad_frame_is_served():
    async def work(connect, taken, server):
        peer = await connect()
        peer.transport.write(BEAT + BEAT + b"\xff" * 8)
        await asyncio.sleep(1)
        assert len(taken) == 2
        assert len(frames.split(peer.data, 1 << 20)[0]) == 2
        assert peer.ended is not None

    with_server(work)


def test_nothing_that_comes_after_a_bad_frame_is_served():
    async def work(connect, taken, server):
        peer = await connect()
        for data in (b"\xff" * 8, BEAT, BEAT):
            peer.transport.write(data)
        await asyncio.sleep(1)
        assert taken == []

    with_server(work)


@pytest.mark.parametrize(("size", "taken_at_all"), [(1000, True), (1001, False)])
def test_the_largest_frame_is_a_setting_and_itself_allowed(size, taken_at_all):
    async def work(connect, taken, server):
        empty = Command.request(HeartBeat(), b"").write()
        body = bytes(size - len(empty))
        peer = await connect()
        peer.transport.write(Command.request(HeartBeat(), body).write())
        await asyncio.sleep(1)
        assert bool(taken) is taken_at_all
        assert (peer.ended is None) is taken_at_all

    with_server(work, frame_bytes=1000)


def test_a_connection_that_is_only_written_to_is_not_idle():
    async def work(connect, taken, server):
        speaks, hears = await connect(), await connect()
        hears.transport.write(BEAT)
        await asyncio.sleep(0.5)
        [connection] = {one for one in server_side if one.remote == hears.transport.local}
        for _ in range(4):
            connection.write(BEAT)
            await asyncio.sleep(60)
        assert hears.ended is None
        assert speaks.ended is not None

    server_side = []
    with_server(work, keep=server_side)


@pytest.mark.parametrize(("idle_s", "at"), [(10, 10), (120, 120)])
def test_how_long_a_connection_may_be_idle_is_a_setting(idle_s, at):
    async def work(connect, taken, server):
        peer = await connect()
        await asyncio.sleep(idle_s + 5)
        assert peer.ended == pytest.approx(at, abs=2.1)
        assert peer.ended >= at

    with_server(work, idle_s=idle_s)


def test_a_server_that_is_closed_ends_its_connections_after_what_it_has_written():
    async def work(connect, taken, server):
        one, idle = await connect(), await connect()
        one.transport.write(BEAT)
        while not taken:
            await asyncio.sleep(0.0001)
        server.close()
        await asyncio.sleep(1)
        assert frames.split(one.data, 1 << 20)[0][0].body == b"body"
        assert one.ended is not None
        assert idle.ended is not None
        with pytest.raises(ConnectionRefusedError):
            await connect()
        loop = asyncio.get_running_loop()
        turns = loop.turns
        await asyncio.sleep(1000)
        assert loop.turns - turns < 10

    with_server(work)
