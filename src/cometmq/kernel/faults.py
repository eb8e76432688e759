"""The one way in which bytes can be wrong."""

from collections.abc import Sequence


class Malformed(ValueError):
    """Bytes that break their format: the text says what was expected and what came.

    `before` holds what was complete in front of them in the same read: it was asked properly and
    is answered before the connection ends (golden/remoting/refused.jsonl, "one more behind it").
    """

    def __init__(self, text: str, before: Sequence[object] = ()) -> None:
        super().__init__(text)
        self.before = before
