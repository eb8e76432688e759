"""What the tests of the store share: threads on the loop, a disk that forgets, and writers."""

import asyncio
import dataclasses
import random
from collections.abc import Callable
from typing import Any, TypeVar

from cometmq.kernel import headers
from cometmq.runtime import Refused
from cometmq.store import (
    Cold,
    Disk,
    FlushDiskType,
    Found,
    MemoryDisk,
    Queue,
    Status,
    Store,
    StoreError,
    StoreSettings,
    Trouble,
)
from cometmq.store.disk import Data
from cometmq.store.memory import Inode

T = TypeVar("T")

PAGE = 4096
HOST = b"\x0a\x00\x00\x01\x00\x00\xc3\x50"
SMALL = StoreSettings(
    mapped_file_size_commit_log=16384,
    mapped_file_size_consume_queue=400,
    physical_memory=1 << 30,
    # A machine that is busy with other tests must not decide what these say.
    create_file_timeout=60000,
    os_page_cache_busy_time_out_mills=60000,
)
SMALL_ASYNC = dataclasses.replace(
    SMALL,
    flush_disk_type=FlushDiskType.ASYNC_FLUSH,
    flush_interval_commit_log=5,
    flush_interval_consume_queue=7,
)


class LoopThreads:
    """Does work on the loop, some turns later; its result comes back some more turns later."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance
        self._last: dict[str, asyncio.Future[Any]] = {}

    def _delay(self) -> int:
        return self._chance.randrange(6) if self._chance else 0

    def run(self, lane: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        before = self._last.get(lane)
        future = asyncio.get_running_loop().create_future()
        self._last[lane] = future
        self._later(self._delay(), lambda: self._do(before, future, work))
        return future

    def _later(self, turns: int, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(then if turns <= 0 else lambda: self._later(turns - 1, then))

    def _do(
        self,
        before: "asyncio.Future[Any] | None",
        future: "asyncio.Future[Any]",
        work: Callable[[], Any],
    ) -> None:
        if before is not None and not before.done():
            self._later(1, lambda: self._do(before, future, work))
            return
        try:
            result = work()
        except Exception as error:
            failure = error
            self._later(self._delay(), lambda: future.set_exception(failure))
            return
        self._later(self._delay(), lambda: future.set_result(result))

    def close(self) -> None:
        pass


class TestClock:
    """Counts a millisecond each time it is read."""

    __test__ = False

    def __init__(self, ms: int = 1_700_000_000_000) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms


class DurableInode(Inode):
    """A file whose pages are on the disk only after a sync."""

    def __init__(self) -> None:
        super().__init__()
        self.durable_size = 0
        self.versions: dict[int, list[bytes]] = {}
        """What may be on the disk of each page that was ever written: its last sync, or later."""

    def _page(self, number: int) -> bytes:
        return bytes(self.written[number * PAGE : (number + 1) * PAGE]).ljust(PAGE, b"\0")

    def keep(self) -> None:
        self.durable_size = self.size
        self.versions = {number: [self._page(number)] for number in self.versions}

    def write(self, data: Data, offset: int) -> int:
        done = super().write(data, offset)
        for number in range(offset // PAGE, (offset + done - 1) // PAGE + 1):
            self.versions.setdefault(number, [bytes(PAGE)]).append(self._page(number))
        return done

    def after_cut(self, chance: random.Random) -> "DurableInode":
        left = DurableInode()
        size = chance.choice([self.durable_size, self.size])
        for number, possible in sorted(self.versions.items()):
            first, second = chance.choice(possible), chance.choice(possible)
            torn = chance.randrange(0, PAGE + 1, 512)
            left.write(first[:torn] + second[torn:], number * PAGE)
        left.resize(size)
        left.keep()
        return left


class ForgetfulDisk(MemoryDisk):
    """Loses what was not synced when the power goes: pages, lengths, names."""

    def __init__(self, cut_at: int = 1 << 60) -> None:
        super().__init__()
        self.durable_names: dict[str, Inode | None] = {"": None}
        self.cut_at = cut_at
        self.calls = 0
        self.fail: Callable[[str, str], Trouble | None] = lambda name, path: None
        self.counts: dict[str, int] = {}
        self.read_files: set[str] = set()

    def new_inode(self) -> Inode:
        return DurableInode()

    def call(self, name: str, path: str, inode: Inode | None, work: Callable[[], T]) -> T:
        self.calls += 1
        self.counts[name] = self.counts.get(name, 0) + 1
        if name == "pread":
            self.read_files.add(path)
        trouble = self.fail(name, path)
        if self.calls > self.cut_at:
            trouble = Trouble.BROKEN
        if trouble is not None:
            raise StoreError(trouble, name, path, "ordered by the test")
        result = work()
        if isinstance(inode, DurableInode) and name == "sync":
            inode.keep()
        if name == "sync_folder":
            self._keep_names(path)
        return result

    def _keep_names(self, folder: str) -> None:
        for path in self.names.keys() | self.durable_names.keys():
            if path and path.rpartition("/")[0] == folder:
                if path in self.names:
                    self.durable_names[path] = self.names[path]
                else:
                    del self.durable_names[path]

    def after_kill(self) -> "ForgetfulDisk":
        """The process has died: everything is in the page cache still."""
        left = ForgetfulDisk()
        left.names = dict(self.names)
        left.durable_names = dict(self.durable_names)
        return left

    def after_cut(self, chance: random.Random) -> "ForgetfulDisk":
        left = ForgetfulDisk()
        kept: dict[int, Inode] = {}
        for path in sorted(self.names.keys() | self.durable_names.keys()):
            choice = chance.choice([self.names, self.durable_names])
            if path and path.rpartition("/")[0] not in left.names:
                continue
            if path in choice:
                inode = choice[path]
                if inode is not None:
                    assert isinstance(inode, DurableInode)
                    inode = kept.setdefault(id(inode), inode.after_cut(chance))
                left.names[path] = inode
        left.durable_names = dict(left.names)
        return left


def send(topic: str, body: bytes, tag: str = "") -> headers.Send:
    """A send as the broker would stage it."""
    properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
    return headers.Send(topic=topic, body=body, properties=properties, born_ms=1)


def stage(store: Store, topic: str, queue_id: int, body: bytes, tag: str = "") -> headers.Send:
    """Stages one message; it must be taken."""
    one = send(topic, body, tag)
    store.stage(one, store.queue(topic, queue_id), HOST, b"")
    return one


def refusal(store: Store, *sends: headers.Send) -> tuple[int, str] | None:
    """What is said to one send to queue a/0, or to a batch of several; None where it is taken."""
    queue = store.queue("a", 0)
    try:
        if len(sends) == 1:
            store.stage(sends[0], queue, HOST, b"")
        else:
            store.stage_batch(sends, queue, HOST, b"")
    except Refused as refused:
        return refused.code, str(refused)
    return None


async def reaches(store: Store, position: int, *, mark: str = "visible") -> None:
    """Returns when a watermark has reached the position."""
    for tries in range(60000):
        if getattr(store, mark).position >= position:
            return
        await asyncio.sleep(0 if tries < 1000 else 0.001)
    raise AssertionError(f"{mark} never reached {position}: {store.read_only}")


async def found(result: "T | Cold[T]") -> T:
    """What a read finds, waiting for it where it is cold."""
    if isinstance(result, Cold):
        told = asyncio.get_running_loop().create_future()
        result.watch(lambda _: told.set_result(None))
        await told
        if result.error is not None:
            raise result.error
        return result.found  # type: ignore[return-value]
    return result


async def read_all(store: Store, queue: Queue) -> list[bytes]:
    """The records of a queue, from its first to its last."""
    offset, read = queue.min_offset, []
    while True:
        answer: Found = await found(store.read(queue.topic, queue.queue_id, offset, most=100))
        if answer.status in (Status.OFFSET_OVERFLOW_ONE, Status.NO_MESSAGE_IN_QUEUE):
            return read
        assert answer.next_offset > offset
        at = 0
        for _ in range(answer.count):
            size = int.from_bytes(answer.body[at : at + 4], "big")
            read.append(answer.body[at : at + size])
            at += size
        offset = answer.next_offset


def queues_of(store: Store, topic: str) -> list[Queue]:
    """The queues of a topic, by their number."""
    return [queue for number in range(8) if (queue := store.find_queue(topic, number))]


async def opened(
    disk: Disk, settings: StoreSettings = SMALL, chance: random.Random | None = None
) -> Store:
    """A store on this disk."""
    return await Store.open(
        settings,
        disk=disk,
        threads=LoopThreads(chance),
        clock=TestClock(),  # type: ignore[arg-type]
    )
