"""Families of errors that belong to no single room; their root lives as low as all rooms reach."""

from cometmq.kernel.faults import CometError

__all__ = ["BadSetting", "CometError", "Refused", "TimedOut"]


class BadSetting(CometError):
    """A setting or an argument that cannot be used; nothing was started."""


class Refused(CometError):
    """The answer is no: its response code, what was looked for, and what to do."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code: int = code


class TimedOut(CometError, TimeoutError):
    """An answer or a condition did not come within its time."""
