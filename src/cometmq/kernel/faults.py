"""The root of every error that leaves the house, and the one way in which bytes can be wrong."""

from collections.abc import Sequence


class CometError(Exception):
    """Something went wrong; the text says what was expected, what came and what to do."""

    code: int | None = None
    """The response code of the wire, where the error maps to one."""


class Malformed(CometError, ValueError):
    """Bytes that break their format: the text says what was expected and what came.

    `before` holds what was complete in front of them in the same read: it was asked properly and
    is answered before the connection ends (golden/remoting/refused.jsonl, "one more behind it").
    """

    def __init__(self, text: str, before: Sequence[object] = ()) -> None:
        super().__init__(text)
        self.before = before
