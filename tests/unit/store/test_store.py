"""Staging, watermarks, reading and faults of the store, on a disk in memory."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from cometmq.kernel import headers, records
from cometmq.store import Cold, Fault, Found, Status, Store, StoreRefused, Trouble
from tests.unit.store.worlds import (
    SMALL,
    SMALL_ASYNC,
    ForgetfulDisk,
    found,
    opened,
    reaches,
    read_all,
    refusal,
    send,
    stage,
)


def run(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Runs a coroutine as a test."""

    def inner() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    inner.__name__ = test.__name__
    return inner


async def bodies(store: Store, topic: str, queue_id: int) -> list[bytes]:
    return [records.decode(one).body for one in await read_all(store, store.queue(topic, queue_id))]


@run
async def test_what_is_staged_in_one_turn_leaves_in_one_write_and_one_sync() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    await reaches(store, stage(store, "a", 0, b"first").end)
    writes, syncs = disk.counts["pwrite"], disk.counts["sync"]
    for number in range(20):
        last = stage(store, "a", 0, b"%d" % number)
    await reaches(store, last.end)
    assert disk.counts["pwrite"] - writes == 1
    assert disk.counts["sync"] - syncs == 1


@run
async def test_numbers_are_dense_and_records_move_on_to_the_next_file_whole() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    sent = [b"%d" % number * 40 for number in range(700)]
    for start in range(0, 700, 50):
        for body in sent[start : start + 50]:
            last = stage(store, "a", 0, body)
        await reaches(store, last.end)
    assert await bodies(store, "a", 0) == sent
    assert store.queue("a", 0).max_offset == 700
    assert last.position > 2 * SMALL.mapped_file_size_commit_log
    await store.close()
    assert "abort" not in disk.names
    store = await opened(disk)
    assert await bodies(store, "a", 0) == sent
    assert stage(store, "a", 0, b"next").queue_offset == 700


@pytest.mark.spec("STO-9")
@run
async def test_a_batch_lies_side_by_side_in_one_file() -> None:
    store = await opened(ForgetfulDisk())
    size = SMALL.mapped_file_size_commit_log
    await reaches(store, stage(store, "a", 0, b"x" * (size - 600)).end)
    batch = [send("a", b"y" * 100) for _ in range(5)]
    assert refusal(store, *batch) is None
    assert batch[0].position == size
    assert [one.queue_offset for one in batch] == [1, 2, 3, 4, 5]
    assert all(one.end == two.position for one, two in pairwise(batch))
    await reaches(store, batch[-1].end)
    assert len(await bodies(store, "a", 0)) == 6


@run
async def test_what_no_file_can_hold_is_refused_and_takes_no_number() -> None:
    store = await opened(ForgetfulDisk())
    large = send("a", b"x" * SMALL.mapped_file_size_commit_log)
    odd = headers.Send(topic="a", body=b"x", properties=b"k\x01" + b"v" * 32767)
    batch = [send("a", b"x" * 8000) for _ in range(3)]
    for sends in ([large], [odd], batch, [send("a", b"x"), odd]):
        code, why = refusal(store, *sends) or (0, "")
        assert code == 13
        assert "the message is illegal" in why
    assert stage(store, "a", 0, b"small").queue_offset == 0


@pytest.mark.spec("STO-25")
@run
async def test_under_sync_flush_nothing_is_visible_before_it_is_synced() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    await reaches(store, stage(store, "a", 0, b"one").end)
    disk.fail = lambda name, path: Trouble.BROKEN if name == "sync" else None
    faults: list[Fault] = []
    store.synced.faults.watch(faults.append)
    last = stage(store, "a", 0, b"two")
    await reaches(store, last.end, mark="written")
    for _ in range(20):
        await asyncio.sleep(0)
    assert store.queue("a", 0).max_offset == 1
    assert store.visible.position == store.synced.position == last.position
    assert [(fault.beyond, fault.stored) for fault in faults] == [(last.position, True)]
    assert store.read_only is not None
    assert "could not be synced" in store.read_only
    assert refusal(store, send("a", b"x")) == (14, f"the store is read-only: {store.read_only}")
    syncs = disk.counts["sync"]
    disk.fail = lambda name, path: None
    await store.close()
    assert disk.counts["sync"] == syncs, "a failed sync was tried again"
    assert "abort" in disk.names


