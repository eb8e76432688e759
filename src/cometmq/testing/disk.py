"""The disk that forgets: after a power cut it has what a real one may have, and nothing better.

Until a file is synced, each page that was written may be there or not, in any of its versions;
until its folder is synced, a name may be there or not. A sync covers what was written when it
began, and ends later. A process that dies loses nothing: the page cache stays.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cometmq.store import MemoryDisk, StoreError, Trouble
from cometmq.store.disk import Data
from cometmq.store.memory import PAGE, Inode
from cometmq.testing.trace import Trace

T = TypeVar("T")

SECTOR = 512
NEVER = 1 << 60
GONE = Inode()
"""Stands for a name that is not there."""

WRITES = ("pwrite", "allocate", "truncate")
NAMES = ("create", "make_folder", "rename", "remove", "lock")

WRITE_AND_SYNC = "between write and sync"
RENAME_AND_SYNC = "between rename and folder sync"
RECOVERY = "in recovery"
ROLL_OVER = "in roll-over"
POINTS = (WRITE_AND_SYNC, RENAME_AND_SYNC, RECOVERY, ROLL_OVER)
"""Where a death can hurt; one death may lie in several of them."""


POSITION = "comet/position"
"""A store that has this file was opened before."""


class Call(NamedTuple):
    """One call on the disk."""

    number: int
    name: str
    path: str


class ForgetfulInode(Inode):
    """A file in the page cache, and what of it is on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""
        """The name that it was given last."""
        self.durable: dict[int, bytes] = {}
        self.durable_size = 0
        self._serial = 0
        self._versions: dict[int, list[tuple[int, bytes]]] = {}
        """Each page as it was after each write that no sync has covered."""
        self._sizes: list[tuple[int, int]] = []
        self._doubtful: dict[int, list[bytes]] = {}
        """Pages of a failed sync: the cache calls them clean, the disk may have any version."""
        self._last = 0
        """Where the last write ended."""

    @property
    def unsynced(self) -> bool:
        """Something was written that no sync has covered."""
        return bool(self._versions or self._sizes)

    def write(self, data: Data, offset: int) -> int:
        done = super().write(data, offset)
        if done:
            self._changed(range(offset // PAGE, (offset + done - 1) // PAGE + 1))
            self._last = offset + done
        return done

    def resize(self, size: int) -> None:
        cut = [number for number in self.pages if (number + 1) * PAGE > size]
        super().resize(size)
        self._changed(cut)

    def _changed(self, numbers: "range | list[int]") -> None:
        self._serial += 1
        for number in numbers:
            page = bytes(self.pages.get(number, bytes(PAGE)))
            self._versions.setdefault(number, []).append((self._serial, page))
        if self.size != (self._sizes[-1][1] if self._sizes else self.durable_size):
            self._sizes.append((self._serial, self.size))

    def begin_sync(self) -> int:
        """What a sync covers that begins now."""
        return self._serial

    def end_sync(self, covered: int) -> None:
        """That sync is over: what it covers is on the disk."""
        for number, versions in list(self._versions.items()):
            done = [page for serial, page in versions if serial <= covered]
            if done:
                self.durable[number] = done[-1]
                self._doubtful.pop(number, None)
                del versions[: len(done)]
            if not versions:
                del self._versions[number]
        while self._sizes and self._sizes[0][0] <= covered:
            self.durable_size = self._sizes.pop(0)[1]

    def fail_sync(self) -> None:
        """The pages are marked clean all the same, as Linux does: no later sync covers them."""
        for number, versions in self._versions.items():
            self._doubtful.setdefault(number, []).extend(page for _, page in versions)
        self._versions.clear()

    def flip(self, offset: int, bit: int) -> None:
        """A bit of the medium turns over."""
        number, inside = divmod(offset, PAGE)
        self.pages.setdefault(number, bytearray(PAGE))[inside] ^= 1 << bit
        page = bytearray(self.durable.get(number, bytes(PAGE)))
        page[inside] ^= 1 << bit
        self.durable[number] = bytes(page)

    def after_cut(self, chance: random.Random) -> "ForgetfulInode":
        """What the disk has when the power is back."""
        left = ForgetfulInode()
        keeps = _choose(chance)
        sizes = [self.durable_size, *(size for _, size in self._sizes)]
        left.size = sizes[-1 if keeps == 1 else 0 if keeps == 0 else chance.randrange(len(sizes))]
        for number in sorted({*self.durable, *self._versions, *self._doubtful}):
            page = self._survivor(number, keeps, chance)
            if number * PAGE < left.size:
                left.durable[number] = page
                left.pages[number] = bytearray(page)
        left.durable_size = left.size
        if left.size % PAGE and (last := left.pages.get(left.size // PAGE)) is not None:
            last[left.size % PAGE :] = bytes(PAGE - left.size % PAGE)
            left.durable[left.size // PAGE] = bytes(last)
        return left

    def _survivor(self, number: int, keeps: float, chance: random.Random) -> bytes:
        versions: list[bytes] = [
            self.durable.get(number, bytes(PAGE)),
            *self._doubtful.get(number, ()),
            *(page for _, page in self._versions.get(number, ())),
        ]
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


class _Rename(NamedTuple):
    """A change of names that may be lost as a whole; a rename changes two."""

    folders: tuple[str, ...]
    changes: dict[str, Inode | None]
    is_rename: bool


class ForgetfulDisk(MemoryDisk):
    """A disk in memory that keeps no more than was synced, and fails when it is told to."""

    def __init__(self, chance: random.Random | None = None, *, trace: Trace | None = None) -> None:
        super().__init__()
        self.random = chance or random.Random(0)
        self.trace = trace or Trace()
        self.calls = 0
        self.counts: Counter[tuple[str, str]] = Counter()
        """How often each call was made, by folder: `counts["sync", "commitlog"]`."""
        self.dead = False
        self.points: list[str] = []
        """In which of POINTS it was when it died."""
        self._recovering = False
        self.full = False
        self.sync_s = 0.0
        """How long a sync takes, beyond what the seed wants."""
        self.pause: Callable[[float], None] = lambda seconds: None
        """Lets others go on in the middle of a thread's work (`SimulatedThreads.pause`)."""
        self.died: Callable[[], None] = lambda: None
        """Called at the moment of a death that was ordered."""
        self._dies: Callable[[Call], bool] = lambda call: False
        self._fails: dict[tuple[str, str], Trouble] = {}
        self._durable: dict[str, Inode | None] = {"": None}
        self._unsynced: list[_Rename] = []

    # What can be ordered

    def die_when(self, dies: Callable[[Call], bool]) -> None:
        """Dies at the first call for which this holds; a write may have been done in part."""
        self._dies = dies

    def die(self) -> None:
        """From now on every call fails."""
        if not self.dead:
            self.dead = True
            self.points = self._points()
            self.trace.add("dead", self.calls)
            self.died()

    def fail_once(self, name: str, path: str, trouble: Trouble = Trouble.BROKEN) -> None:
        """The next such call on a path that begins so fails."""
        self._fails[name, path] = trouble

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
        return sorted(path for path in self.names if path and _folder(path) == folder)

    # The lives after this one

    def after_cut(self) -> "ForgetfulDisk":
        """The disk when the power is back."""
        self.dead = True
        names = dict(self._durable)
        keeps = _choose(self.random)
        for change in self._unsynced:
            if self.random.random() < keeps:
                names.update(change.changes)
        left = self._next()
        copies: dict[int, ForgetfulInode] = {}
        for path, inode in sorted(names.items()):
            if inode is GONE or (path and left.names.get(_folder(path), GONE) is not None):
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
        self.dead = True
        left = self._next()
        left.names, left._durable = self.names, self._durable
        left._unsynced = self._unsynced
        return left

    def _next(self) -> "ForgetfulDisk":
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
        self.calls += 1
        self.counts[name, path.partition("/")[0]] += 1
        if name == "lock":
            self._recovering = POSITION in self.names
        elif path.startswith("config/"):  # a broker reads its tables once the store is open
            self._recovering = False
        self.trace.add("disk", name, path)
        if self._dies(Call(self.calls, name, path)):
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
            return self._rename(name, path, work)
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
        for (failing, start), trouble in list(self._fails.items()):
            if name == failing and path.startswith(start):
                del self._fails[failing, start]
                raise StoreError(trouble, name, path, "as it was ordered")

    def _sync(self, path: str, inode: ForgetfulInode) -> None:
        try:
            self._fail("sync", path)
        except StoreError:
            inode.fail_sync()
            raise
        covered = inode.begin_sync()
        self.pause(self.sync_s)
        self._check("sync", path)
        inode.end_sync(covered)

    def _rename(self, name: str, path: str, work: Callable[[], T]) -> T:
        paths = path.split(" -> ")
        before = [self.names.get(one, GONE) for one in paths]
        result = work()
        after = [self.names.get(one, GONE) for one in paths]
        for one, inode in zip(paths, after, strict=True):
            if isinstance(inode, ForgetfulInode):
                inode.path = one
        changes = {
            one: now for one, old, now in zip(paths, before, after, strict=True) if now is not old
        }
        if changes:
            folders = tuple(dict.fromkeys(_folder(one) for one in paths))
            self._unsynced.append(_Rename(folders, changes, name == "rename"))
        return result

    def _sync_folder(self, folder: str) -> None:
        done = [one for one in self._unsynced if folder in one.folders]
        for change in done:
            at = self._unsynced.index(change)
            self._durable.update(change.changes)
            # What was done to the same names before is history.
            for older in self._unsynced[:at]:
                for path in change.changes:
                    older.changes.pop(path, None)
            del self._unsynced[at]

    # Where it died

    def _points(self) -> list[str]:
        dirty = [
            path
            for path, inode in self.names.items()
            if path.startswith("commitlog/")
            and isinstance(inode, ForgetfulInode)
            and inode.unsynced
        ]
        renamed = [one for one in self._unsynced if one.is_rename and one.changes]
        rolling = [
            path
            for path in (*self.names, *(path for one in renamed for path in one.changes))
            if path.startswith(("comet/new-commitlog", "commitlog/"))
            and (path.startswith("comet/") or path not in self._durable)
        ]
        found = {
            WRITE_AND_SYNC: bool(dirty),
            RENAME_AND_SYNC: bool(renamed),
            RECOVERY: self._recovering,
            ROLL_OVER: bool(rolling) or len(dirty) > 1,
        }
        return [point for point in POINTS if found[point]]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
