"""The handler table: from a request code to the function that serves it, with its owners bound."""

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from cometmq.protocol import HEADERS, RequestHeader
from cometmq.serving.answers import Outcome, Request
from cometmq.serving.declare import Declared

Served = Callable[[RequestHeader, Request, int], Outcome]


@dataclass(slots=True)
class Entry:
    """One request code: what its handler declared, and how to call it."""

    code: int
    name: str
    declared: Declared
    serve: Served
    waiting: int = 0


class HandlerTable:
    """Every code that a server serves; owners are resolved once, from the annotations."""

    def __init__(self, modules: Iterable[ModuleType], owners: Iterable[object]) -> None:
        self._entries: dict[int, Entry] = {}
        owned = {type(owner): owner for owner in owners}
        for module in modules:
            for function, declared in _marked(module):
                serve = _bind(function, declared, owned)
                for code in [c for c, header in HEADERS.items() if header is declared.header]:
                    if code in self._entries:
                        raise TypeError(f"{function.__qualname__}: code {code} is served already")
                    self._entries[code] = Entry(code, function.__name__, declared, serve)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def find(self, code: int) -> Entry | None:
        """The entry of a code; None where nobody serves it."""
        return self._entries.get(code)


def _marked(module: ModuleType) -> Iterator[tuple[Callable[..., Any], Declared]]:
    for function in vars(module).values():
        if isinstance(declared := getattr(function, "__handles__", None), Declared):
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"{function.__qualname__} is a coroutine; a handler never waits")
            yield function, declared


def _bind(function: Callable[..., Any], declared: Declared, owned: dict[type, object]) -> Served:
    """The function as one of (header, request, now): whatever else it names is an owner."""
    hints = typing.get_type_hints(function)
    given: dict[str, object] = {}
    asks: list[tuple[str, int]] = []
    for name in inspect.signature(function).parameters:
        kind = hints[name]
        if kind is declared.header:
            asks.append((name, 0))
        elif kind is Request:
            asks.append((name, 1))
        elif name == "now_ms":
            asks.append((name, 2))
        elif kind in owned:
            given[name] = owned[kind]
        else:
            raise TypeError(f"{function.__qualname__}: nobody owns {name}: {kind.__name__}")

    def serve(header: RequestHeader, request: Request, now_ms: int) -> Outcome:
        values = (header, request, now_ms)
        return typing.cast(Outcome, function(**given, **{name: values[at] for name, at in asks}))

    return serve
