"""Time and chance, as far as nobody handed in others."""

import asyncio
import time
from collections.abc import Callable
from random import Random
from typing import cast


class Clock:
    """The time: of the wall for what is stored and shown, of the loop for what is waited for.

    It is that of the loop it runs on; a loop with a wall of its own is a virtual one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self.time: Callable[[], float] = self._loop.time
        # The virtual loop of the testing kit brings its own wall clock, so that one seam (the
        # loop) decides all time in a run; nothing else in the house may ask the machine.
        self._wall = cast(Callable[[], float], getattr(self._loop, "wall_time", time.time))

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the wall clock has them."""
        return int(self._wall() * 1000)


def fresh() -> Random:
    """A generator that no seed repeats; a simulation hands in one of its own instead."""
    return Random()
