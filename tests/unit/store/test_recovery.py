"""What opening a directory does: damage is passed over, foreign directories are left alone."""

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq.kernel import records
from cometmq.runtime import Clock, LocalThreads
from cometmq.store import LocalDisk, MemoryDisk, Store, StoreRefused, StoreSettings
from cometmq.store.directory import Mark, PositionFile, read_slots
from cometmq.store.files import Chain
from tests.unit.store.test_golden import digest
from tests.unit.store.worlds import (
    SMALL,
    ForgetfulDisk,
    opened,
    queues_of,
    reaches,
    read_all,
    stage,
)


async def fill(store: Store, count: int, *, size: int = 40) -> list[int]:
    """Stages messages in two queues; where their records begin."""
    places = []
    for number in range(count):
        one = stage(store, "a", number % 2, b"%06d" % number + bytes(size))
        if number % 25 == 0:
            await asyncio.sleep(0)
        places.append(one.position)
    await reaches(store, one.end)
    return places


async def numbers(store: Store) -> list[list[int]]:
    """The numbers in the bodies that each queue gives, which must stand where they say."""
    read = []
    for queue in queues_of(store, "a"):
        found = [records.decode(one) for one in await read_all(store, queue)]
        bodies = [int(one.body[:6]) for one in found if one.body[:6].isdigit()]
        assert all(
            int(one.body[:6]) // 2 == one.queue_offset for one in found if one.body[:6].isdigit()
        )
        read.append(bodies)
    return read


def write(disk: MemoryDisk, path: str, offset: int, data: bytes) -> None:
    file = disk.open(path)
    file.pwrite(data, offset)
    file.sync()
    file.close()


def flip(disk: MemoryDisk, path: str, offset: int, bit: int) -> None:
    file = disk.open(path)
    (byte,) = file.pread(1, offset)
    file.close()
    write(disk, path, offset, bytes([byte ^ 1 << bit]))


def rewind(disk: MemoryDisk, places: list[int]) -> None:
    """Moves P back to behind the third record: the rest is walked at the next start."""
    last = (read_slots(disk) or [])[0]
    mark = Mark(places[3], places[2], places[3] - places[2], last.mark.store_ms)
    log = Chain(disk, "commitlog", SMALL.mapped_file_size_commit_log)
    PositionFile(log, last).advance(mark, last.synced)


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_in_the_log_costs_at_most_the_record_it_hits(seed: int) -> None:
    asyncio.run(_flipped(random.Random(seed), "commitlog"))


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_in_a_queue_file_costs_at_most_one_message(seed: int) -> None:
    asyncio.run(_flipped(random.Random(seed), "consumequeue/a/0"))


async def _flipped(chance: random.Random, folder: str) -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    places = await fill(store, 400)
    await store.close()
    if folder == "commitlog" and chance.random() < 0.5:
        rewind(disk, places)
    start = chance.randrange(places[-1] if folder == "commitlog" else 200 * 20)
    size = disk.size(f"{folder}/{disk.list(folder)[0]}") or 1
    path = f"{folder}/{start - start % size:020d}"
    flip(disk, path, start % size, chance.randrange(8))
    store = await opened(disk)
    read = await numbers(store)
    there = {number for queue in read for number in queue}
    assert len(there) >= 399 if folder != "commitlog" else len(there) >= 398
    assert stage(store, "a", 0, b"next").queue_offset >= 199


def test_damage_below_the_synced_position_is_kept_and_passed_over() -> None:
    asyncio.run(_damaged())


async def _damaged() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    places = await fill(store, 400)
    await store.close()
    rewind(disk, places)
    write(disk, "commitlog/" + "0" * 20, places[10] + 70, b"\xff" * 600)
    store = await opened(disk)
    read = await numbers(store)
    lost = 400 - sum(len(queue) for queue in read)
    assert 0 <= lost <= 6
    assert store.queue("a", 0).max_offset == 200
    assert store.written.position == places[-1] + places[1]


async def _life(root: Path, settings: StoreSettings, *, close: bool) -> int:
    threads = LocalThreads()
    store = await Store.open(settings, disk=LocalDisk(root), threads=threads, clock=Clock())
    await fill(store, 300)
    end = store.written.position
    if not close:
        shutil.copytree(root, root.with_name("copy"))
    await store.close()
    threads.close()
    return end


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("closed") / "store"
    asyncio.run(_life(root, SMALL, close=True))
    return root


