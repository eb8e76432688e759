"""The recorded exchanges of the original, line by line."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cometmq.kernel import frames

FOLDER = Path(__file__).parents[2] / "golden" / "remoting"
WITHOUT_EXCHANGE = ("lenient.jsonl", "refused.jsonl")


class Sample(NamedTuple):
    """One recorded frame."""

    exchange: str
    direction: str
    code: int  # of the request, on its answer too
    version: str
    by: str  # what provoked it
    frame: frames.Frame
    whole: bool  # the body was recorded to its end

    def __str__(self) -> str:
        return f"{self.exchange} {self.direction} {self.code} ({self.by})"


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with (FOLDER / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@cache
def recorded() -> tuple[Sample, ...]:
    """Every recorded frame."""
    return tuple(
        Sample(
            one["exchange"],
            one["direction"],
            one["code"],
            one["version"],
            one["provokedBy"],
            _frame(one),
            "bodyCutFrom" not in one,
        )
        for path in sorted(FOLDER.glob("*.jsonl"))
        if path.name not in WITHOUT_EXCHANGE
        for one in lines(path.name)
    )


def _frame(one: dict[str, Any]) -> frames.Frame:
    is_json = "header" in one
    header = one["header"].encode() if is_json else bytes.fromhex(one["headerHex"])
    return frames.Frame(0 if is_json else 1, header, bytes.fromhex(one.get("bodyHex", "")))
