"""The virtual clock: an event loop whose time passes only when nothing is left to do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_S = 1_750_000_000.0
"""The wall time at which every simulation begins."""


class NothingLeft(RuntimeError):
    """Every task waits, and no timer is set: nothing will ever happen again."""


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's own loop, with a clock that jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.turns = 0
        """How often the loop has come round."""
        self._clock_resolution = 1e-9
        self._selector = self  # what BaseEventLoop waits in; here waiting is what moves the time

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._now

    def wall_time(self) -> float:
        """Seconds since 1970, as this loop's world has them."""
        return EPOCH_S + self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Lets the time pass that BaseEventLoop wants to wait for."""
        if timeout is None:
            raise NothingLeft("every task waits for something that cannot come any more")
        self.turns += 1
        self._now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are no sockets, so no events."""

    def _write_to_self(self) -> None:
        """Nobody outside of the loop's thread wakes it."""


def simulate(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine on a virtual clock of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
