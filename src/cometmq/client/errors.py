"""What comes of a send, and what can go wrong for a client; texts say what was tried, where, how
long, and what to do.
"""

from dataclasses import dataclass

from cometmq.runtime import CometError


@dataclass(frozen=True)
class Receipt:
    """Where a message is that a broker has taken; of a batch, where its first message is."""

    message_id: str
    """The id that the client made; it stays the same however often the message is sent."""
    offset_message_id: str
    """The id that says where the broker stored it; of a batch, all of them, parted by commas."""
    topic: str
    broker: str
    queue_id: int
    queue_offset: int


class ClientError(CometError):
    """The root of a client's errors."""


class NotRunning(ClientError):
    """A producer or consumer was used outside of its `async with` block."""


class NoRoute(ClientError):
    """No name server knows a broker that has the topic."""


class BrokerRefused(ClientError):
    """A broker said no, with a code and a remark."""

    def __init__(self, what: str, where: str, code: int, remark: str | None) -> None:
        super().__init__(f"{what}: {where} refused with code {code}: {remark or 'no remark'}")
        self.code = code
        self.remark = remark


class SendFailed(ClientError):
    """No try of a send succeeded; a try that was not answered may have been stored all the same."""


class NotConfirmed(ClientError):
    """The message is stored, but less surely than was asked for; `receipt` says where."""

    def __init__(self, text: str, code: int, receipt: Receipt) -> None:
        super().__init__(text)
        self.code = code
        self.receipt = receipt
