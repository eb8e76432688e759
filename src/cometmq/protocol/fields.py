"""How every header says what is on the wire: declaring, reading, writing and checking of fields.

A header is a class whose annotations are its fields. `queue_id: Int` travels as `queueId`, is
required, and is checked; `X | None` may be absent; another default is what an absent field means,
and is written like any other value.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Annotated, Any, ClassVar, Self, dataclass_transform, get_args, get_type_hints

import msgspec

from cometmq.protocol.codes import BadRequest

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_LIMITS = {Int: 2**31, Long: 2**63}

# Java parses one optional sign and digits, nothing else: a leading blank is an error there too.
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}\Z")


class BadField(BadRequest):
    """A field of the header is missing or has a value of the wrong kind."""


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field of a header."""

    attribute: str
    name: str
    kind: Any  # str, bool, an enumeration of texts, or what a number is less than
    default: Any  # MISSING: required

    def meaning(self, text: str) -> Any:
        """What the text of a field of another kind than str means, or BadField."""
        if self.kind is bool:
            return text.lower() == "true"
        if isinstance(self.kind, int):
            if _NUMBER.match(text) and -self.kind <= (value := int(text)) < self.kind:
                return value
            expected = f"a {self.kind.bit_length()}-bit integer"
        else:
            choices = {str(one.value): one for one in self.kind}
            if text in choices:
                return choices[text]
            expected = " or ".join(choices)
        raise BadField(f"the custom field {self.name} is {text[:40]!r}, expected {expected}")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Header:
    """The custom fields of one kind of command, typed."""

    table: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls, *, names: Mapping[str, str] | None = None) -> None:
        dataclass(frozen=True)(cls)
        hints = get_type_hints(cls, include_extras=True)
        known = {one.attribute: one.name for one in cls.table} | dict(names or {})
        table = []
        for one in dataclass_fields(cls):  # type: ignore[arg-type]  # it is one, as of above
            kind, default = hints[one.name], one.default
            if type(None) in get_args(kind):  # what may be None is never required
                kind, default = get_args(kind)[0], None if default is MISSING else default
            first, *rest = one.name.split("_")
            name = known.get(one.name) or first + "".join(map(str.capitalize, rest))
            table.append(Field(one.name, name, _LIMITS.get(kind, kind), default))
        cls.table = tuple(table)

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Self:
        """Take what this header declares out of the fields of a command, or raise BadField."""
        values = {}
        for one in cls.table:
            text = fields.get(one.name)
            if text is not None:
                values[one.attribute] = text if one.kind is str else one.meaning(text)
            elif one.default is MISSING:
                raise BadField(f"the custom field {one.name} is null")
            else:
                values[one.attribute] = one.default
        header = object.__new__(cls)
        header.__dict__.update(values)  # a frozen __init__ sets each by itself, at twice the time
        return header

    def fields(self) -> dict[str, str]:
        """What goes on the wire: every value that is not None, as text."""
        written = {}
        for one in self.table:
            value = getattr(self, one.attribute)
            if value is not None:
                written[one.name] = str(value).lower() if isinstance(value, bool) else str(value)
        return written


class ResponseHeader(Header):
    """The custom fields of an answer."""


HEADERS: dict[int, type["RequestHeader"]] = {}


class RequestHeader(Header, names={"broker": "bname"}):
    """The custom fields of a request. Of those that may come with any (spec 01 6.4), only the name
    of the broker means something here.
    """

    code: ClassVar[int]

    broker: str | None = field(default=None, kw_only=True)

    def __init_subclass__(
        cls, *, code: int, also: tuple[int, ...] = (), names: Mapping[str, str] | None = None
    ) -> None:
        super().__init_subclass__(names=names)
        cls.code = code
        HEADERS.update(dict.fromkeys((code, *also), cls))
