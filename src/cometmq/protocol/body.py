"""How every body is read and written: a typed struct, whatever dialect of JSON it came in.

Strict JSON of the expected types, the usual case, is decoded by msgspec in one step. All else
(unquoted keys, nulls, numbers as texts, references) is read by `fastjson` and then fitted to the
same types, as leniently as the original does it.
"""

import functools
import re
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

import msgspec

import cometmq.protocol.fastjson as fastjson
from cometmq.protocol.fastjson import BadBody

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}\Z")


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON body: unknown members are ignored, missing ones and nulls are their default."""

    refers: ClassVar[bool] = True
    """Whether it may hold anything, and `{"$ref": path}` in it stands for something else."""

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Decode, or raise BadBody with what was expected."""
        decoder = _decoder(cls)
        odd = cls.refers and (b"$ref" in data or fastjson.too_deep(data))
        if decoder is not None and not odd:
            try:
                return decoder.decode(data)  # type: ignore[no-any-return]
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # not as strict as that
        return _fit(cls, fastjson.loads(data, refers=cls.refers))  # type: ignore[no-any-return]

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


def _fit(kind: Any, value: Any) -> Any:
    """A value of this type out of anything close to it."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        return None if value is None else _fit(inner[0], value)
    if origin is dict and isinstance(value, dict):
        return {_fit(inner[0], k): _fit(inner[1], v) for k, v in value.items() if v is not None}
    if origin in (list, tuple) and isinstance(value, list | tuple):
        return origin(_fit(inner[0], one) for one in value)
    if origin is not None and origin is not Annotated:
        raise _unfit("an object" if origin is dict else "a list", value)
    if kind is Any:
        return value
    if kind is str:
        return value if isinstance(value, str) else fastjson.dumps(value).decode()
    return _struct(kind, value) if isinstance(kind, type(Body)) else _scalar(kind, value)


def _scalar(kind: Any, value: Any) -> bool | int:
    if kind is bool:
        if str(value).lower() in ("true", "false", "1", "0"):
            return str(value).lower() in ("true", "1")
        raise _unfit("true or false", value)
    try:
        if not isinstance(value, str) or _WHOLE.match(value):
            return msgspec.convert(int(value), kind)  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError):
        pass
    raise _unfit("an integer", value)


def _struct(kind: type[Body], value: Any) -> Any:
    if isinstance(value, str):  # the key of a map
        value = fastjson.loads(value)
    if not isinstance(value, dict):
        raise _unfit(f"an object ({kind.__name__})", value)
    known = [one for one in fastjson.members_of(kind) if value.get(one.encode_name) is not None]
    return kind(**{one.name: _fit(one.type, value[one.encode_name]) for one in known})


def _unfit(expected: str, value: Any) -> BadBody:
    return BadBody(f"expected {expected}, got {str(value)[:40]!r}")
