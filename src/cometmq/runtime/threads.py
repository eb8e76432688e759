"""Threads: blocking work that the loop hands over and gets back; nothing else leaves the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


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
        """Does `work` in the lane's thread."""
        pool = self._lanes.get(lane)
        if pool is None:
            pool = self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=f"comet-{lane}")
        return asyncio.get_running_loop().run_in_executor(pool, work)

    def close(self) -> None:
        """Waits for what was handed over and ends the threads."""
        for pool in self._lanes.values():
            pool.shutdown(wait=True)
        self._lanes.clear()
