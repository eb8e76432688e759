"""Families of errors that belong to no single room; their root lives as low as all rooms reach."""

from cometmq.kernel.faults import CometError

__all__ = ["BadSetting", "CometError", "TimedOut"]


class BadSetting(CometError):
    """A setting or an argument that cannot be used; nothing was started."""


class TimedOut(CometError, TimeoutError):
    """An answer or a condition did not come within its time."""
