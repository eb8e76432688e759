"""The disk that forgets: what a power cut may take, and what it may not."""

import random
from collections.abc import Callable

import pytest

from cometmq.store import StoreError, Trouble
from cometmq.testing import ForgetfulDisk
from cometmq.testing.disk import (
    PAGE,
    RENAME_AND_SYNC,
    ROLL_OVER,
    SECTOR,
    WRITE_AND_SYNC,
)

SEEDS = range(200)
Prepare = Callable[[ForgetfulDisk], None]


def after_cuts(prepare: Prepare, path: str = "file") -> list[bytes | None]:
    """What each of many cuts leaves of a file; None where its name is gone."""
    found = []
    for seed in SEEDS:
        disk = ForgetfulDisk(random.Random(seed))
        prepare(disk)
        left = disk.after_cut()
        found.append(left.content(path) if path in left.names else None)
    return found


def synced(disk: ForgetfulDisk, content: bytes = b"") -> None:
    file = disk.open("file", create=True)
    if content:
        file.pwrite(content, 0)
    file.sync()
    disk.sync_folder("")


def test_what_was_synced_under_a_synced_name_is_there_after_every_cut() -> None:
    assert set(after_cuts(lambda disk: synced(disk, b"kept"))) == {b"kept"}


def test_a_synced_file_whose_name_was_not_may_be_gone_and_may_be_there() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        file = disk.open("file", create=True)
        file.pwrite(b"kept", 0)
        file.sync()

    assert set(after_cuts(prepare)) == {b"kept", None}


def test_a_length_that_was_not_synced_may_be_lost() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk)
        disk.open("file").pwrite(b"x", 0)

    assert set(after_cuts(prepare)) == {b"", b"\0", b"x"}


def test_space_that_was_taken_reads_as_zeros() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk)
        file = disk.open("file")
        file.allocate(3 * PAGE)
        file.sync()

    assert set(after_cuts(prepare)) == {bytes(3 * PAGE)}


def test_any_subset_of_unsynced_pages_may_survive_the_later_without_the_earlier_too() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk, bytes(3 * PAGE))
        disk.open("file").pwrite(b"x" * 3 * PAGE, 0)

    kept = {
        tuple(content[at] for at in range(0, 3 * PAGE, PAGE))
        for content in after_cuts(prepare)
        if content
    }
    assert len(kept) == 8


def test_a_page_may_be_in_any_version_since_its_last_sync_and_in_none_before() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk, b"a" * PAGE)
        file = disk.open("file")
        for version in (b"b", b"c", b"d"):
            file.pwrite(version * PAGE, 0)
            if version == b"b":
                file.sync()

    whole = {content for content in after_cuts(prepare) if content and len(set(content)) == 1}
    assert whole == {b"b" * PAGE, b"c" * PAGE, b"d" * PAGE}


def test_a_page_may_be_torn_between_sectors_and_the_last_sector_inside() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk, b"a" * PAGE)
        disk.open("file").pwrite(b"b" * (2 * SECTOR), 0)

    torn: set[int] = set()
    for content in after_cuts(prepare):
        assert content is not None
        assert content[2 * SECTOR :] == b"a" * (PAGE - 2 * SECTOR)
        assert len(set(content[:SECTOR])) == 1, "only the sector that was last can be torn inside"
        torn.add(content[SECTOR : 2 * SECTOR].count(b"b"))
    assert {0, SECTOR} < torn


def test_a_sync_covers_what_was_written_when_it_began_and_ends_later() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk, b"a" * PAGE)
        file = disk.open("file")
        file.pwrite(b"b" * PAGE, 0)

        def others(seconds: float) -> None:
            disk.pause = lambda seconds: None
            file.pwrite(b"c" * PAGE, 0)

        disk.pause = others
        file.sync()

    whole = {content for content in after_cuts(prepare) if content and len(set(content)) == 1}
    assert whole == {b"b" * PAGE, b"c" * PAGE}


def test_a_failed_sync_leaves_pages_that_no_later_sync_covers() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk, b"a" * PAGE)
        file = disk.open("file")
        file.pwrite(b"b" * PAGE, 0)
        disk.fail_once("sync", "file")
        with pytest.raises(StoreError):
            file.sync()
        assert file.pread(1, 0) == b"b"
        file.sync()

    whole = {content for content in after_cuts(prepare) if content and len(set(content)) == 1}
    assert whole == {b"a" * PAGE, b"b" * PAGE}


def test_a_rename_over_a_file_leaves_the_one_or_the_other() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        synced(disk, b"old")
        file = disk.open("new", create=True)
        file.pwrite(b"new", 0)
        file.sync()
        disk.rename("new", "file")

    assert set(after_cuts(prepare)) == {b"old", b"new"}


def test_names_may_survive_in_another_order_than_they_were_made_in() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        disk.open("first", create=True)
        disk.open("second", create=True)

    kept = set()
    for seed in SEEDS:
        disk = ForgetfulDisk(random.Random(seed))
        prepare(disk)
        kept.add(tuple(disk.after_cut().files_in("")))
    assert kept == {(), ("first",), ("second",), ("first", "second")}


def test_what_lies_in_a_lost_folder_is_lost() -> None:
    def prepare(disk: ForgetfulDisk) -> None:
        disk.make_folder("folder")
        file = disk.open("folder/file", create=True)
        file.pwrite(b"x", 0)
        file.sync()
        disk.sync_folder("folder")

    assert set(after_cuts(prepare, "folder/file")) == {None, b"x"}


def test_a_process_that_dies_takes_nothing_with_it_and_makes_nothing_safe() -> None:
    disk = ForgetfulDisk(random.Random(1))
    synced(disk, b"a")
    disk.open("file").pwrite(b"b", 0)
    left = disk.after_kill()
    assert left.content("file") == b"b"
    assert {left.after_cut().content("file") for _ in SEEDS} == {b"a", b"b"}


def test_after_its_death_every_call_fails() -> None:
    disk = ForgetfulDisk()
    synced(disk)
    file = disk.open("file")
    disk.die_when(lambda call: call.name == "pwrite")
    with pytest.raises(StoreError):
        file.pwrite(b"x", 0)
    for call in (lambda: disk.open("file"), lambda: disk.list(""), file.sync):
        with pytest.raises(StoreError, match="power"):
            call()


def test_a_death_says_where_it_was() -> None:
    disk = ForgetfulDisk()
    disk.make_folder("commitlog")
    disk.make_folder("comet")
    for name in ("", "commitlog", "comet"):
        disk.sync_folder(name)
    file = disk.open("comet/new-commitlog-0", create=True)
    file.sync()
    disk.rename("comet/new-commitlog-0", "commitlog/0")
    file.pwrite(b"x", 0)
    disk.die()
    assert disk.points() == [WRITE_AND_SYNC, RENAME_AND_SYNC, ROLL_OVER]


def test_calls_can_be_counted_down_and_flipped_bits_stay_flipped() -> None:
    disk = ForgetfulDisk()
    synced(disk, b"\x00\x00")
    disk.flip("file", 1, 3)
    assert disk.after_kill().after_cut().content("file") == b"\x00\x08"
    assert disk.counts["sync", "file"] == 1


def test_a_full_disk_takes_nothing_until_there_is_space_again() -> None:
    disk = ForgetfulDisk()
    synced(disk)
    file = disk.open("file")
    disk.full = True
    with pytest.raises(StoreError) as failure:
        file.pwrite(b"x", 0)
    assert failure.value.kind is Trouble.FULL
    disk.full = False
    assert file.pwrite(b"x", 0) == 1
