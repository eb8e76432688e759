"""What a handler declares about itself: its code, the permission it needs, its limits."""

from collections.abc import Callable
from dataclasses import dataclass
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
    """The right to send."""

    @staticmethod
    def topic(field: str) -> Permission:
        """To the topic that this field names."""
        return Permission("pub", "topic", field)

    @staticmethod
    def group(field: str) -> Permission:
        """As the group that this field names."""
        return Permission("pub", "group", field)


class Sub:
    """The right to consume."""

    @staticmethod
    def topic(field: str) -> Permission:
        """From the topic that this field names."""
        return Permission("sub", "topic", field)

    @staticmethod
    def group(field: str) -> Permission:
        """As the group that this field names."""
        return Permission("sub", "group", field)


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
