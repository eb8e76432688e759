"""The seam to the disk: the real one and the one in memory behave alike."""

from pathlib import Path

import pytest

from cometmq.store import Disk, LocalDisk, MemoryDisk, StoreError, Trouble
from cometmq.store.disk import write_all
from cometmq.store.files import write_file
from tests.unit.store.worlds import ForgetfulDisk


@pytest.fixture(params=["local", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return LocalDisk(tmp_path / "root") if request.param == "local" else MemoryDisk()


def test_bytes_come_back_with_zeros_where_none_were_written(disk: Disk) -> None:
    file = disk.open("x", create=True)
    file.allocate(10000)
    write_all(file, b"abc", 4094)
    file.sync()
    assert disk.size("x") == 10000
    assert file.pread(5, 4093) == b"\0abc\0"
    assert file.pread(10, 9995) == bytes(5)
    assert file.pread_now(5, 4093) in (b"\0abc\0", None)
    file.truncate(4095)
    file.truncate(10000)
    assert file.pread(5, 4093) == b"\0a\0\0\0"
    file.close()


def test_the_places_that_hold_data_are_found(disk: Disk) -> None:
    file = disk.open("x", create=True)
    file.truncate(1 << 20)
    write_all(file, b"abc", 500000)
    first = file.next_data(0)
    assert first is not None
    assert first <= 500000
    assert file.next_data(500000) == 500000
    behind = file.next_data(600000)
    assert behind is None or file.pread(1 << 20, behind).count(0) == (1 << 20) - behind


def test_names_can_be_made_moved_listed_and_removed(disk: Disk) -> None:
    disk.make_folder("a")
    disk.make_folder("a")
    disk.make_folder("a/b")
    disk.open("a/x", create=True).close()
    disk.open("a/y", create=True).close()
    disk.rename("a/x", "a/y")
    disk.sync_folder("a")
    assert disk.list("a") == ["b", "y"]
    assert disk.list("none") == []
    assert disk.size("a/x") is None
    disk.remove("a/y")
    assert disk.list("a") == ["b"]


def test_what_is_not_there_is_named(disk: Disk) -> None:
    for call in (lambda: disk.open("a/x"), lambda: disk.remove("x"), lambda: disk.rename("x", "y")):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.kind is Trouble.MISSING
    with pytest.raises(StoreError):
        disk.open("none/x", create=True)


def test_a_lock_holds_until_its_file_is_closed(disk: Disk) -> None:
    file = disk.lock("lock")
    with pytest.raises(StoreError) as caught:
        disk.lock("lock")
    assert caught.value.kind is Trouble.LOCKED
    file.close()
    disk.lock("lock").close()


def test_no_path_leads_out_of_the_root(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    for path in ("/etc/passwd", "../x", "a/../../x", "a\0b"):
        with pytest.raises(StoreError):
            disk.open(path, create=True)


def test_a_file_that_could_not_be_made_leaves_no_handle_open() -> None:
    disk = ForgetfulDisk()
    disk.make_folder("comet")
    disk.fail = lambda name, path: Trouble.FULL if name == "pwrite" else None
    with pytest.raises(StoreError):
        write_file(disk, "x", b"content")
    assert disk.counts["create"] == disk.counts["close"] == 1
    assert disk.size("x") is None
