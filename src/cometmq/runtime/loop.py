"""What lives on the loop: signals to those who watch, timers, and scopes, which own tasks.

asyncio's own task group keeps its tasks in a set and cancels them in an order that no seed
repeats (design, "State machines without I/O"); a scope keeps them in the order of their start.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")


class Signal(Generic[T]):
    """Watchers are told of each value, in the order in which they came, until they stop."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        # A dict and not a list: a queue with thousands of held pulls drops one in O(1), and the
        # order of telling stays the order of arrival.
        self._watchers: dict[Callable[[T], None], None] = {}

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def watch(self, tell: Callable[[T], None]) -> Callable[[], None]:
        """Calls `tell` with each value from now on, once even if it watches already; calling what
        is returned ends that."""
        self._watchers[tell] = None
        return lambda: self._watchers.pop(tell, None)

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
        for tell in list(self._watchers):
            if tell in self._watchers:  # an earlier watcher may have ended a later one
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


class Scope:
    """Ends all its tasks, newest first, when its block ends; the first failure ends the block."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._owner: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        return self

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Starts a task that ends with this scope at the latest."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        del self._tasks[task]
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._failure is None:
            self._failure = error
            # Only a block that is still running is interrupted: a scope that ends by itself
            # raises the failure from its own end.
            if self._owner is not None and not self._closing and not self._owner.done():
                self._owner.cancel()

    async def close(self) -> None:
        """Cancels what still runs, newest first, and waits for its end."""
        self._closing = True
        interrupted: asyncio.CancelledError | None = None
        while self._tasks:
            newest = next(reversed(self._tasks))
            newest.cancel()
            ended = asyncio.gather(newest, return_exceptions=True)
            while not ended.done():
                try:
                    await asyncio.shield(ended)  # a plain await would cancel it with us
                except asyncio.CancelledError as error:
                    interrupted = error  # someone wants us to end: first our own tasks, then we
        if interrupted is not None:
            raise interrupted

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close()
        if self._failure is None:
            return
        if isinstance(error, asyncio.CancelledError) and self._owner is not None:
            self._owner.uncancel()
            raise self._failure from None
        if error is None:
            raise self._failure
