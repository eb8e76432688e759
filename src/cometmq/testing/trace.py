"""Trace: a digest of everything that happened in a run, to see that a seed gives one run."""

import hashlib


class Trace:
    """Counts and digests events, in their order."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self.events = 0

    def add(self, *parts: object) -> None:
        """One more event; parts are texts, numbers, bytes or tuples of them."""
        self.events += 1
        for part in parts:
            self._digest.update(part if isinstance(part, bytes) else repr(part).encode())
            self._digest.update(b"\x00")

    def digest(self) -> str:
        """What all events come to."""
        return self._digest.hexdigest()
