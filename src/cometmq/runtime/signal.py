"""What tells that something has come: signals to those who watch, timers after a while."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Signal(Generic[T]):
    """Watchers are told of each value, in the order in which they came, until they stop."""

    __slots__ = ("_next", "_watchers")

    def __init__(self) -> None:
        # A dict and not a list: a queue with thousands of held pulls drops one in O(1), and the
        # order of telling stays the order of arrival.
        self._watchers: dict[int, Callable[[T], None]] = {}
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def watch(self, tell: Callable[[T], None]) -> Callable[[], None]:
        """Calls `tell` with each value from now on; calling what is returned ends that."""
        key = self._next
        self._next += 1
        self._watchers[key] = tell
        return lambda: self._watchers.pop(key, None) and None

    async def next(self) -> T:
        """Waits for the next value."""
        coming: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        unwatch = self.watch(lambda value: None if coming.done() else coming.set_result(value))
        try:
            return await coming
        finally:
            unwatch()

    def fire(self, value: T) -> None:
        """Tells everyone who watches at this moment."""
        for key, tell in list(self._watchers.items()):
            if key in self._watchers:  # an earlier watcher may have ended a later one
                tell(value)


class Timer:
    """Calls `work` on the loop; true while that is still to come."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._handle: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return self._handle is not None

    def start(self, after_s: float) -> None:
        """Calls after so many seconds; one that runs already stays as it is."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(after_s, self._due)

    def _due(self) -> None:
        self._handle = None
        self._work()

    def stop(self) -> None:
        """Calls no more, until it is started again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
