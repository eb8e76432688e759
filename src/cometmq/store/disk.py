"""The seam to the disk, and the real disk: the only place with calls on files of the store.

Paths are relative to the root of the store. One method is one call of the system, so that a
recording of this seam can be compared with what the system saw.
"""

import enum
import errno
import fcntl
import logging
import os
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Protocol, TypeVar

from cometmq.runtime import CometError

BLOCK = 1 << 18

T = TypeVar("T")
Data = bytes | bytearray | memoryview

logger = logging.getLogger("cometmq.store")


class Trouble(enum.Enum):
    """What kind of failure the disk reported, and the system's numbers for it."""

    MISSING = ("is not there", errno.ENOENT, errno.ENOTDIR)
    DENIED = ("may not be used by this user", errno.EACCES, errno.EPERM, errno.EROFS)
    FULL = ("has no space left", errno.ENOSPC, errno.EDQUOT)
    LOCKED = ("is used by another process", errno.EAGAIN)
    BROKEN = ("cannot be read or written",)

    def __init__(self, sentence: str, *numbers: int) -> None:
        self.sentence = sentence
        self.numbers = numbers


class StoreError(CometError):
    """A call on a file of the store failed; `kind` says how."""

    def __init__(self, kind: Trouble, call: str, path: str, detail: str = "") -> None:
        said = f" ({detail})" if detail else ""
        super().__init__(f"{call} of {path!r}: it {kind.sentence}{said}")
        self.kind = kind


class StoreRefused(CometError):
    """The directory is not opened; not a byte of it was changed."""


class File(Protocol):
    """An open file."""

    def pread(self, size: int, offset: int) -> bytes:
        """At most `size` bytes; fewer only at the end of the file."""

    def pread_now(self, size: int, offset: int) -> bytes | None:
        """These bytes if that needs no waiting for the disk; None where it would, or may."""

    def pwrite(self, data: Data, offset: int) -> int:
        """Writes; how many bytes it took can be fewer (see `write_all`)."""

    def next_data(self, offset: int) -> int | None:
        """The first place from `offset` on that may hold other bytes than zeros; None: nowhere."""

    def allocate(self, size: int) -> None:
        """Makes the file `size` bytes long, all zeros, with the space for them taken."""

    def truncate(self, size: int) -> None:
        """Makes the file `size` bytes long without taking space for what is new."""

    def sync(self) -> None:
        """Returns when what was written before the call is on the disk."""

    def close(self) -> None:
        """Gives the handle back, and a lock with it."""


