"""The JSON of the original (spec 01 ch. 12): a tolerant reader and a writer of three forms."""

import functools
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from cometmq.protocol.codes import BadRequest

DEEPEST = 100  # levels of nesting; no body or file of the original comes near
MOST_REFERENCES = 1000
MOST_REFERRED = 4 << 20  # characters that all of them stand for


class BadBody(BadRequest):
    """The body is not JSON, or not of the kind that this code carries."""


class Key(str):
    """The text of an object that is the key of a map."""


def loads(data: bytes | str, *, refers: bool = True) -> Any:
    """Read one value in the dialect; strict JSON, its usual case, takes the short way."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    refers = refers and b"$ref" in raw
    try:
        if not refers and not too_deep(raw):
            return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        pass  # not as strict as that
    try:
        return _Reader(str(raw, "utf-8-sig"), refers).read()
    except UnicodeDecodeError as why:
        raise BadBody(f"expected UTF-8: {why}") from None


# A string runs to its end or to that of the text, so that no text takes more than one pass.
_BRACE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_NO_BRACES = bytes(set(range(256)).difference(b"[]{}"))


def too_deep(data: bytes) -> bool:
    """Whether strict JSON is nested deeper than what is read and written here."""
    if data.count(b"{") + data.count(b"[") <= DEEPEST:
        return False
    braces = data.translate(None, _NO_BRACES)
    for _ in range(DEEPEST):  # takes away what is innermost: of a usual text soon nothing is left
        braces = braces.replace(b"{}", b"").replace(b"[]", b"")
        if not braces:
            return False
    depth = 0
    for brace in _BRACE.finditer(data):
        depth += (brace[0] in b"[{") - (brace[0] in b"]}")
        if depth > DEEPEST:
            return True
    return False


_TOKEN = re.compile(
    r"""
    (?: [\s\ufeff] | //[^\n]* | /\*.*?\*/ )*
    (?:
    (?P<string> "(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+' )
    | (?P<word> [^\W\d][\w$]* | \$[\w$]* )
    | (?P<number> [+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[LSBFD]?(?![\w.$]) )
    | (?P<mark> [\[\]{}:,] )
    | (?P<other> .? )
    )
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7])|(["'\\/bfnrtvF])|)""")
_ESCAPED = dict(zip("\"'\\/bfnrtvF", "\"'\\/\b\f\n\r\t\v\f", strict=True))
_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d{1,9})\]", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}


class _Reader:
    """Reads all that fastjson reads in these bodies; of equal names the last one counts.

    `{"$ref": path}`, as a value or as the key of a map, is what it names: but only a value that is
    complete before it counts, as the original writes them. A path to anything else ("@" and ".."
    always) is None, so that nothing read here contains itself.
    """

    def __init__(self, text: str, refers: bool) -> None:
        self.text, self.refers = text, refers
        self.at = self.start = 0  # of what was taken last
        self.kind = ""
        self.document: list[Any] = [None]
        self.open: list[Any] = []
        self.lengths: dict[int, int] = {}  # of what is complete: how much text it stands for
        self.references = self.referred = 0  # how many, and how much text they stand for

    def read(self) -> Any:
        self._put(self._take(), self.document, 0)
        if self._take():
            raise self._fault("nothing behind the value")
        return self.document[0]

    def _fault(self, expected: str) -> BadBody:
        came = self.text[self.start : self.start + 20]
        return BadBody(f"at {self.start}: expected {expected}, got {came!r}")

    def _take(self) -> str:
        """The next string, word, number or mark; "" at the end."""
        token = _TOKEN.match(self.text, self.at)
        assert token is not None, "the pattern matches nothing too"
        self.kind = token.lastgroup or ""
        self.start, self.at = token.span(self.kind)
        return token[self.kind]

    def _put(self, token: str, into: Any, place: Any) -> None:
        """Read a value to its place, where what comes later finds it by its path."""
        if token not in ("{", "["):
            into[place] = self._plain(token)
            return
        if len(self.open) >= DEEPEST:
            raise self._fault(f"at most {DEEPEST} levels")
        whole: Any = {} if token == "{" else []
        into[place], begin = whole, self.at + self.referred
        self.open.append(whole)
        if token == "[":
            for item in self._items("]"):
                whole.append(None)
                self._put(item, whole, -1)
        else:
            self._members(whole)
            if self.refers and isinstance(path := whole.get("$ref"), str):
                into[place] = self._named(path)
        self.open.pop()
        self.lengths[id(whole)] = self.at + self.referred - begin

    def _members(self, into: dict[Any, Any]) -> None:
        for token in self._items("}"):
            key: list[Any] = [token]
            if self.kind != "word":
                self._put(token, key, 0)
            if isinstance(key[0], dict | list):
                key = [Key(dumps(key[0]).decode())]
            if self._take() != ":":
                raise self._fault("a colon")
            self._put(self._take(), into, key[0])

    def _items(self, end: str) -> Iterator[str]:
        """The first token of each item; commas may lead, follow and be repeated."""
        while (token := self._take()) != end:
            if token != ",":
                yield token
                if (token := self._take()) == end:
                    return
                if token != ",":
                    raise self._fault(f"a comma or {end}")

    def _plain(self, token: str) -> Any:
        if self.kind == "string":
            return self._string(token[1:-1])
        if self.kind == "word" and token in _WORDS:
            return _WORDS[token]
        if self.kind != "number":
            raise self._fault("a value")
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

    def _named(self, path: str) -> Any:
        value = self.document[0] if path.startswith("$") else None
        for name, index in _STEP.findall(path):
            value = _member(value, re.sub(r"\\(.)", r"\1", name), int(index or -1))
        if any(value is one for one in self.open):
            value = None
        self.references += 1
        # Each is small and may stand for much.
        self.referred += len(value) if isinstance(value, str) else self.lengths.get(id(value), 0)
        if self.references > MOST_REFERENCES or self.referred > MOST_REFERRED:
            raise BadBody(f"more than {MOST_REFERENCES} references in one document")
        return value


