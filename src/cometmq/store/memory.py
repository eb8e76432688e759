"""A disk in memory: the same seam, for tests, for nodes without a directory, and for simulation.

Every call goes through `MemoryDisk.call`. A disk that forgets, fails or counts overrides that one
method, and finds what is written in `Inode` and in `names`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cometmq.store.disk import Data, StoreError, Trouble

T = TypeVar("T")


class Inode:
    """The content of a file: what was written, zeros behind that, and its length."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.size = 0

    def read(self, size: int, offset: int) -> bytes:
        """What lies there, zeros where nothing was written."""
        end = min(offset + size, self.size)
        return bytes(self.written[offset:end]).ljust(end - offset, b"\0")

    def write(self, data: Data, offset: int) -> int:
        """Puts bytes there; the file grows with them."""
        end = offset + len(data)
        self.written += bytes(max(offset - len(self.written), 0))
        self.written[offset:end] = data
        self.size = max(self.size, end)
        return len(data)

    def next_data(self, offset: int) -> int | None:
        """The first place from `offset` on that may hold other bytes than zeros."""
        return offset if offset < len(self.written) else None

    def resize(self, size: int) -> None:
        """Cuts off what lies behind `size`, or grows with zeros."""
        del self.written[size:]
        self.size = size


@dataclass(eq=False)
class MemoryFile:
    """An open file of a disk in memory."""

    disk: "MemoryDisk"
    path: str
    inode: Inode

    def _call(self, name: str, work: Callable[[], T]) -> T:
        return self.disk.call(name, self.path, self.inode, work)

    def pread(self, size: int, offset: int) -> bytes:
        return self._call("pread", lambda: self.inode.read(size, offset))

    def pread_now(self, size: int, offset: int) -> bytes | None:
        found = self._call("pread_now", lambda: self.inode.read(size, offset))
        return found if len(found) == size else None

    def pwrite(self, data: Data, offset: int) -> int:
        return self._call("pwrite", lambda: self.inode.write(data, offset))

    def next_data(self, offset: int) -> int | None:
        return self._call("next_data", lambda: self.inode.next_data(offset))

    def allocate(self, size: int) -> None:
        self._call("allocate", lambda: self.inode.resize(size))

    def truncate(self, size: int) -> None:
        self._call("truncate", lambda: self.inode.resize(size))

    def sync(self) -> None:
        self._call("sync", lambda: None)

    def close(self) -> None:
        def close() -> None:
            if self.disk.locks.get(self.path) is self:
                del self.disk.locks[self.path]

        self._call("close", close)


class MemoryDisk:
    """A root directory in memory; `names` maps each path to its file, or to None for a folder."""

    process_id = 1

    def __init__(self) -> None:
        self.names: dict[str, Inode | None] = {"": None}
        self.locks: dict[str, MemoryFile] = {}

    def call(self, name: str, path: str, inode: Inode | None, work: Callable[[], T]) -> T:
        """Does one call; all of them come through here."""
        return work()

    def new_inode(self) -> Inode:
        """The content of a file that is made now."""
        return Inode()

    def _file(self, path: str) -> Inode:
        inode = self.names.get(path)
        if inode is None:
            raise StoreError(Trouble.MISSING, "open", path)
        return inode

    def _create(self, path: str) -> Inode:
        if self.names.get(parent(path), "missing") is not None:
            raise StoreError(Trouble.MISSING, "open", parent(path))
        inode = self.names[path] = self.new_inode()
        return inode

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        name, find = ("create", self._create) if create else ("open", self._file)
        return MemoryFile(self, path, self.call(name, path, None, lambda: find(path)))

    def size(self, path: str) -> int | None:
        inode = self.call("size", path, None, lambda: self.names.get(path))
        return None if inode is None else inode.size

    def list(self, path: str) -> list[str]:
        names = self.call("list", path, None, lambda: list(self.names))
        return sorted(name.rpartition("/")[2] for name in names if name and parent(name) == path)

    def make_folder(self, path: str) -> None:
        self.call("make_folder", path, None, lambda: self.names.setdefault(path, None))

    def rename(self, old: str, new: str) -> None:
        def move() -> None:
            self.names[new] = self._file(old)
            del self.names[old]

        self.call("rename", f"{old} -> {new}", None, move)

    def remove(self, path: str) -> None:
        def drop() -> None:
            self._file(path)
            del self.names[path]

        self.call("remove", path, None, drop)

    def sync_folder(self, path: str) -> None:
        self.call("sync_folder", path, None, lambda: None)

    def lock(self, path: str) -> MemoryFile:
        def take() -> MemoryFile:
            if path in self.locks:
                raise StoreError(Trouble.LOCKED, "lock", path)
            inode = self.names.get(path) or self._create(path)
            self.locks[path] = file = MemoryFile(self, path, inode)
            return file

        return self.call("lock", path, None, take)


def parent(path: str) -> str:
    """The folder that a path lies in."""
    return path.rpartition("/")[0]
