"""Settings: typed values from the original's `key=value` text, and where each one came from.

A model is a frozen dataclass; a field `flush_disk_type` is the key `flushDiskType`. This module
knows how text becomes a value; which keys exist is said by the rooms that use them.
"""

import dataclasses
import difflib
import enum
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from cometmq.runtime.errors import BadSetting

M = TypeVar("M")


def parse_properties(text: str) -> dict[str, str]:
    """Reads `key=value` lines as the original does: `#` and `!` begin comments, text is trimmed."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, _, value = stripped.partition("=")
        found[key.strip()] = value.strip()
    return found


def key_of(field: str) -> str:
    """The original's spelling of a field: `broker_ip1` is `brokerIP1`."""
    if field in _IRREGULAR:
        return _IRREGULAR[field]
    head, *rest = field.split("_")
    return head + "".join(part.capitalize() for part in rest)


_IRREGULAR = {"broker_ip1": "brokerIP1", "broker_ip2": "brokerIP2"}


def read(model: type[M], values: Mapping[str, str], used: set[str]) -> M:
    """Makes a model from texts; keys that it has are added to `used`, others are left alone."""
    hints = typing.get_type_hints(model)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(typing.cast(Any, model)):
        key = key_of(field.name)
        if key in values:
            used.add(key)
            found[field.name] = convert(key, values[key], hints[field.name])
    return model(**found)


def convert(key: str, text: str, kind: Any) -> Any:
    """One value from its text; BadSetting where it does not parse."""
    if isinstance(kind, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind is int or kind is float or kind is str:
            return kind(text)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return kind[text]
        if typing.get_origin(kind) is tuple:
            return tuple(part for part in re.split(r"[;,\s]+", text) if part)
    except (ValueError, KeyError):
        raise BadSetting(f"{key}={text}: expected {_expected(kind)}") from None
    raise TypeError(f"no way to read a setting of type {kind}")


def _expected(kind: Any) -> str:
    if kind is bool:
        return "true or false"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " or ".join(kind.__members__)
    return "a whole number" if kind is int else "a number"


def without_effect(values: Mapping[str, str], used: set[str], known: set[str]) -> str | None:
    """One sentence about the keys that nothing has read; None where every key was."""
    idle = [key for key in values if key not in used]
    if not idle:
        return None
    said = []
    for key in sorted(idle):
        near = difflib.get_close_matches(key, sorted(known), 1, 0.85)
        said.append(f"{key} (did you mean {near[0]}?)" if near else key)
    return f"these keys have no effect here (yet): {', '.join(said)}"


def keys(model: type[Any]) -> list[str]:
    """The original's names of all fields of a model."""
    return [key_of(field.name) for field in dataclasses.fields(model)]