def _member(value: Any, name: str, index: int) -> Any:
    """What a step of a path leads to; `null` is the object that is a key."""
    if isinstance(value, list):
        return value[index] if 0 <= index < len(value) else None
    for key, member in value.items() if isinstance(value, dict) else ():
        if isinstance(key, Key) and name == "null":
            return key
        if str(key) == (name or str(index)):
            return member
    return None


def dumps(value: Any, *, strict: bool = False, pretty: bool = False) -> bytes:
    """Write a value: compact as the original does, strict for new peers, or pretty as in its files.

    Maps, lists, texts, numbers, typed bodies. In the pretty form a tuple is one line (a set or an
    array of the original's), a list is one line an element.
    """
    # Half a pair leaves Java as ? too.
    return _Writer(strict, pretty).text(value, 0).encode(errors="replace")


class _Writer:
    def __init__(self, strict: bool, pretty: bool) -> None:
        self.strict, self.pretty = strict, pretty

    def text(self, value: Any, depth: int) -> str:
        if value is None or value is True or value is False:
            return "null" if value is None else str(value).lower()
        if isinstance(value, Key) and not self.strict:
            return value
        if isinstance(value, str):
            return f'"{(_STRICT if self.strict else _SPECIAL).sub(_escaped, value)}"'
        if isinstance(value, int):
            quoted = self.strict and not -(2**53) < value < 2**53
            return f'"{int(value)}"' if quoted else str(int(value))
        if isinstance(value, float):
            return _double(value)
        if depth > DEEPEST:
            raise ValueError(f"a value nested deeper than {DEEPEST} levels")
        if isinstance(value, msgspec.Struct):
            known = members_of(type(value))
            named = [(one.encode_name, getattr(value, one.name)) for one in known]
            return self._object(named, depth)
        if isinstance(value, dict):
            pairs = value.items()
            return self._object(sorted(pairs, key=_order) if self.strict else pairs, depth)
        line = self._line(depth + 1) if isinstance(value, list) else ""
        items = ",".join([line + self.text(item, depth + 1) for item in value])
        return f"[{items}{line[:-1] if items else ''}]"

    def _line(self, depth: int) -> str:
        """What begins a line of a file."""
        return "\n" + "\t" * depth if self.pretty else ""

    def _object(self, pairs: Iterable[tuple[Any, Any]], depth: int) -> str:
        members = []
        for key, value in pairs:
            if value is None:
                continue
            if self.strict and not isinstance(key, str):
                key = dumps(key).decode()
            # Only names that are texts begin lines of their own: so the original's files are.
            line = self._line(depth + 1) if type(key) is str else ""
            members.append(f"{line}{self.text(key, depth + 1)}:{self.text(value, depth + 1)}")
        return f"{{{','.join(members)}{self._line(depth) if members else ''}}}"


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
def members_of(kind: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    """The members of a typed body, in wire order: sorted by name."""
    return sorted(msgspec.structs.fields(kind), key=lambda one: one.encode_name)


def _double(value: float) -> str:
    """As Java prints it: always with a fraction, below 10^-3 and from 10^7 with E."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, power = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(power)}"
