"""The JSON of the original's bodies and files (spec 01 ch. 12): a tolerant reader and a writer of
three forms.
"""

import functools
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from cometmq.protocol.faults import BadBody

DEEPEST = 100  # levels of nesting; no body or file of the original comes near
MOST_REFERENCES = 1000


class Key(tuple[tuple[str, Any], ...]):
    """An object that is the key of a map: its members sorted by name, hashable."""


def loads(data: bytes | str) -> Any:
    """Read one value in the dialect; strict JSON, its usual case, takes the short way."""
    try:
        text = data if isinstance(data, str) else str(data, "utf-8-sig")
    except UnicodeDecodeError as why:
        raise BadBody(f"expected UTF-8: {why}") from None
    try:
        if _depth(text) > DEEPEST:
            raise msgspec.DecodeError  # the reader says where
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        value = _Reader(text).document()
    return _References().resolve(value) if "$ref" in text else value


# A string runs to its end or to that of the text, so that no text takes more than one pass.
_BRACE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _depth(text: str) -> int:
    depth = most = 0
    if text.count("{") + text.count("[") <= DEEPEST:
        return 0  # it cannot be too deep
    for brace in _BRACE.findall(text):
        depth += (brace in "[{") - (brace in "]}")
        most = max(most, depth)
    return most


_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMAS = re.compile(r"(?:[\s\ufeff,]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"([+-]?)(\d++\.?+\d*+|\.\d++)([eE][+-]?\d++)?[LSBFD]?(?![\w.$])", re.ASCII)
_WORD = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_CHUNK = {quote: re.compile(rf"[^\\{quote}]*") for quote in "\"'"}
_ESCAPE = re.compile(r"u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7])|([\"'\\/bfnrtvF])")
_ESCAPED = dict(zip("\"'\\/bfnrtvF", "\"'\\/\b\f\n\r\t\v\f", strict=True))
_WORDS = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}


