"""The root of every error that leaves the house, and the families that belong to no single room."""


class CometError(Exception):
    """Something went wrong; the text says what was expected, what came and what to do."""

    code: int | None = None
    """The response code of the wire, where the error maps to one."""


class BadSetting(CometError):
    """A setting or an argument that cannot be used; nothing was started."""


class TimedOut(CometError, TimeoutError):
    """An answer or a condition did not come within its time."""
