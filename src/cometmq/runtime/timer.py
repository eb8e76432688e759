"""Timer: a call that comes once after a while, and can be called off."""

import asyncio
from collections.abc import Callable


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