class _Reader:
    """Reads all that fastjson reads in these bodies; of equal names the last one counts."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> Any:
        value = self._value(0)
        self._skip()
        if self.at < len(self.text):
            raise self._fault("nothing behind the value")
        return value

    def _fault(self, expected: str) -> BadBody:
        came = self.text[self.at : self.at + 20]
        return BadBody(f"at {self.at}: expected {expected}, got {came!r}")

    def _skip(self, blank: re.Pattern[str] = _BLANK) -> str:
        """The next character that means something, "" at the end; it is not taken."""
        match = blank.match(self.text, self.at)
        assert match is not None, "the pattern matches nothing too"
        self.at = match.end()
        return self.text[self.at : self.at + 1]

    def _value(self, depth: int) -> Any:
        here = self._skip()
        if here in ('"', "'"):
            return self._string(here)
        if here in ("{", "["):
            if depth >= DEEPEST:
                raise self._fault(f"at most {DEEPEST} levels")
            self.at += 1
            return self._object(depth + 1) if here == "{" else self._list(depth + 1)
        if match := _NUMBER.match(self.text, self.at):
            return self._number(match)
        if (match := _WORD.match(self.text, self.at)) and match[0] in _WORDS:
            self.at = match.end()
            return _WORDS[match[0]]
        raise self._fault("a value")

    def _object(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        while (here := self._skip(_COMMAS)) != "}":
            key = self._key(here, depth)
            if self._skip() != ":":
                raise self._fault("a colon")
            self.at += 1
            members[key] = self._value(depth)
            if self._skip() not in (",", "}"):
                raise self._fault("a comma or }")
        self.at += 1
        return members

    def _key(self, here: str, depth: int) -> Any:
        if here in ('"', "'"):
            return self._string(here)
        if here in ("{", "["):
            return _frozen(self._value(depth))
        if match := _NUMBER.match(self.text, self.at):
            return self._number(match)
        if match := _WORD.match(self.text, self.at):
            self.at = match.end()
            return match[0]
        raise self._fault("a name or }")

    def _list(self, depth: int) -> list[Any]:
        items = []
        while self._skip(_COMMAS) != "]":
            items.append(self._value(depth))
            if self._skip() not in (",", "]"):
                raise self._fault("a comma or ]")
        self.at += 1
        return items

    def _number(self, match: re.Match[str]) -> int | float:
        sign, digits, exponent = match.groups()
        if len(digits) > 400:
            raise self._fault("a shorter number")
        self.at = match.end()
        if exponent or "." in digits:
            return float(sign + digits + (exponent or ""))
        return int(sign + digits)

    def _string(self, quote: str) -> str:
        self.at += 1
        parts = []
        while True:
            match = _CHUNK[quote].match(self.text, self.at)
            assert match is not None, "the pattern matches nothing too"
            parts.append(match[0])
            self.at = match.end() + 1
            if self.text[match.end() : self.at] == quote:
                break
            escape = _ESCAPE.match(self.text, self.at)
            if escape is None:
                raise self._fault("an escape or the end of the string")
            code = escape[1] or escape[2] or escape[3]
            parts.append(chr(int(code, 16)) if code else _ESCAPED[escape[4]])
            self.at = escape.end()
        text = "".join(parts)
        if text.isascii():
            return text
        # Two halves of a pair come as two escapes; a lone one leaves Java as ?, and so it does us.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return whole.encode(errors="replace").decode()


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return Key(sorted((str(name), _frozen(member)) for name, member in value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]", re.DOTALL)


class _References:
    """Puts what `{"$ref": path}` names in its place.

    Only a value that is complete before the reference counts, as the original writes them: a path
    to anything else ("@" and ".." always) is None, so that nothing read here contains itself.
    """

    def __init__(self) -> None:
        self.root: Any = None
        self.complete: set[int] = set()
        self.left = MOST_REFERENCES

    def resolve(self, value: Any) -> Any:
        self.root = value
        return self._walk(value)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, list):
            value[:] = map(self._walk, value)
        elif isinstance(value, dict):
            if isinstance(path := value.get("$ref"), str):
                return self._named(path)
            members = [(self._key(key), member) for key, member in value.items()]
            value.clear()
            value.update(members)
            for key, member in members:  # in place: what comes later may name it by its path
                value[key] = self._walk(member)
        else:
            return value
        self.complete.add(id(value))
        return value

    def _key(self, key: Any) -> Any:
        if isinstance(key, Key) and key[0][0] == "$ref":
            return _frozen(self._named(str(key[0][1])))
        return key

    def _named(self, path: str) -> Any:
        self.left -= 1
        if self.left < 0:  # each is small and may stand for much
            raise BadBody(f"more than {MOST_REFERENCES} references in one document")
        value = self.root if path.startswith("$") else None
        for name, index in _STEP.findall(path):
            if isinstance(value, list) and index and int(index) < len(value):
                value = value[int(index)]
            else:
                value = _member(value, re.sub(r"\\(.)", r"\1", name or index))
        return value if not isinstance(value, dict | list) or id(value) in self.complete else None


def _member(value: Any, name: str) -> Any:
    """A member by its name in a path; `null` is an object key itself, its Java text what it leads
    to.
    """
    for key, member in value.items() if isinstance(value, dict) else ():
        if str(key) == name:
            return member
        if isinstance(key, Key) and name == "null":
            return key
        if isinstance(key, Key) and all(f"{part}={of}" in name for part, of in key):
            return member
    return None


def dumps(value: Any, *, strict: bool = False, pretty: bool = False) -> bytes:
    """Write a value: compact as the original does, strict for new peers, or pretty as in its files.

    Maps, lists, texts, numbers, typed bodies. In the pretty form a tuple is one line (a set or an
    array of the original's), a list is one line an element.
    """
    parts: list[str] = []
    _Writer(_STRICT if strict else _PLAIN, pretty, parts.append).value(value, 0)
    return "".join(parts).encode(errors="replace")  # half a pair leaves Java as ? too


class _Form(NamedTuple):
    strict: bool
    special: re.Pattern[str]


_PLAIN = _Form(False, re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]'))
_STRICT = _Form(True, re.compile(r"[^ !#-.0-\[\]-~]"))
_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/"} | dict(
    zip("\b\t\n\f\r", ("\\b", "\\t", "\\n", "\\f", "\\r"), strict=True)
)


def _escaped(match: re.Match[str]) -> str:
    if short := _SHORT.get(match[0]):
        return short
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


@functools.cache
def members_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """(attribute, name on the wire) of a typed body, in wire order: sorted by name."""
    found = [(one.name, one.encode_name) for one in msgspec.structs.fields(kind)]
    return tuple(sorted(found, key=lambda one: one[1]))


class _Writer:
    def __init__(self, form: _Form, pretty: bool, put: Callable[[str], None]) -> None:
        self.form, self.pretty, self.put = form, pretty, put

    def value(self, value: Any, depth: int) -> None:
        if value is None or value is True or value is False:
            self.put("null" if value is None else "true" if value else "false")
        elif isinstance(value, str):
            self.put(f'"{self.form.special.sub(_escaped, value)}"')
        elif isinstance(value, int):
            quoted = self.form.strict and not -(2**53) < value < 2**53
            self.put(f'"{int(value)}"' if quoted else str(int(value)))
        elif isinstance(value, float):
            self.put(java_double(value))
        elif depth > DEEPEST:
            raise ValueError(f"a value nested deeper than {DEEPEST} levels")
        elif isinstance(value, Key):
            self.members(value, depth)
        elif isinstance(value, dict):
            self.map(value, depth)
        elif isinstance(value, msgspec.Struct):
            pairs = ((name, getattr(value, at)) for at, name in members_of(type(value)))
            self.members(pairs, depth)
        else:
            self.items(value, depth, one_line=not isinstance(value, list))

    def map(self, value: dict[Any, Any], depth: int) -> None:
        pairs: Iterable[tuple[Any, Any]] = value.items()
        if self.form.strict:
            pairs = sorted(pairs, key=lambda pair: _order(pair[0]))
        self.members(pairs, depth)

    def members(self, pairs: Iterable[tuple[Any, Any]], depth: int) -> None:
        """Only names that are texts begin lines of their own: so the original's files are."""
        self.put("{")
        first = True
        for key, value in pairs:
            if value is None:
                continue
            self.put("" if first else ",")
            if isinstance(key, str):
                self.line(depth + 1)
            first = False
            self.key(key, depth + 1)
            self.put(":")
            self.value(value, depth + 1)
        if not first:
            self.line(depth)
        self.put("}")

    def key(self, key: Any, depth: int) -> None:
        if isinstance(key, str) or not self.form.strict:
            self.value(key, depth)
        else:
            self.value(dumps(key).decode(), depth)

    def items(self, values: Iterable[Any], depth: int, *, one_line: bool) -> None:
        self.put("[")
        first = True
        for value in values:
            self.put("" if first else ",")
            if not one_line:
                self.line(depth + 1)
            first = False
            self.value(value, depth + 1)
        if not first and not one_line:
            self.line(depth)
        self.put("]")

    def line(self, depth: int) -> None:
        if self.pretty:
            self.put("\n" + "\t" * depth)


def _order(key: Any) -> tuple[bool, Any]:
    return (True, key) if isinstance(key, int) else (False, str(key))


def java_double(value: float) -> str:
    """A double as Java prints it: always with a fraction, below 10^-3 and from 10^7 with E."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exact = Decimal(repr(value))  # the shortest digits that give this double back
    first, *rest = [*"".join(map(str, exact.as_tuple().digits)).rstrip("0")]
    return f"{'-' * (value < 0)}{first}.{''.join(rest) or '0'}E{exact.adjusted()}"
