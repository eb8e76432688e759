"""The JSON of the original's bodies and files (spec 01 ch. 12): a tolerant reader and a writer of
three forms.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from cometmq.protocol.faults import BadBody

DEEPEST = 100  # levels of nesting; no body or file of the original comes near
MOST_REFERENCES = 1000


class Key(tuple[tuple[str, Any], ...]):
    """An object that is the key of a map: its members sorted by name, hashable."""


def loads(data: bytes | str, *, refers: bool = True) -> Any:
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
    return _References(value).resolved(value) if refers and "$ref" in text else value


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
_TOKEN = re.compile(
    r"""
    (?P<string> "(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+' )
    | (?P<word> [^\W\d][\w$]* | \$[\w$]* )
    | (?P<number> [+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[LSBFD]?(?![\w.$]) )
    | (?P<mark> [\[\]{}:,] )
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7])|(["'\\/bfnrtvF])|)""")
_ESCAPED = dict(zip("\"'\\/bfnrtvF", "\"'\\/\b\f\n\r\t\v\f", strict=True))
_WORDS = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}


class _Reader:
    """Reads all that fastjson reads in these bodies; of equal names the last one counts."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.start, self.kind = 0, ""  # of what was taken last

    def document(self) -> Any:
        value = self._value(self._take(), 0)
        if self._take():
            raise self._fault("nothing behind the value")
        return value

    def _fault(self, expected: str) -> BadBody:
        came = self.text[self.start : self.start + 20]
        return BadBody(f"at {self.start}: expected {expected}, got {came!r}")

    def _take(self) -> str:
        """The next string, word, number or mark; "" at the end."""
        blank = _BLANK.match(self.text, self.at)
        assert blank is not None, "the pattern matches nothing too"
        self.start = self.at = blank.end()
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            self.kind = ""
            return self.text[self.at : self.at + 1]
        self.at, self.kind = token.end(), token.lastgroup or ""
        return token[0]

    def _value(self, token: str, depth: int) -> Any:
        if token in ("{", "["):
            if depth >= DEEPEST:
                raise self._fault(f"at most {DEEPEST} levels")
            return self._object(depth + 1) if token == "{" else self._list(depth + 1)
        if self.kind == "string":
            return self._string(token[1:-1])
        if self.kind == "number":
            return self._number(token)
        if self.kind == "word" and token in _WORDS:
            return _WORDS[token]
        raise self._fault("a value")

    def _items(self, end: str) -> Iterator[str]:
        """The first token of each item; commas may lead, follow and be repeated."""
        while (token := self._take()) != end:
            if token != ",":
                yield token
                if (token := self._take()) == end:
                    return
                if token != ",":
                    raise self._fault(f"a comma or {end}")

    def _list(self, depth: int) -> list[Any]:
        return [self._value(token, depth) for token in self._items("]")]

    def _object(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        for token in self._items("}"):
            key = token if self.kind == "word" else _frozen(self._value(token, depth))
            if self._take() != ":":
                raise self._fault("a colon")
            members[key] = self._value(self._take(), depth)
        return members

    def _number(self, token: str) -> int | float:
        if len(token) > 400:
            raise self._fault("a shorter number")
        digits = token.rstrip("LSBFD")
        return int(digits) if digits.lstrip("+-").isdigit() else float(digits)

    def _string(self, text: str) -> str:
        text = _ESCAPE.sub(self._meant, text)
        if text.isascii():
            return text
        # Two halves of a pair come as two escapes; a lone one leaves Java as ?, and so it does us.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return whole.encode(errors="replace").decode()

    def _meant(self, escape: re.Match[str]) -> str:
        if code := escape[1] or escape[2] or escape[3]:
            return chr(int(code, 16))
        if not escape[4]:
            raise self._fault("other escapes")
        return _ESCAPED[escape[4]]


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

    def __init__(self, root: Any) -> None:
        self.root = root
        self.complete: set[int] = set()
        self.left = MOST_REFERENCES

    def resolved(self, value: Any) -> Any:
        if isinstance(value, list):
            value[:] = map(self.resolved, value)
        elif isinstance(value, dict):
            if isinstance(path := value.get("$ref"), str):
                return self._named(path)
            members = [(self._key(key), member) for key, member in value.items()]
            value.clear()
            value.update(members)
            for key, member in members:  # in place: what comes later may name it by its path
                value[key] = self.resolved(member)
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


class _Form(NamedTuple):
    strict: bool
    pretty: bool

    def line(self, depth: int) -> str:
        """What begins a line of a file."""
        return "\n" + "\t" * depth if self.pretty else ""


def dumps(value: Any, *, strict: bool = False, pretty: bool = False) -> bytes:
    """Write a value: compact as the original does, strict for new peers, or pretty as in its files.

    Maps, lists, texts, numbers, typed bodies. In the pretty form a tuple is one line (a set or an
    array of the original's), a list is one line an element.
    """
    # Half a pair leaves Java as ? too.
    return _written(value, _Form(strict, pretty), 0).encode(errors="replace")


def _written(value: Any, form: _Form, depth: int) -> str:
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return f'"{(_STRICT if form.strict else _SPECIAL).sub(_escaped, value)}"'
    if isinstance(value, int):
        quoted = form.strict and not -(2**53) < value < 2**53
        return f'"{int(value)}"' if quoted else str(int(value))
    if isinstance(value, float):
        return java_double(value)
    if depth > DEEPEST:
        raise ValueError(f"a value nested deeper than {DEEPEST} levels")
    if isinstance(value, msgspec.Struct):
        named = [(name, getattr(value, at)) for at, name in members_of(type(value))]
        return _members(named, form, depth)
    if isinstance(value, Key):
        return _members(value, form, depth)
    if isinstance(value, dict):
        pairs = value.items()
        return _members(sorted(pairs, key=_order) if form.strict else pairs, form, depth)
    line = form.line(depth + 1) if isinstance(value, list) else ""
    items = ",".join([line + _written(item, form, depth + 1) for item in value])
    return f"[{items}{line[:-1] if items else ''}]"


def _members(pairs: Iterable[tuple[Any, Any]], form: _Form, depth: int) -> str:
    """Only names that are texts begin lines of their own: so the original's files are."""
    members = []
    for key, value in pairs:
        if value is not None:
            named = isinstance(key, str)
            name = _written(key, form, depth + 1)
            if form.strict and not named:
                name = _written(dumps(key).decode(), form, depth)
            line = form.line(depth + 1) if named else ""
            members.append(f"{line}{name}:{_written(value, form, depth + 1)}")
    return f"{{{','.join(members)}{form.line(depth) if members else ''}}}"


def _order(pair: tuple[Any, Any]) -> tuple[bool, Any]:
    key = pair[0]
    return (True, key) if isinstance(key, int) else (False, str(key))


_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_STRICT = re.compile(r"[^ !#-.0-\[\]-~]")
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


def java_double(value: float) -> str:
    """A double as Java prints it: always with a fraction, below 10^-3 and from 10^7 with E."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exact = Decimal(repr(value))  # the shortest digits that give this double back
    first, *rest = [*"".join(map(str, exact.as_tuple().digits)).rstrip("0")]
    return f"{'-' * (value < 0)}{first}.{''.join(rest) or '0'}E{exact.adjusted()}"