@run
async def test_a_full_log_file_whose_closing_fails_stops_nothing() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    disk.fail = lambda name, path: Trouble.BROKEN if name == "close" and "log" in path else None
    for _ in range(3):
        await reaches(store, stage(store, "a", 0, b"x" * 9000).end)
    assert store.read_only is None
    assert len(await bodies(store, "a", 0)) == 3


@run
async def test_a_bug_in_blocking_work_is_told_to_whoever_waits_for_it() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    await reaches(store, stage(store, "a", 0, b"first").end)

    def fail(name: str, path: str) -> None:
        assert name != "sync", "a bug"

    disk.fail = fail
    await reaches(store, stage(store, "a", 0, b"second").end, mark="written")
    while store.read_only is None:
        await asyncio.sleep(0)
    assert "could not be synced" in str(store.read_only)
    assert "a bug" in str(store.read_only)


@pytest.mark.spec("STO-16")
@run
async def test_after_a_failed_write_its_turn_was_never_there() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    first = stage(store, "a", 0, b"one")
    await reaches(store, first.end)
    faults: list[Fault] = []
    store.synced.faults.watch(faults.append)
    disk.fail = lambda name, path: Trouble.FULL if name == "pwrite" else None
    stage(store, "a", 0, b"two")
    stage(store, "b", 0, b"three")
    await asyncio.sleep(0)
    assert [(fault.beyond, fault.stored) for fault in faults] == [(first.end, False)]
    assert store.queue("a", 0).tail.next == 1
    assert store.queue("b", 0).tail.next == 0
    assert store.read_only is not None
    disk.fail = lambda name, path: None
    await store.close()
    assert "abort" in disk.names
    store = await opened(disk)
    assert await bodies(store, "a", 0) == [b"one"]
    assert stage(store, "a", 0, b"again").position == first.end


@run
async def test_without_a_next_file_sends_wait_and_are_then_refused_but_the_store_goes_on() -> None:
    disk = ForgetfulDisk()
    settings = dataclasses.replace(SMALL, create_file_timeout=10)
    store = await opened(disk, settings)
    await reaches(store, stage(store, "a", 0, b"x").end)
    while len(disk.list("commitlog")) < 2:
        await asyncio.sleep(0)
    disk.fail = lambda name, path: Trouble.FULL if name == "create" else None
    for _ in range(3):
        refused = refusal(store, send("a", b"x" * 12000))
        await asyncio.sleep(0.02)
    code, why = refused or (0, "")
    assert code == 1
    assert "no space left" in why
    assert store.read_only is None
    disk.fail = lambda name, path: None
    for _ in range(3):
        refused = refusal(store, send("a", b"x" * 12000))
        await asyncio.sleep(0.02)
    assert refused is None


@run
async def test_a_slow_sync_makes_the_store_busy() -> None:
    settings = dataclasses.replace(SMALL_ASYNC, max_unsynced_bytes=4000)
    store = await opened(ForgetfulDisk(), settings)
    assert [refusal(store, send("a", b"x" * 3000)) for _ in range(2)] == [None, None]
    store._end_turn()
    code, why = refusal(store, send("a", b"x")) or (0, "")
    assert code == 2
    assert "does not keep up" in why


@run
async def test_each_place_of_a_queue_is_answered_as_the_original_does() -> None:
    store = await opened(ForgetfulDisk())
    for number in range(5):
        last = stage(store, "a", 0, b"%d" % number, tag="odd" if number % 2 else "even")
    await reaches(store, last.end)
    even, none = headers.java_hash(b"even"), headers.java_hash(b"none")

    async def ask(offset: int, tag: int | None = None, topic: str = "a") -> tuple[Status, int, int]:
        hashes = None if tag is None else frozenset({tag})
        answer = await found(store.read(topic, 0, offset, hashes=hashes))
        return answer.status, answer.next_offset, answer.count

    assert await ask(0) == (Status.FOUND, 5, 5)
    assert await ask(0, even) == (Status.FOUND, 5, 3)
    assert await ask(1, none) == (Status.NO_MATCHED_MESSAGE, 5, 0)
    assert await ask(5) == (Status.OFFSET_OVERFLOW_ONE, 5, 0)
    assert await ask(6) == (Status.OFFSET_OVERFLOW_BADLY, 5, 0)
    assert await ask(-1) == (Status.OFFSET_TOO_SMALL, 0, 0)
    assert await ask(7, topic="unknown") == (Status.NO_MESSAGE_IN_QUEUE, 0, 0)


