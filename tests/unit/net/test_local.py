"""The real network on loopback: the promises of the seam, kept by real sockets."""

import asyncio
import socket

import pytest

from cometmq.net import Address, LocalNetwork

LARGE = bytes(range(256)) * (32 << 10)
"""More than sockets and the queue before them take."""


class End(asyncio.Protocol):
    """One end of a connection: keeps what comes, and lets others wait for it."""

    def __init__(self):
        self.data = b""
        self.events = []
        self.changed = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        names = (transport.get_extra_info(name)[:2] for name in ("sockname", "peername"))
        self.local, self.remote = (Address(*name) for name in names)
        transport.set_write_buffer_limits(high=1 << 20)
        self.events.append("made")
        self.changed.set()

    def data_received(self, data):
        self.data += data
        self.changed.set()

    def connection_lost(self, error):
        self.events.append("closed")
        self.changed.set()

    def pause_writing(self):
        self.events.append("pause")
        self.changed.set()

    def resume_writing(self):
        self.events.append("resume")
        self.changed.set()

    async def until(self, holds):
        while not holds(self):
            self.changed.clear()
            await self.changed.wait()


def connected(work, host="127.0.0.1"):
    """Runs `work(near, far, listener)` with the two ends of a connection."""

    async def main():
        near, far = End(), End()
        listener = await LocalNetwork().listen(host, 0, lambda: far)
        await LocalNetwork().connect(host, listener.address.port, lambda: near)
        await far.until(lambda end: end.events)
        near.events.clear()
        far.events.clear()
        try:
            await work(near, far, listener)
        finally:
            if "closed" not in near.events:
                near.transport.abort()
            listener.close()

    asyncio.run(asyncio.wait_for(main(), 20))


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")),
    ],
)
def test_bytes_go_both_ways_and_each_end_knows_where_the_other_is(host):
    async def work(near, far, listener):
        assert listener.address.host == host
        assert near.remote == far.local == listener.address
        assert near.local == far.remote
        near.transport.write(b"there")
        await far.until(lambda end: end.data == b"there")
        far.transport.write(b"and back")
        await near.until(lambda end: end.data == b"and back")

    connected(work, host)


def test_who_writes_more_than_is_taken_is_told_and_told_again_when_it_is():
    async def work(near, far, listener):
        far.transport.pause_reading()
        far.transport.pause_reading()
        near.transport.write(LARGE)
        await near.until(lambda end: end.events == ["pause"])
        for _ in range(100):
            await asyncio.sleep(0)
        assert far.data == b""
        far.transport.resume_reading()
        far.transport.resume_reading()
        await near.until(lambda end: end.events == ["pause", "resume"])
        await far.until(lambda end: len(end.data) == len(LARGE))
        assert far.data == LARGE

    connected(work)


def test_closing_sends_what_was_written_first():
    async def work(near, far, listener):
        near.transport.write(LARGE)
        near.transport.close()
        await far.until(lambda end: end.events == ["closed"])
        assert far.data == LARGE
        await near.until(lambda end: end.events[-1] == "closed")

    connected(work)


@pytest.mark.parametrize("how", ["close", "abort"])
def test_after_its_end_a_connection_may_be_paused_and_written_to_in_vain(how):
    async def work(near, far, listener):
        getattr(near.transport, how)()
        await near.until(lambda end: end.events == ["closed"])
        near.transport.pause_reading()
        near.transport.resume_reading()
        near.transport.write(b"nothing")
        await far.until(lambda end: "closed" in end.events)
        assert far.data == b""

    connected(work)


def test_a_port_that_is_taken_is_an_error_and_one_that_is_free_again_is_not():
    async def work(near, far, listener):
        port = listener.address.port
        with pytest.raises(OSError, match="already in use"):
            await LocalNetwork().listen("127.0.0.1", port, End)
        listener.close()
        near.transport.write(b"lives on")
        await far.until(lambda end: end.data == b"lives on")
        with pytest.raises(ConnectionRefusedError):
            await LocalNetwork().connect("127.0.0.1", port, End)
        (await LocalNetwork().listen("127.0.0.1", port, End)).close()

    connected(work)
