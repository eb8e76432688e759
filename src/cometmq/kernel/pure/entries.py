"""Consume queue entries: 20 bytes each (spec 03 ch. 7.1)."""

import struct
from collections.abc import Set
from dataclasses import dataclass, field

from cometmq.kernel.faults import Malformed

SIZE = 20

_ENTRY = struct.Struct(">qiq")


def pack(position: int, size: int, tag_hash: int) -> bytes:
    """One entry: where its record lies, how long that is, and the hash of its tag."""
    return _ENTRY.pack(position, size, tag_hash)


def unpack(data: bytes | bytearray | memoryview) -> list[tuple[int, int, int]]:
    """All entries of `data` as (position, size, tag hash)."""
    if len(data) % SIZE:
        raise Malformed(f"whole entries of {SIZE} bytes expected, not {len(data)} bytes")
    return list(_ENTRY.iter_unpack(data))


@dataclass(slots=True, eq=False)
class Tail:
    """The newest entries of a queue; `first` is the queue offset of the first one held."""

    first: int
    data: bytearray = field(default_factory=bytearray, init=False)

    @property
    def next(self) -> int:
        """The queue offset that the next entry will get."""
        return self.first + len(self.data) // SIZE

    def append(self, position: int, size: int, tag_hash: int) -> None:
        """Adds the entry of queue offset `next`."""
        self.data += _ENTRY.pack(position, size, tag_hash)

    def drop(self, count: int) -> None:
        """Forgets the oldest `count` entries: they are in the file now."""
        if not 0 <= count * SIZE <= len(self.data):
            raise ValueError(f"{len(self.data) // SIZE} entries are here, {count} cannot go")
        del self.data[: count * SIZE]
        self.first += count

    def cut(self, next: int) -> None:
        """Forgets the newest entries, so that `next` is the next queue offset again."""
        if not self.first <= next <= self.next:
            raise ValueError(f"offsets {self.first} to {self.next} are here, not {next}")
        del self.data[(next - self.first) * SIZE :]


def scan(
    data: bytes | bytearray | memoryview, hashes: Set[int] | None, most: int, most_bytes: int
) -> tuple[list[tuple[int, int]], int]:
    """Where the records of matching entries lie, and how many entries were looked at.

    The first match always fits, whatever its size. Never written entries (size 0) end the scan.
    """
    found: list[tuple[int, int]] = []
    examined = total = 0
    with memoryview(data) as view:
        for position, size, tag_hash in _ENTRY.iter_unpack(view[: len(view) // SIZE * SIZE]):
            if len(found) >= most or position < 0 or size <= 0:
                break
            if hashes is None or tag_hash in hashes:
                if found and total + size > most_bytes:
                    break
                found.append((position, size))
                total += size
            examined += 1
    return found, examined