@run
async def test_a_read_ends_at_its_limits_and_at_the_end_of_a_queue_file() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    for number in range(70):
        last = stage(store, "a", 0, b"x" * 50, tag="wanted" if number == 69 else "")
    await reaches(store, last.end)
    per_file = SMALL.mapped_file_size_consume_queue // 20
    first: Found = await found(store.read("a", 0, 0, most=100))
    assert first.count == min(32, per_file) == first.next_offset
    wanted = frozenset({headers.java_hash(b"wanted")})
    scanned = [await found(store.read("a", 0, at, hashes=wanted)) for at in (0, 20, 40, 60)]
    assert [one.next_offset for one in scanned] == [20, 40, 60, 70]
    await store.close()
    small = dataclasses.replace(SMALL, max_transfer_bytes_on_message_in_memory=100)
    large = await found((await opened(disk, small)).read("a", 0, 0))
    assert large.count == 1


@run
async def test_old_entries_are_read_from_their_files_in_a_thread_and_new_ones_at_once() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk, SMALL_ASYNC)
    for _ in range(30):
        last = stage(store, "a", 0, b"x" * 50)
    await reaches(store, last.end)
    assert isinstance(store.read("a", 0, 0), Found)
    while store.queue("a", 0).tail.first < 30:
        await asyncio.sleep(0.005)
    assert isinstance(store.read("a", 0, 0), Cold)
    assert (await found(store.read("a", 0, 0))).count == 20
    assert isinstance(store.read("a", 0, 0), Found)


@run
async def test_a_message_is_found_by_its_position_and_by_nothing_else() -> None:
    store = await opened(ForgetfulDisk())
    one = stage(store, "a", 0, b"x" * 5000)
    assert store.message_at(0) is None
    await reaches(store, one.end)
    data = store.message_at(0)
    assert isinstance(data, bytes)
    assert records.decode(data, 0, True).body == b"x" * 5000
    for wrong in (-1, 1, 28, one.end, 1 << 50):
        assert store.message_at(wrong) is None


@run
async def test_watchers_of_a_queue_hear_the_hashes_of_what_arrived() -> None:
    store = await opened(ForgetfulDisk())
    heard: list[frozenset[int] | None] = []
    stage(store, "a", 0, b"", tag="before")
    stop = store.queue("a", 0).arrivals.watch(heard.append)
    stage(store, "a", 0, b"", tag="t")
    await reaches(store, stage(store, "a", 0, b"").end)
    stop()
    await reaches(store, stage(store, "a", 0, b"").end)
    assert heard == [frozenset({headers.java_hash(b"before"), headers.java_hash(b"t"), 0})]


@run
async def test_a_new_group_may_start_at_0_only_while_that_is_near() -> None:
    settings = dataclasses.replace(SMALL, physical_memory=10000)
    store = await opened(ForgetfulDisk(), settings)
    assert not store.starts_hot("a", 0)
    await reaches(store, stage(store, "a", 0, b"").end)
    assert store.starts_hot("a", 0)
    await reaches(store, stage(store, "b", 0, b"x" * 4000).end)
    assert not store.starts_hot("a", 0)


@pytest.mark.spec("STO-17")
@run
async def test_store_times_never_decrease_not_even_over_a_restart() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    store._store_ms = 1_800_000_000_000
    await reaches(store, stage(store, "a", 0, b"").end)
    await store.close()
    store = await opened(disk)
    await reaches(store, stage(store, "a", 0, b"").end)
    times = [records.decode(one).store_ms for one in await read_all(store, store.queue("a", 0))]
    assert times == sorted(times)
    assert times[0] == 1_800_000_000_000


@run
async def test_a_second_store_in_the_same_directory_is_refused() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    with pytest.raises(StoreRefused, match="Lock failed,MQ already started"):
        await opened(disk)
    await store.close()
    await (await opened(disk)).close()


@run
async def test_after_the_power_is_gone_closing_ends_and_writes_nothing() -> None:
    disk = ForgetfulDisk()
    store = await opened(disk)
    stage(store, "a", 0, b"x")
    disk.cut_at = 0
    before = {path: inode and bytes(inode.written) for path, inode in disk.names.items()}
    await store.close()
    assert {path: inode and bytes(inode.written) for path, inode in disk.names.items()} == before
