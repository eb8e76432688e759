"""Scope: owns tasks, so that none outlives its owner.

asyncio's own task group keeps its tasks in a set and cancels them in an order that no seed
repeats (design, "State machines without I/O"); a scope keeps them in the order of their start.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self


class Scope:
    """Ends all its tasks, newest first, when its block ends; the first failure ends the block."""

    def __init__(self) -> None:
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._next = 0
        self._owner: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        return self

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Starts a task that ends with this scope at the latest."""
        key = self._next
        self._next += 1
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: int, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(key, None)
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
            newest = next(reversed(self._tasks.values()))
            newest.cancel()
            try:
                # A plain await of the task would cancel us with it.
                await asyncio.shield(_outcome(newest))
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


def _outcome(task: "asyncio.Task[Any]") -> "asyncio.Future[None]":
    """A future that is done when the task is, whatever came of it."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(_: "asyncio.Task[Any]") -> None:
        if not done.done():
            done.set_result(None)

    task.add_done_callback(tell)
    return done
