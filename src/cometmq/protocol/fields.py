"""How every header says what is on the wire: declaring, reading, writing and checking of fields.

A header is a class whose annotations are its fields. `queue_id: Int` travels as `queueId`, is
required, and is checked; `X | None` may be absent; another default is what an absent field means,
and is written like any other value.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from dataclasses import fields as dataclass_fields
from enum import Enum
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    TypeAlias,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import msgspec

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.faults import BadField

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# Java parses one optional sign and digits, nothing else: a leading blank is an error there too.
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}\Z")


def wire_name(attribute: str) -> str:
    """The name on the wire of an attribute: `queue_id` is `queueId`."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _number(bits: int) -> Callable[[str, str], int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(name: str, text: str) -> int:
        if _NUMBER.match(text) and low <= (value := int(text)) <= high:
            return value
        raise BadField(f"the custom field {name} is {text[:40]!r}, expected a {bits}-bit integer")

    return read


def _choice(kind: type[Enum]) -> Callable[[str, str], Enum]:
    def read(name: str, text: str) -> Enum:
        try:
            return kind(text)
        except ValueError:
            names = " or ".join(str(one.value) for one in kind)
            raise BadField(f"the custom field {name} is {text[:40]!r}, expected {names}") from None

    return read


_READERS: dict[Any, Callable[[str, str], Any]] = {
    str: lambda name, text: text,
    bool: lambda name, text: text.lower() == "true",
    Int: _number(32),
    Long: _number(64),
}


class Field(NamedTuple):
    """One declared field of a header."""

    attribute: str
    name: str
    read: Callable[[str, str], Any]
    default: Any  # MISSING: required

    @classmethod
    def declared(cls, attribute: str, name: str, hint: Any, default: Any) -> Self:
        """What an annotation of a header says; one that may be None is never required."""
        if type(None) in get_args(hint):
            hint, default = get_args(hint)[0], None if default is MISSING else default
        is_choice = isinstance(hint, type) and issubclass(hint, Enum)
        return cls(attribute, name, _choice(hint) if is_choice else _READERS[hint], default)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Header:
    """The custom fields of one kind of command, typed."""

    table: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls, *, names: Mapping[str, str] | None = None) -> None:
        dataclass(frozen=True)(cls)
        hints = get_type_hints(cls, include_extras=True)
        renamed = {one.attribute: one.name for one in cls.table} | dict(names or {})
        cls.table = tuple(
            Field.declared(
                one.name, renamed.get(one.name, wire_name(one.name)), hints[one.name], one.default
            )
            for one in dataclass_fields(cls)  # type: ignore[arg-type]  # it is one, as of above
        )

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Self:
        """Take what this header declares out of the fields of a command, or raise BadField."""
        values = {}
        for attribute, name, read, default in cls.table:
            text = fields.get(name)
            if text is not None:
                values[attribute] = read(name, text)
            elif default is MISSING:
                raise BadField(f"the custom field {name} is null")
            else:
                values[attribute] = default
        header = object.__new__(cls)
        header.__dict__.update(values)  # a frozen __init__ sets each by itself, at twice the time
        return header

    def fields(self) -> dict[str, str]:
        """What goes on the wire: every value that is not None, as text."""
        written = {}
        for attribute, name, _, _ in self.table:
            value = getattr(self, attribute)
            if value is True or value is False:
                written[name] = "true" if value else "false"
            elif value is not None:
                written[name] = value if type(value) is str else str(value)
        return written


class ResponseHeader(Header):
    """The custom fields of an answer."""


HEADERS: dict[int, type["RequestHeader"]] = {}


_COMMON = {
    "namespace": "ns",
    "namespaced": "nsd",
    "broker": "bname",
    "no_answer": "oway",
    "logical_queue": "lo",
}


class RequestHeader(Header, names=_COMMON):
    """The custom fields of a request; those declared here may come with any (spec 01 6.4)."""

    code: ClassVar[RequestCode]
    answer: ClassVar[type[ResponseHeader]]

    namespace: str | None = field(default=None, kw_only=True)
    namespaced: bool | None = field(default=None, kw_only=True)
    broker: str | None = field(default=None, kw_only=True)
    no_answer: bool | None = field(default=None, kw_only=True)
    logical_queue: bool | None = field(default=None, kw_only=True)

    def __init_subclass__(
        cls,
        *,
        code: RequestCode,
        also: tuple[RequestCode, ...] = (),
        answer: type[ResponseHeader] = ResponseHeader,
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init_subclass__(names=names)
        cls.code, cls.answer = code, answer
        HEADERS.update(dict.fromkeys((code, *also), cls))
