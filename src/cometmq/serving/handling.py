"""Handlers: what one declares, is given and may return, who may ask it, and a server's table."""

import inspect
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from cometmq.net import Address, Connection
from cometmq.protocol import HEADERS, Command, RequestHeader, ResponseCode, ResponseHeader
from cometmq.runtime import BadSetting, Refused, is_loopback

F = TypeVar("F", bound=Callable[..., Any])

SMALL = 64 << 10
"""A body that lists a few names. What may be larger says so itself."""

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""How the original ends what it says to users who may only have forgotten something."""

MANY = 10_000
"""Requests of one code that may wait at a time, as the original's smaller queues have it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with more than a header: a body, another code, a remark."""

    header: ResponseHeader | None = None
    body: bytes = b""
    code: int = ResponseCode.SUCCESS
    remark: str | None = None


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


Said: TypeAlias = ResponseHeader | Answer | bytes | None
"""An answer. Bytes: one that the kernel has written. None: whoever took the request in answers it,
as a send by its watermark."""
Outcome: TypeAlias = Said | Wait


@dataclass(frozen=True, slots=True)
class Permission:
    """What a request needs to be allowed, and the header field that names the resource."""

    kind: Literal["open", "pub", "sub", "admin"]
    topic: str | None = None
    group: str | None = None


OPEN = Permission("open")
ADMIN = Permission("admin")
Pub = partial(Permission, "pub")
"""The right to send to the topic that a field of the header names."""
Sub = partial(Permission, "sub")
"""The right to consume the topic, or as the group, that a field of the header names."""

Served = Callable[[RequestHeader, Command, Connection, int], Outcome]
ASKED = ("ask", "request", "connection", "now_ms")
"""The same, by the names of a handler's parameters."""


@dataclass(slots=True)
class Handler:
    """A function that serves a request code, and all that is known of it before it runs."""

    name: str
    header: type[RequestHeader]
    needs: Permission
    largest_body: int
    most_waiting: int
    serve: Served
    waiting: int = 0


def handles(
    header: type[RequestHeader],
    *,
    needs: Permission,
    largest_body: int = SMALL,
    most_waiting: int = MANY,
) -> Callable[[F], F]:
    """Marks a plain function as the one that serves the codes of this header, and of those that say
    the same in other names."""

    def mark(function: F) -> F:
        handler = Handler(function.__name__, header, needs, largest_body, most_waiting, function)
        function.__handles__ = handler  # type: ignore[attr-defined]
        return function

    return mark


class Gate:
    """Who may ask what, before a handler sees it.

    Only the administrative codes are guarded yet: a server that others can reach serves them to
    this machine and to the addresses its operator named, to nobody else (design, "Security").
    """

    def __init__(self, bound: str, admin_allowed: tuple[str, ...] = ()) -> None:
        self._guarded = not is_loopback(bound)
        try:
            self._allowed = [ipaddress.ip_network(one, strict=False) for one in admin_allowed]
        except ValueError as error:
            raise BadSetting(
                f"adminAllowedAddresses={';'.join(admin_allowed)}: expected addresses or networks "
                f"like 10.0.0.7;10.1.0.0/16 ({error})"
            ) from None

    def check(self, handler: Handler, local: Address, peer: Address) -> None:
        """Refused where the peer may not ask this."""
        # One address at both ends: the peer is this machine.
        is_here = is_loopback(peer.host) or peer.host == local.host
        if handler.needs.kind != "admin" or not self._guarded or is_here:
            return
        if not any(ipaddress.ip_address(peer.host) in one for one in self._allowed):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"{handler.name} is an administrative request, and {peer.host} is not allowed to "
                "make it: ask from the server's own machine, or name the address in "
                "adminAllowedAddresses",
            )


def handler_table(modules: Iterable[ModuleType], owners: Iterable[object]) -> dict[int, Handler]:
    """Every code that a server serves; owners are resolved once, from the annotations."""
    table: dict[int, Handler] = {}
    owned = {type(owner): owner for owner in owners}
    for function in [one for module in modules for one in vars(module).values()]:
        handler = getattr(function, "__handles__", None)
        if not isinstance(handler, Handler):
            continue
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is a coroutine; a handler never waits")
        serve = _bind(function, owned)
        for code, header in HEADERS.items():
            if not issubclass(header, handler.header):
                continue
            if code in table:
                raise TypeError(f"{function.__qualname__}: code {code} is served already")
            table[code] = replace(handler, header=header, serve=serve)
    return table


def _bind(function: Callable[..., Any], owned: dict[type, object]) -> Served:
    """The function as one of what is asked, by whom and when: what else it names is an owner."""
    named = inspect.signature(function, eval_str=True).parameters
    given = {name: named[name].annotation for name in named if name not in ASKED}
    for name, kind in given.items():
        if kind not in owned:
            raise TypeError(f"{function.__qualname__}: nobody owns {name}: {kind.__name__}")
    bound = partial(function, **{name: owned[kind] for name, kind in given.items()})

    def serve(*asked: object) -> Outcome:
        wanted = {name: one for name, one in zip(ASKED, asked, strict=True) if name in named}
        return cast(Outcome, bound(**wanted))

    return serve