@pytest.fixture
def closed(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "store"))


def test_a_clean_stop_leaves_whole_files_and_nothing_that_says_in_use(closed: Path) -> None:
    logs = sorted((closed / "commitlog").iterdir())
    assert {path.stat().st_size for path in logs} == {SMALL.mapped_file_size_commit_log}
    queues = list((closed / "consumequeue").rglob("0*0"))
    sizes = {path.stat().st_size for path in queues if path.is_file()}
    assert sizes == {SMALL.mapped_file_size_consume_queue}
    assert (closed / "checkpoint").stat().st_size == 4096
    assert (closed / "lock").read_bytes() == b"lock"
    assert not (closed / "abort").exists()
    assert sorted(path.name for path in (closed / "comet").iterdir()) == ["position"]


def test_opening_and_closing_an_intact_store_changes_only_its_position_file(closed: Path) -> None:
    before = digest(closed)

    async def again() -> None:
        threads = LocalThreads()
        store = await Store.open(SMALL, disk=LocalDisk(closed), threads=threads, clock=Clock())
        assert (closed / "abort").exists()
        assert await numbers(store) == [list(range(0, 300, 2)), list(range(1, 300, 2))]
        await store.close()
        threads.close()

    asyncio.run(again())
    after = digest(closed)
    assert before.keys() == after.keys()
    assert [path for path in before if before[path] != after[path]] == ["comet/position"]


def test_a_directory_copied_from_under_a_living_store_has_everything(tmp_path: Path) -> None:
    asyncio.run(_life(tmp_path / "store", SMALL, close=False))
    assert (tmp_path / "copy" / "abort").read_text().isdigit()

    async def again() -> None:
        threads = LocalThreads()
        disk = LocalDisk(tmp_path / "copy")
        store = await Store.open(SMALL, disk=disk, threads=threads, clock=Clock())
        assert await numbers(store) == [list(range(0, 300, 2)), list(range(1, 300, 2))]
        await store.close()
        threads.close()

    asyncio.run(again())


def _original_was_here(root: Path) -> None:
    content = bytearray((root / "checkpoint").read_bytes())
    content[39] ^= 1
    (root / "checkpoint").write_bytes(content)


def _other_log(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.write_bytes(bytes(path.stat().st_size))


def _short_file(root: Path) -> None:
    (root / "commitlog" / ("0" * 20)).write_bytes(b"")


def _foreign_file(root: Path) -> None:
    (root / "consumequeue" / "a" / "0" / "x.tmp").write_bytes(b"")


REFUSALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no position file": (lambda root: (root / "comet/position").unlink(), "not written by CometMQ"),
    "a changed checkpoint": (_original_was_here, "the original has opened this store"),
    "no checkpoint": (lambda root: (root / "checkpoint").unlink(), "the original has opened"),
    "another log": (_other_log, "not the one that comet/position belongs to"),
    "no log": (lambda root: shutil.rmtree(root / "commitlog"), "not the one that"),
    "a file of another size": (_short_file, "mappedFileSizeCommitLog is 16384"),
    "a foreign file": (_foreign_file, "no file of a store"),
    "a gap": (lambda root: (root / "commitlog" / f"{16384:020d}").unlink(), "are missing in"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_directory_is_not_changed_by_a_byte(closed: Path, case: str) -> None:
    change, sentence = REFUSALS[case]
    change(closed)
    (closed / "lock").unlink()
    before = digest(closed)
    with pytest.raises(StoreRefused, match=sentence):
        asyncio.run(opened(LocalDisk(closed)))
    assert digest(closed) == before


def test_after_a_kill_only_the_last_log_files_are_read() -> None:
    asyncio.run(_many_files())


async def _many_files() -> None:
    settings = StoreSettings(
        mapped_file_size_commit_log=16384,
        mapped_file_size_consume_queue=6000,
        max_unindexed_bytes=8000,
    )
    disk = ForgetfulDisk()
    store = await opened(disk, settings)
    for _ in range(100):
        await fill(store, 40)
        for _ in range(20):
            await asyncio.sleep(0)
    assert len(disk.list("commitlog")) > 30
    disk.locks.clear()
    disk.read_files.clear()
    await opened(disk, settings)
    read = {path for path in disk.read_files if path.startswith("commitlog/")}
    assert 1 <= len(read) <= 2
