"""Stores that the original has written: what we read in them, and that we leave them alone."""

import asyncio
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cometmq.kernel import headers, records
from cometmq.store import LocalDisk, Store, StoreRefused, StoreSettings
from cometmq.store import directory as positions
from cometmq.store.files import Chain
from cometmq.store.queues import QueueFiles, Rebuilding
from tests.unit.store.worlds import opened, read_all

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
STORES = ["5.3.3-main-clean", "4.9.7-main-clean", "5.3.3-ipv6", "4.9.7-ipv6"]
AT_THE_END = 1 << 60


def digest(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(params=STORES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    with tarfile.open(GOLDEN / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    manifest = json.loads((GOLDEN / f"{request.param}.manifest.json").read_bytes())
    return tmp_path / "store", manifest


def settings_of(manifest: dict[str, Any]) -> StoreSettings:
    sizes = manifest["configuration"]
    return StoreSettings(
        mapped_file_size_commit_log=int(sizes["mappedFileSizeCommitLog"]),
        mapped_file_size_consume_queue=int(sizes["mappedFileSizeConsumeQueue"]),
    )


def test_a_store_of_the_original_is_refused_and_not_touched(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    root, manifest = golden
    before = digest(root)
    with pytest.raises(StoreRefused, match="not written by CometMQ"):
        asyncio.run(opened(LocalDisk(root), settings_of(manifest)))
    assert digest(root) == before


def test_queues_end_where_the_original_says(golden: tuple[Path, dict[str, Any]]) -> None:
    root, manifest = golden
    disk = LocalDisk(root)
    files = QueueFiles(disk, settings_of(manifest).mapped_file_size_consume_queue)
    rebuilding = Rebuilding(files, AT_THE_END)
    before = digest(root)
    for topic, queues in manifest["openedByTheOriginal"]["queues"].items():
        for queue_id, said in queues.items():
            folder = f"consumequeue/{topic}/{queue_id}"
            rebuilding.open(topic, int(queue_id), [int(name) for name in disk.list(folder)])
            queue = rebuilding.queues.get((topic, int(queue_id)))
            ends = (queue.min_offset, queue.max_offset) if queue else (0, 0)
            assert ends == (said["min"], said["max"]), folder
    assert digest(root) == before


def test_queues_rebuilt_from_the_log_alone_are_those_of_the_original(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    root, manifest = golden
    asyncio.run(_rebuild(root, manifest))


async def _rebuild(root: Path, manifest: dict[str, Any]) -> None:
    disk = LocalDisk(root)
    disk.make_folder("comet")
    positions.create_position(disk)
    records_there = manifest["openedByTheOriginal"]["commitLog"]["records"]
    end = records_there[-1]["physicalOffset"] + records_there[-1]["size"]
    log = Chain(disk, "commitlog", settings_of(manifest).mapped_file_size_commit_log)
    first = positions.PositionFile(log, positions.FIRST)
    first.advance(positions.Mark(), end)  # no entry is in its file
    store: Store = await opened(disk, settings_of(manifest))
    for topic, queues in manifest["openedByTheOriginal"]["queues"].items():
        for queue_id, said in queues.items():
            queue = store.find_queue(topic, int(queue_id))
            read = [] if queue is None else await read_all(store, queue)
            found = [records.decode(data) for data in read]
            assert [(one.position, one.size) for one in found] == [
                (entry["pos"], entry["size"]) for entry in said["entries"]
            ]
            if topic != "SCHEDULE_TOPIC_XXXX":  # there the entry has the time of delivery
                tags = [headers.scan(one.properties)[1] for one in found]
                assert tags == [entry["tagsCode"] for entry in said["entries"]]
    for record in manifest["openedByTheOriginal"]["commitLog"]["records"]:
        data = store.message_at(record["physicalOffset"])
        assert isinstance(data, bytes) or data is not None
    await store.close()
