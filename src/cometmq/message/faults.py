"""What is wrong with a message that somebody wants to send, or with the id of one."""

from cometmq.kernel.faults import CometError


class BadMessage(CometError, ValueError):
    """This message cannot be sent; `code` is the response code that a broker would give, if any."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class BadId(CometError, ValueError):
    """This text is no id of a message."""
