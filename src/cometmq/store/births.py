"""How files come to be: whole or not at all, under a name that outlives a power cut."""

from collections.abc import Callable

from cometmq.store.disk import Disk, File, write_all

NURSERY = "comet"
"""Our own folder in the root; what is unfinished lies there under a name that begins `new-`."""


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


def make_file(disk: Disk, path: str, fill: Callable[[File], None]) -> File:
    """Makes a file elsewhere, has it filled, and gives it its name once it is on the disk."""
    unfinished = f"{NURSERY}/new-{path.replace('/', '-')}"[:200]
    file = disk.open(unfinished, create=True)
    fill(file)
    file.sync()
    disk.rename(unfinished, path)
    keep_names(disk, path.rpartition("/")[0])
    return file


def write_file(disk: Disk, path: str, content: bytes) -> None:
    """Puts content in the place of what the file held; a cut leaves the one or the other."""
    make_file(disk, path, lambda file: write_all(file, content, 0)).close()


def keep_names(disk: Disk, folder: str) -> None:
    """Makes new names in a folder durable: a synced file without its name is lost all the same."""
    disk.sync_folder(folder)


def clear(disk: Disk) -> None:
    """Removes what was unfinished when the last process ended."""
    for name in disk.list(NURSERY):
        if name.startswith("new-"):
            disk.remove(f"{NURSERY}/{name}")
