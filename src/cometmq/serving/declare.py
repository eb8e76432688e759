"""What a handler declares about itself: its code, the permission it needs, its limits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from cometmq.protocol import RequestHeader

F = TypeVar("F", bound=Callable[..., Any])

SMALL = 64 << 10
"""A body that lists a few names. What may be larger says so itself."""

MANY = 10_000
"""Requests of one code that may wait at a time, as the original's smaller queues have it."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What a request needs to be allowed, and the header field that names the resource."""

    kind: Literal["open", "pub", "sub", "admin"]
    resource: Literal["topic", "group", None] = None
    field: str | None = None


OPEN = Permission("open")
ADMIN = Permission("admin")


class Pub:
    """The right to send: to the topic, or as the group, that a field of the header names."""

    topic = staticmethod(partial(Permission, "pub", "topic"))
    group = staticmethod(partial(Permission, "pub", "group"))


class Sub:
    """The right to consume, likewise."""

    topic = staticmethod(partial(Permission, "sub", "topic"))
    group = staticmethod(partial(Permission, "sub", "group"))


@dataclass(frozen=True, slots=True)
class Declared:
    """All that is known of a handler before it runs."""

    header: type[RequestHeader]
    needs: Permission
    largest_body: int
    most_waiting: int


def handles(
    header: type[RequestHeader],
    *,
    needs: Permission,
    largest_body: int = SMALL,
    most_waiting: int = MANY,
) -> Callable[[F], F]:
    """Marks a plain function as the one that serves the codes of this header."""

    def mark(function: F) -> F:
        function.__handles__ = Declared(header, needs, largest_body, most_waiting)  # type: ignore[attr-defined]
        return function

    return mark
