"""Held pulls: what they wait for, and the scan that moves on those whose messages never match."""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.store import Queue

SCAN_S = 5.0
"""As the original's: a held pull whose queue got only other tags learns by then how far the
queue has come (spec 04 6.4)."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The next message of a queue that could match; other tags must not end a wait, or the client
    would ask again at once, for nothing."""

    queue: Queue
    hashes: frozenset[int] | None

    def watch(self, tell: Callable[[object], None]) -> Callable[[], None]:
        """Tells of messages whose tag hash is wanted, and of the scan."""
        wanted = self.hashes

        def told(arrived: frozenset[int] | None) -> None:
            if wanted is None or arrived is None or not wanted.isdisjoint(arrived):
                tell(arrived)

        return self.queue.arrivals.watch(told)


class Holds:
    """The queues that pulls are held on."""

    def __init__(self) -> None:
        self._seen: dict[Queue, int] = {}

    def on(self, queue: Queue, hashes: frozenset[int] | None) -> Arrival:
        """What a pull on this queue waits for."""
        self._seen.setdefault(queue, queue.max_offset)
        return Arrival(queue, hashes)

    def scan(self) -> None:
        """Tells those whose queue has grown by nothing that they wanted."""
        for queue, seen in list(self._seen.items()):
            if not queue.arrivals:
                del self._seen[queue]
            elif queue.max_offset > seen:
                self._seen[queue] = queue.max_offset
                queue.arrivals.fire(None)
