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
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from cometmq.runtime.errors import BadSetting

M = TypeVar("M")


def parse_properties(text: str) -> dict[str, str]:
    """Reads `key=value` lines as the original does: `#` and `!` begin comments, text is trimmed."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {key.strip(): value.strip() for key, _, value in pairs}


def key_of(field: str) -> str:
    """The original's spelling of a field: `broker_ip1` is `brokerIP1`."""
    head, *rest = field.split("_")
    return head + "".join("IP1" if part == "ip1" else part.capitalize() for part in rest)


def read(model: type[M], values: Mapping[str, str]) -> M:
    """Makes a model from the texts of the keys that it has; others are left alone."""
    hints = typing.get_type_hints(model)
    fields = [one.name for one in dataclasses.fields(typing.cast(Any, model))]
    keys = {name: key_of(name) for name in fields if key_of(name) in values}
    return model(**{name: convert(key, values[key], hints[name]) for name, key in keys.items()})


def convert(key: str, text: str, kind: Any) -> Any:
    """One value from its text; BadSetting where it does not parse."""
    if isinstance(kind, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    expected = "a whole number"
    try:
        if kind is int or kind is str:
            return kind(text)
        if kind is bool:
            expected = "true or false"
            return {"true": True, "false": False}[text.lower()]
        if typing.get_origin(kind) is tuple:
            return tuple(part for part in re.split(r"[;,\s]+", text) if part)
        if issubclass(kind, enum.Enum):
            expected = " or ".join(kind.__members__)
            return kind[text]
    except (ValueError, KeyError):
        raise BadSetting(f"{key}={text}: expected {expected}") from None
    raise TypeError(f"no way to read a setting of type {kind}")


def without_effect(values: Mapping[str, str], known: Collection[str]) -> str | None:
    """One sentence about the keys that nothing knows; None where every one is known."""
    said = []
    for key in sorted(key for key in values if key not in known):
        near = difflib.get_close_matches(key, sorted(known), 1, 0.85)
        said.append(f"{key} (did you mean {near[0]}?)" if near else key)
    return f"these keys have no effect here (yet): {', '.join(said)}" if said else None


def keys(*models: type[Any]) -> list[str]:
    """The original's names of all fields of some models."""
    return [key_of(field.name) for model in models for field in dataclasses.fields(model)]
