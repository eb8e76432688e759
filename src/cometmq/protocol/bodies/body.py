"""How every body is read and written: a typed struct, whatever dialect of JSON it came in.

Strict JSON of the expected types, the usual case, is decoded by msgspec in one step. All else
(unquoted keys, nulls, numbers as texts, references) is read by `fastjson` and then fitted to the
same types, as leniently as the original does it.
"""

import functools
import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Self, Union, get_args, get_origin, get_type_hints

import msgspec

import cometmq.protocol.fastjson as fastjson
from cometmq.protocol.faults import BadBody
from cometmq.protocol.fields import Long

Fit = Callable[[Any], Any]


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON body: unknown members are ignored, missing ones and nulls are their default."""

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Decode, or raise BadBody with what was expected."""
        decoder = _decoder(cls)
        if decoder is not None and b"$ref" not in data:
            try:
                return decoder.decode(data)  # type: ignore[no-any-return]
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # not as strict as that
        return cls.fit(fastjson.loads(data))

    @classmethod
    def fit(cls, value: Any) -> Self:
        """The same from what `fastjson` has read."""
        return _struct(cls)(value)  # type: ignore[no-any-return]

    def write(self, *, strict: bool = False, pretty: bool = False) -> bytes:
        """Encode in one of the three forms of `fastjson.dumps`."""
        return fastjson.dumps(self, strict=strict, pretty=pretty)

    def but(self, **changes: Any) -> Self:
        """The same with some members changed."""
        return msgspec.structs.replace(self, **changes)


@functools.cache
def _decoder(kind: type[Body]) -> msgspec.json.Decoder[Any] | None:
    try:
        return msgspec.json.Decoder(kind, strict=False)
    except TypeError:  # a map keyed by objects: only the dialect can carry it
        return None


@functools.cache
def _fit(kind: Any) -> Fit:
    """The function that makes a value of this type out of anything close to it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        only = _fit(next(one for one in inner if one is not type(None)))
        return lambda value: None if value is None else only(value)
    if origin is Annotated:
        return _whole(inner[1])
    if origin in (list, tuple):
        return _sequence(origin, _fit(inner[0]))
    if origin is dict:
        return _map(_fit(inner[0]), _fit(inner[1]))
    if kind in _SCALARS:
        return _SCALARS[kind]
    return _struct(kind)


def _struct(kind: type[Body]) -> Fit:
    hints = get_type_hints(kind, include_extras=True)
    fits = {name: (at, _fit(hints[at])) for at, name in fastjson.members_of(kind)}

    def fit(value: Any) -> Any:
        if isinstance(value, fastjson.Key):
            value = dict(value)
        elif isinstance(value, str):  # the key of a map, quoted
            value = fastjson.loads(value)
        if not isinstance(value, dict):
            raise _unfit(f"an object ({kind.__name__})", value)
        known = ((fits[name], member) for name, member in value.items() if name in fits)
        return kind(**{at: member(given) for (at, member), given in known if given is not None})

    return fit


def _sequence(kind: type, one: Fit) -> Fit:
    def fit(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _unfit("a list", value)
        return kind(map(one, value))

    return fit


def _map(key: Fit, member: Fit) -> Fit:
    def fit(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _unfit("an object", value)
        return {key(name): member(given) for name, given in value.items() if given is not None}

    return fit


def _whole(limits: msgspec.Meta) -> Fit:
    def fit(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch("[+-]?[0-9]{1,19}", value):
            value = int(value)
        if isinstance(value, int | float) and limits.ge <= value <= limits.le:  # type: ignore[operator]
            return int(value)
        raise _unfit("an integer", value)

    return fit


def _text(value: Any) -> str:
    return value if isinstance(value, str) else fastjson.dumps(value).decode()


def _truth(value: Any) -> bool:
    if value in (True, False):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    raise _unfit("true or false", value)


def _double(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _unfit("a number", value) from None


def _unfit(expected: str, value: Any) -> BadBody:
    return BadBody(f"expected {expected}, got {str(value)[:40]!r}")


_SCALARS: dict[Any, Fit] = {
    str: _text,
    bool: _truth,
    float: _double,
    int: _whole(get_args(Long)[1]),
}
