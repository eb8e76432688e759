"""How files come to be: whole or not at all, under a name that outlives a power cut."""

from collections.abc import Callable

from cometmq.store.disk import Disk, File, write_all

LOG = "commitlog"
QUEUES = "consumequeue"
NURSERY = "comet"
"""Our own folder in the root; what is unfinished lies there under a name that begins `new-`."""


def path_of(folder: str, start: int) -> str:
    """The file of the log or of a queue that begins at this byte."""
    return f"{folder}/{start:020d}"


def make_folders(disk: Disk, path: str, known: set[str]) -> None:
    """Makes a folder and those above it durably; `known` are those of which that is certain."""
    above = ""
    for part in path.split("/"):
        folder = f"{above}/{part}" if above else part
        if folder not in known:
            disk.make_folder(folder)
            keep_names(disk, above)
            known.add(folder)
        above = folder


def make_file(
    disk: Disk, path: str, fill: Callable[[File], None], backup: str | None = None
) -> File:
    """Makes a file elsewhere, has it filled, and gives it its name once it is on the disk; the file
    that had the name gets the name `backup`."""
    unfinished = f"{NURSERY}/new-{path.replace('/', '-')}"[:200]
    file = disk.open(unfinished, create=True)
    try:
        fill(file)
        file.sync()
        if backup is not None:
            disk.rename(path, backup)
        disk.rename(unfinished, path)
        keep_names(disk, path.rpartition("/")[0])
    except BaseException:
        file.close()  # a full disk is tried again and again; the handles would run out
        raise
    return file


def write_file(disk: Disk, path: str, content: bytes, backup: str | None = None) -> None:
    """Puts content in the place of what the file held; a cut leaves the one or the other."""
    make_file(disk, path, lambda file: write_all(file, content, 0), backup).close()


def keep_names(disk: Disk, folder: str) -> None:
    """Makes new names in a folder durable: a synced file without its name is lost all the same."""
    disk.sync_folder(folder)


def clear(disk: Disk) -> None:
    """Removes what was unfinished when the last process ended."""
    for name in disk.list(NURSERY):
        if name.startswith("new-"):
            disk.remove(f"{NURSERY}/{name}")