class Disk(Protocol):
    """A directory: the store's root."""

    process_id: int
    """Who uses it, for the `abort` file."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens a file that is there; with `create` an empty one, whatever was there."""

    def size(self, path: str) -> int | None:
        """How long a file is; None where there is none."""

    def list(self, path: str) -> list[str]:
        """The names in a folder, in order; none where there is no such folder."""

    def make_folder(self, path: str) -> None:
        """Makes a folder in one that is there; one that exists is fine."""

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name, in the place of what had that name."""

    def remove(self, path: str) -> None:
        """Removes a file."""

    def sync_folder(self, path: str) -> None:
        """Returns when the names in a folder are on the disk."""

    def lock(self, path: str) -> File:
        """Opens a file, made where missing, that no other process has locked; LOCKED if one has."""


def write_all(file: File, data: Data, offset: int) -> None:
    """Writes everything: a short write is continued."""
    taken = file.pwrite(data, offset)
    while taken < len(data):
        more = file.pwrite(memoryview(data)[taken:], offset + taken)
        if more <= 0:
            raise StoreError(Trouble.BROKEN, "pwrite", "a file", "nothing was taken")
        taken += more


def close_quietly(file: File) -> None:
    """Gives a handle back of which nothing depends on any more."""
    try:
        file.close()
    except StoreError as error:
        logger.error("%s", error)


def read_file(disk: Disk, path: str) -> bytes | None:
    """The whole of a small file; None where there is none."""
    size = disk.size(path)
    if size is None:
        return None
    with closing(disk.open(path)) as file:
        return file.pread(size, 0)


def find_data(file: File, start: int, end: int) -> list[tuple[int, bytes]]:
    """(place, content) of the blocks between two places of a file that are not zeros."""
    found = []
    at = file.next_data(start)
    while at is not None and at < end:
        block = file.pread(min(BLOCK, end - at), at)
        if block.count(0) != len(block):
            found.append((at, block))
        at = file.next_data(at + len(block)) if block else None
    return found


_locked: set[tuple[str, str]] = set()
"""Files that this process has locked, by root and path: a record lock does not hold against its
own process, and is lost when any handle of the file is closed."""


def _mapped(call: str, path: str, work: Callable[[], T]) -> T:
    """Does one call of the system; its failure is told in the words of the house."""
    try:
        return work()
    except OSError as error:
        kinds = (kind for kind in Trouble if error.errno in kind.numbers)
        kind = next(kinds, Trouble.BROKEN)
        raise StoreError(kind, call, path, error.strerror or str(error)) from error


class LocalFile:
    """A file of the local file system."""

    def __init__(self, handle: int, path: str, lock: tuple[str, str] | None = None) -> None:
        self._handle, self._path, self._lock = handle, path, lock
        self._waits = not hasattr(os, "RWF_NOWAIT")

    def pread(self, size: int, offset: int) -> bytes:
        return _mapped("pread", self._path, lambda: os.pread(self._handle, size, offset))

    def pread_now(self, size: int, offset: int) -> bytes | None:
        if self._waits:
            return None
        found = bytearray(size)
        try:
            count = os.preadv(self._handle, [found], offset, os.RWF_NOWAIT)
        except OSError as error:
            # Where the file system knows no such reading it never will; anything else (EIO, say)
            # comes again, and with its name, where the thread reads.
            self._waits = error.errno != errno.EAGAIN
            return None
        return bytes(found) if count == size else None

    def pwrite(self, data: Data, offset: int) -> int:
        return _mapped("pwrite", self._path, lambda: os.pwrite(self._handle, data, offset))

    def next_data(self, offset: int) -> int | None:
        try:
            return os.lseek(self._handle, offset, os.SEEK_DATA)
        except OSError as error:
            return None if error.errno == errno.ENXIO else offset  # holes unknown: all may be data

    def allocate(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            _mapped("allocate", self._path, lambda: os.posix_fallocate(self._handle, 0, size))
        else:
            self.truncate(size)

    def truncate(self, size: int) -> None:
        _mapped("truncate", self._path, lambda: os.ftruncate(self._handle, size))

    def sync(self) -> None:
        if sys.platform == "darwin":  # there fsync stops at the drive's cache
            _mapped("sync", self._path, lambda: fcntl.fcntl(self._handle, fcntl.F_FULLFSYNC))
        else:
            _mapped("sync", self._path, lambda: os.fdatasync(self._handle))

    def close(self) -> None:
        if self._lock is not None:
            _locked.discard(self._lock)
        _mapped("close", self._path, lambda: os.close(self._handle))


class LocalDisk:
    """A directory of the local file system, made where missing."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.process_id = os.getpid()
        self._root = os.path.abspath(root)
        _mapped("mkdir", self._root, lambda: os.makedirs(self._root, exist_ok=True))

    def _at(self, path: str) -> str:
        # Names of topics are checked where they are decoded; this is the last wall before the
        # rest of the file system.
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise StoreError(Trouble.DENIED, "open", path, "it lies outside the store")
        return os.path.join(self._root, path)

    def _call(self, name: str, path: str, work: Callable[[str], T]) -> T:
        full = self._at(path)
        return _mapped(name, full, lambda: work(full))

    def _if_there(self, name: str, path: str, work: Callable[[str], T], none: T) -> T:
        try:
            return self._call(name, path, work)
        except StoreError as error:
            if error.kind is Trouble.MISSING:
                return none
            raise

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        return LocalFile(self._call("open", path, lambda at: os.open(at, flags, 0o644)), path)

    def size(self, path: str) -> int | None:
        return self._if_there("stat", path, lambda at: os.stat(at).st_size, None)

    def list(self, path: str) -> list[str]:
        return self._if_there("list", path, lambda at: sorted(os.listdir(at)), [])

    def make_folder(self, path: str) -> None:
        def make(at: str) -> None:
            with suppress(FileExistsError):
                os.mkdir(at)

        self._call("mkdir", path, make)

    def rename(self, old: str, new: str) -> None:
        self._call("rename", old, lambda at: os.rename(at, self._at(new)))

    def remove(self, path: str) -> None:
        self._call("remove", path, os.remove)

    def sync_folder(self, path: str) -> None:
        handle = self._call("open", path, lambda at: os.open(at, os.O_RDONLY | os.O_DIRECTORY))
        try:
            self._call("sync", path, lambda _: os.fsync(handle))
        finally:
            os.close(handle)

    def lock(self, path: str) -> LocalFile:
        # Whoever opens and closes a file that this process has locked already loses that lock.
        key = os.path.realpath(self._root), path
        if key in _locked:
            raise StoreError(Trouble.LOCKED, "lock", path, "by this one, to be exact")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        handle = self._call("open", path, lambda at: os.open(at, flags, 0o644))
        exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            # A record lock on byte 0, as the original takes it; flock would not hold against it.
            self._call("lock", path, lambda _: fcntl.lockf(handle, exclusive, 1))
        except StoreError:
            os.close(handle)
            raise
        _locked.add(key)
        return LocalFile(handle, path, key)
