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
            try:
                # A plain await of the task would cancel us with it.
                await asyncio.shield(asyncio.gather(newest, return_exceptions=True))
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
