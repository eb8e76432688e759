"""JSON tables: what is loaded when files are damaged, and what a save leaves."""

import pytest

from cometmq.store import MemoryDisk, StoreRefused, Table


def put(disk: MemoryDisk, path: str, content: bytes) -> None:
    disk.open(path, create=True).pwrite(content, 0)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    for folder in ("comet", "config"):
        disk.make_folder(folder)
    return disk


@pytest.fixture
def table(disk: MemoryDisk) -> Table:
    return Table(disk, "config/topics.json")


@pytest.mark.spec("STO-81")
def test_what_was_saved_is_loaded_and_what_was_before_is_in_bak(
    disk: MemoryDisk, table: Table
) -> None:
    assert table.load() is None
    table.save(b"{}")
    table.save(b'{"a":{0:1}}')
    assert table.load() == b'{"a":{0:1}}'
    assert Table(disk, "config/topics.json.bak").load() == b"{}"
    assert disk.list("config") == ["topics.json", "topics.json.bak"]


@pytest.mark.spec("STO-80")
@pytest.mark.parametrize("main", [None, b"", b'{"a":'])
def test_bak_is_loaded_where_the_main_file_is_missing_empty_or_damaged(
    disk: MemoryDisk, table: Table, main: bytes | None
) -> None:
    put(disk, "config/topics.json.bak", b'{"b":1}')
    if main is not None:
        put(disk, "config/topics.json", main)
    assert table.load() == b'{"b":1}'
    table.save(b'{"c":1}')
    assert Table(disk, "config/topics.json.bak").load() == b'{"b":1}'


def test_a_damaged_file_without_bak_is_as_none(disk: MemoryDisk, table: Table) -> None:
    put(disk, "config/topics.json", b"{")
    assert table.load() is None


@pytest.mark.spec("STO-80")
def test_two_damaged_files_are_refused(disk: MemoryDisk, table: Table) -> None:
    put(disk, "config/topics.json", b"{")
    put(disk, "config/topics.json.bak", b"[")
    with pytest.raises(StoreRefused, match="both damaged"):
        table.load()
