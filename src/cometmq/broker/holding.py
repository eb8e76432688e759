"""Held pulls: what they wait for, and the scan that moves on those whose messages never match."""

import asyncio
from collections.abc import Callable

from cometmq.store import Queue

SCAN_S = 5.0
"""As the original's: a held pull whose queue got only other tags learns by then how far the
queue has come (spec 04 6.4)."""


class Arrival:
    """The next message of a queue that could match; other tags must not end a wait, or the client
    would ask again at once, for nothing."""

    def __init__(self, queue: Queue, hashes: frozenset[int] | None) -> None:
        self._queue = queue
        self._hashes = hashes

    def watch(self, tell: Callable[[object], None]) -> Callable[[], None]:
        """Tells of messages whose tag hash is wanted, and of the scan."""
        wanted = self._hashes

        def told(arrived: frozenset[int] | None) -> None:
            if wanted is None or arrived is None or not wanted.isdisjoint(arrived):
                tell(arrived)

        return self._queue.arrivals.watch(told)


class Holds:
    """The queues that pulls are held on."""

    def __init__(self) -> None:
        self._seen: dict[Queue, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def on(self, queue: Queue, hashes: frozenset[int] | None) -> Arrival:
        """What a pull on this queue waits for."""
        self._seen.setdefault(queue, queue.max_offset)
        return Arrival(queue, hashes)

    def start(self) -> None:
        """Scans from now on."""
        self._timer = asyncio.get_running_loop().call_later(SCAN_S, self._scan)

    def _scan(self) -> None:
        for queue, seen in list(self._seen.items()):
            if not queue.arrivals:
                del self._seen[queue]
            elif queue.max_offset > seen:
                self._seen[queue] = queue.max_offset
                queue.arrivals.fire(None)
        self.start()

    def close(self) -> None:
        """Scans no more."""
        if self._timer is not None:
            self._timer.cancel()
