"""The machine: its time, chance, threads and addresses, as far as nobody handed in others."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Protocol, TypeVar, cast

from cometmq.runtime.errors import BadSetting

T = TypeVar("T")


class Clock:
    """The time: of the wall for what is stored and shown, of the loop for what is waited for.

    It is that of the loop it runs on; a loop with a wall of its own is a virtual one.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.time: Callable[[], float] = loop.time
        # The virtual loop of the testing kit brings its own wall clock, so that one seam (the
        # loop) decides all time in a run; nothing else in the house may ask the machine.
        self._wall = cast(Callable[[], float], getattr(loop, "wall_time", time.time))

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the wall clock has them."""
        return int(self._wall() * 1000)


def fresh() -> Random:
    """A generator that no seed repeats; a simulation hands in one of its own instead."""
    return Random()


class Threads(Protocol):
    """Work of one lane is done one piece after the other, in the order it was handed over."""

    def run(self, lane: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Does `work` off the loop; its result or exception comes back on the loop."""

    def close(self) -> None:
        """Waits for what was handed over and ends the threads."""


class LocalThreads:
    """One thread for each lane, started when the lane is first used."""

    def __init__(self) -> None:
        self._lanes: dict[str, ThreadPoolExecutor] = {}

    def run(self, lane: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        if (pool := self._lanes.get(lane)) is None:
            pool = self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=f"comet-{lane}")
        return asyncio.get_running_loop().run_in_executor(pool, work)

    def close(self) -> None:
        for pool in self._lanes.values():
            pool.shutdown(wait=True)
        self._lanes.clear()


def is_loopback(host: str) -> bool:
    """Only this machine itself can reach this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    """The address stands for every address of this machine."""
    return host in ("", "0.0.0.0", "::")


def numeric(key: str, host: str) -> str:
    """The address that a name stands for, IPv4 before IPv6; BadSetting where it has none."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadSetting(
            f"{key}={host}: this name has no address here ({error.strerror}); give a numeric one"
        ) from None
    return str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])


def is_own(host: str) -> bool:
    """Whether a server of this machine could be bound to this numeric address."""
    family, kind, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    try:
        with socket.socket(family, kind) as trial:
            trial.bind(where)
    except OSError:
        return False
    return True


def own_address(bound: str = "0.0.0.0") -> str:
    """The address by which others reach a server of this machine that is bound to this one: of a
    wildcard the first of its family (`::` takes no IPv4 here, and 0.0.0.0 never IPv6), or loopback
    where there is none."""
    if not is_wildcard(bound):
        return bound
    v6 = ":" in bound
    family = socket.AF_INET6 if v6 else socket.AF_INET
    try:
        # Connecting a datagram socket sends nothing: the system only chooses the way out, and
        # with it the address. The target is set aside for documents (RFC 5737, RFC 3849).
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(("2001:db8::1" if v6 else "192.0.2.1", 9))
            found = [str(probe.getsockname()[0])]
    except OSError:
        found = []
    try:
        named = socket.getaddrinfo(socket.gethostname(), 0, family, socket.SOCK_STREAM)
        found += [str(where[0]) for *_, where in named]
    except OSError:
        pass  # a machine need not know its own name
    others = (one for one in found if not is_loopback(one) and not is_wildcard(one))
    return next(others, "::1" if v6 else "127.0.0.1")
