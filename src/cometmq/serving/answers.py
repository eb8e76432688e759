"""What a handler is given besides its typed header, and the few things that it may return."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from cometmq.net import Connection
from cometmq.protocol import ResponseCode, ResponseHeader


@dataclass(frozen=True, slots=True)
class Request:
    """A request beside its header: who asks, how, and with which body."""

    connection: Connection
    code: int
    codec: int
    opaque: int
    version: int
    oneway: bool = False
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with more than a header: a body, another code, a remark, free fields."""

    header: ResponseHeader | None = None
    body: bytes = b""
    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    extra: dict[str, str] = field(default_factory=dict)


class Refusal(Answer):
    """An answer that says no: what was looked for, and what to do."""

    __slots__ = ()


def refuse(code: int, remark: str) -> Refusal:
    """Says no with a code and a sentence."""
    return Refusal(code=code, remark=remark)


class On(Protocol):
    """Something that may come: a watermark, a queue's next message, a cold read."""

    def watch(self, tell: Callable[[object], None]) -> Callable[[], None]:
        """Calls `tell` when it comes, later and perhaps more than once; the result ends that."""


@dataclass(frozen=True, slots=True)
class Wait:
    """No answer yet: when `on` comes or `until_ms` passes, `then` decides on the state of then.

    `then` is given the time. It may wait again, with its deadline unchanged; once that has
    passed it must answer.
    """

    on: On
    until_ms: int
    then: Callable[[int], "Outcome"]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The request was taken in, and whoever took it answers it: a send, by its watermark."""


Outcome: TypeAlias = ResponseHeader | Answer | Wait | Elsewhere
