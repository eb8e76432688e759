"""The disk that forgets: after a power cut it has what a real one may have, and nothing better.

Until a file is synced, each page that was written may be there or not, in any of its versions;
until its folder is synced, a name may be there or not. A sync covers what was written when it
began, and ends later. A process that dies loses nothing: the page cache stays.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, NamedTuple, TypeVar

from cometmq.store import MemoryDisk, StoreError, Trouble
from cometmq.store.disk import Data
from cometmq.store.memory import Inode, parent
from cometmq.testing.simulation import Trace

T = TypeVar("T")

PAGE = 4096
SECTOR = 512
GONE = Inode()
"""Stands for a name that is not there."""

WRITES = ("pwrite", "allocate", "truncate")
NAMES = ("create", "make_folder", "rename", "remove", "lock")

WRITE_AND_SYNC = "between write and sync"
RENAME_AND_SYNC = "between rename and folder sync"
ROLL_OVER = "in roll-over"
"""Where a death can hurt; one death may lie in several of them."""


class Call(NamedTuple):
    """One call on the disk."""

    name: str
    path: str


class ForgetfulInode(Inode):
    """A file in the page cache, and what of it may be on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""
        """The name that it was given last."""
        # What the length and each page may be after a cut, and by which write, oldest first: what
        # the last sync has covered, and all that came after it.
        self._sizes: list[tuple[float, int]] = [(0, 0)]
        self._versions: dict[int, list[tuple[float, bytes]]] = {}
        self._writes = 0
        self._last = 0
        """Where the last write ended."""

    @property
    def dirty(self) -> bool:
        """It was changed since its last sync."""
        return len(self._sizes) > 1

    def write(self, data: Data, offset: int) -> int:
        done = super().write(data, offset)
        if done:
            self._changed(range(offset // PAGE, (offset + done - 1) // PAGE + 1))
            self._last = offset + done
        return done

    def resize(self, size: int) -> None:
        cut = [number for number in self._versions if (number + 1) * PAGE > size]
        super().resize(size)
        self._changed(cut)

    def _changed(self, numbers: Iterable[int]) -> None:
        self._writes += 1
        self._sizes.append((self._writes, self.size))
        for number in numbers:
            page = bytes(self.written[number * PAGE : (number + 1) * PAGE]).ljust(PAGE, b"\0")
            self._versions.setdefault(number, [(0, bytes(PAGE))]).append((self._writes, page))

    def sync(self, wait: Callable[[], None]) -> None:
        """What was written when it began is on the disk when it ends."""
        begun = self._writes
        wait()
        known: list[list[tuple[float, Any]]] = [self._sizes, *self._versions.values()]
        for versions in known:
            covered = [at for at, (write, _) in enumerate(versions) if write <= begun]
            del versions[: max(covered, default=0)]

    def fail_sync(self) -> None:
        """The pages are marked clean all the same, as Linux does: no later sync covers them."""
        for versions in self._versions.values():
            versions[1:] = [(inf, page) for _, page in versions[1:]]

    def flip(self, offset: int, bit: int) -> None:
        """A bit of the medium turns over."""
        super().write(bytes([self.read(1, offset)[0] ^ 1 << bit]), offset)
        number, inside = divmod(offset, PAGE)
        versions = self._versions.setdefault(number, [(0, bytes(PAGE))])
        page = bytearray(versions[0][1])
        page[inside] ^= 1 << bit
        versions[0] = (0, bytes(page))

    def after_cut(self, chance: random.Random) -> "ForgetfulInode":
        """What the disk has when the power is back."""
        left = ForgetfulInode()
        keeps = _choose(chance)
        at = -1 if keeps == 1 else 0 if keeps == 0 else chance.randrange(len(self._sizes))
        _, size = self._sizes[at]
        for number, versions in sorted(self._versions.items()):
            pages = [page for _, page in versions]
            left.write(self._survivor(number, pages, keeps, chance), number * PAGE)
        left.resize(size)
        left.sync(lambda: None)
        return left

    def _survivor(
        self, number: int, versions: list[bytes], keeps: float, chance: random.Random
    ) -> bytes:
        if len(versions) == 1:
            return versions[0]
        page = versions[-1] if chance.random() < keeps else chance.choice(versions[:-1])
        if keeps not in (0, 1) and chance.random() < 0.5:
            # The disk works in sectors, in any order.
            for at in range(0, PAGE, SECTOR):
                if chance.random() < 0.3:
                    page = _part_of(chance.choice(versions), page, at, at + SECTOR)
        if number == (self._last - 1) // PAGE and chance.random() < 0.5:
            # Of the sector that it was at, it may have written the first bytes.
            at = (self._last - 1) % PAGE // SECTOR * SECTOR
            torn = chance.randrange(SECTOR)
            page = _part_of(versions[-1], page, at, at + torn)
            page = _part_of(versions[-2], page, at + torn, at + SECTOR)
        return page


def _part_of(other: bytes, page: bytes, start: int, end: int) -> bytes:
    return page[:start] + other[start:end] + page[end:]


def _choose(chance: random.Random) -> float:
    """How much of what is in doubt survives: nothing, everything, or each piece by itself."""
    return chance.choice((0, 1, 0.2, 0.5, 0.8))


class ForgetfulDisk(MemoryDisk):
    """A disk in memory that keeps no more than was synced, and fails when it is told to."""

    def __init__(self, chance: random.Random | None = None, *, trace: Trace | None = None) -> None:
        super().__init__()
        self.random = chance or random.Random(0)
        self.trace = trace or Trace()
        self.counts: Counter[tuple[str, str]] = Counter()
        """How often each call was made, by folder: `counts["sync", "commitlog"]`."""
        self.dead = False
        self.full = False
        self.sync_s = 0.0
        """How long a sync takes, beyond what the seed wants."""
        self.pause: Callable[[float], None] = lambda seconds: None
        """Lets others go on in the middle of a thread's work (`SimulatedThreads.pause`)."""
        self.died: Callable[[], None] = lambda: None
        """Called at the moment of a death that was ordered."""
        self._dies: Callable[[Call], bool] = lambda call: False
        self._fails: list[tuple[str, str]] = []
        self._durable: dict[str, Inode | None] = {"": None}
        self._unsynced: list[dict[str, Inode | None]] = []
        """Changes of names, each of which may be lost as a whole; a rename changes two."""

    # What can be ordered

    def die_when(self, dies: Callable[[Call], bool]) -> None:
        """Dies at the first call for which this holds; a write may have been done in part."""
        self._dies = dies

    def die(self) -> None:
        """From now on every call fails."""
        if not self.dead:
            self.dead = True
            self.trace.add("dead")
            self.died()

    def fail_once(self, name: str, path: str) -> None:
        """The next such call on a path that begins so fails."""
        self._fails.append((name, path))

    def flip(self, path: str, offset: int, bit: int = 0) -> None:
        """Turns one bit of a file over."""
        inode = self.names[path]
        assert isinstance(inode, ForgetfulInode)
        inode.flip(offset, bit)

    def content(self, path: str) -> bytes:
        """What a file holds, without a call."""
        inode = self.names[path]
        assert inode is not None
        return inode.read(inode.size, 0)

    def files_in(self, folder: str) -> list[str]:
        """The paths of a folder's files, in order, without a call."""
        return sorted(path for path in self.names if path and parent(path) == folder)

    # The lives after this one

    def after_cut(self) -> "ForgetfulDisk":
        """The disk when the power is back."""
        names = dict(self._durable)
        keeps = _choose(self.random)
        for change in self._unsynced:
            if self.random.random() < keeps:
                names.update(change)
        left = self._next()
        copies: dict[int, ForgetfulInode] = {}
        for path, inode in sorted(names.items()):
            if inode is GONE or (path and left.names.get(parent(path), GONE) is not None):
                continue
            if isinstance(inode, ForgetfulInode):
                if id(inode) not in copies:
                    copies[id(inode)] = inode.after_cut(self.random)
                    copies[id(inode)].path = path
                inode = copies[id(inode)]
            left.names[path] = inode
        left._durable = dict(left.names)
        return left

    def after_kill(self) -> "ForgetfulDisk":
        """The disk for the next process: nothing is lost, and nothing is safer than it was."""
        left = self._next()
        left.names, left._durable, left._unsynced = self.names, self._durable, self._unsynced
        return left

    def _next(self) -> "ForgetfulDisk":
        self.dead = True
        return ForgetfulDisk(self.random, trace=self.trace)

    # Every call comes through here

    def new_inode(self) -> Inode:
        return ForgetfulInode()

    def call(self, name: str, path: str, inode: Inode | None, work: Callable[[], T]) -> T:
        if name == "close" and self.dead:
            return work()  # the system does it for a dead process
        if isinstance(inode, ForgetfulInode):
            path = inode.path
        self._check(name, path)
        self.counts[name, path.partition("/")[0]] += 1
        self.trace.add("disk", name, path)
        if self._dies(Call(name, path)):
            if name in WRITES and self.random.random() < 0.5:
                work()
            self.die()
        self._check(name, path)
        if name == "sync" and isinstance(inode, ForgetfulInode):
            self._sync(path, inode)
            return work()
        self.pause(0.0)
        self._check(name, path)
        self._fail(name, path)
        if name in NAMES:
            return self._rename(path, work)
        result = work()
        if name == "sync_folder":
            self._sync_folder(path)
        return result

    def _check(self, name: str, path: str) -> None:
        if self.dead:
            raise StoreError(Trouble.BROKEN, name, path, "the power is off")

    def _fail(self, name: str, path: str) -> None:
        if self.full and name in ("pwrite", "allocate", "create"):
            raise StoreError(Trouble.FULL, name, path, "as it was ordered")
        for ordered in self._fails:
            if name == ordered[0] and path.startswith(ordered[1]):
                self._fails.remove(ordered)
                raise StoreError(Trouble.BROKEN, name, path, "as it was ordered")

    def _sync(self, path: str, inode: ForgetfulInode) -> None:
        try:
            self._fail("sync", path)
        except StoreError:
            inode.fail_sync()
            raise

        def wait() -> None:
            self.pause(self.sync_s)
            self._check("sync", path)

        inode.sync(wait)

    def _rename(self, path: str, work: Callable[[], T]) -> T:
        before = {one: self.names.get(one, GONE) for one in path.split(" -> ")}
        result = work()
        after = {one: self.names.get(one, GONE) for one in before}
        changes = {one: inode for one, inode in after.items() if inode is not before[one]}
        for one, inode in changes.items():
            if isinstance(inode, ForgetfulInode):
                inode.path = one
        if changes:
            self._unsynced.append(changes)
        return result

    def _sync_folder(self, folder: str) -> None:
        kept: list[dict[str, Inode | None]] = []
        for changes in self._unsynced:
            if folder not in map(parent, changes):
                kept.append(changes)
                continue
            self._durable.update(changes)
            # What was done to the same names before is history.
            for older in kept:
                for path in changes:
                    older.pop(path, None)
        self._unsynced = [changes for changes in kept if changes]

    def points(self) -> list[str]:
        """Where it hurts if it dies at this moment, or has died."""
        logs = [path for path in self.names if path.startswith("commitlog/")]
        dirty = [path for path in logs if getattr(self.names[path], "dirty", False)]
        rolls = any(path.startswith("comet/new-commitlog") for path in self.names)
        found = {
            WRITE_AND_SYNC: dirty,
            RENAME_AND_SYNC: any(len(changes) > 1 for changes in self._unsynced),
            ROLL_OVER: rolls or len(dirty) > 1 or any(path not in self._durable for path in logs),
        }
        return [point for point, holds in found.items() if holds]
