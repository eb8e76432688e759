"""Watermarks: how far into the log something has come, and who waits for that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Fault:
    """A watermark will not pass `beyond` with what was staged so far.

    `stored`: the records are in the log and may have been promised to somebody (a failed sync);
    if not, they are gone and their senders can be told so.
    """

    beyond: int
    stored: bool
    why: str


class Watcher(Protocol):
    """Somebody who waits for positions."""

    def passed(self, position: int) -> None:
        """Everything before this position has come so far."""

    def broken(self, fault: Fault) -> None:
        """What lies beyond `fault.beyond` at this moment will not come."""


class Watermark:
    """A position of the log that only grows."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tells `watcher` of every move from now on; calling what is returned ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def advance(self, position: int) -> None:
        """Moves on, and tells so; a position that is not ahead changes nothing."""
        if position > self.position:
            self.position = position
            for watcher in tuple(self._watchers):
                watcher.passed(position)

    def fail(self, fault: Fault) -> None:
        """Tells those who wait beyond the fault that they wait in vain."""
        for watcher in tuple(self._watchers):
            watcher.broken(fault)
