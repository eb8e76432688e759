"""What can go wrong for a client; texts say what was tried, where, how long, and what to do."""

from cometmq.client.receipt import Receipt
from cometmq.runtime import CometError


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
