"""How files come to be: whole or not at all, under a name that outlives a power cut."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from cometmq.protocol import fastjson
from cometmq.store.disk import Disk, File, StoreRefused, logger, read_file, write_all

LOG = "commitlog"
QUEUES = "consumequeue"
CONFIG = "config"
NURSERY = "comet"
"""Our own folder in the root; what is unfinished lies there under a name that begins `new-`."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Files of one size, each of which begins where the one before it ends: the log, or a queue.
    A file is named by the place of its first byte."""

    disk: Disk
    folder: str
    size: int

    def start_of(self, place: int) -> int:
        """Where the file begins that holds a place."""
        return place - place % self.size

    def path_at(self, place: int) -> str:
        """The path of that file."""
        return f"{self.folder}/{self.start_of(place):020d}"

    def open(self, place: int) -> "closing[File]":
        """That file, for a block."""
        return closing(self.disk.open(self.path_at(place)))

    def read(self, place: int, size: int) -> bytes:
        """So many bytes from a place on, all of one file."""
        with self.open(place) as file:
            return file.pread(size, place % self.size)


def make_folder(disk: Disk, path: str) -> None:
    """Makes a folder in one that is there, durably."""
    disk.make_folder(path)
    keep_names(disk, path.rpartition("/")[0])


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


def remove_file(disk: Disk, path: str) -> None:
    """Removes a file for good."""
    disk.remove(path)
    keep_names(disk, path.rpartition("/")[0])


def keep_names(disk: Disk, *folders: str) -> None:
    """Makes new names in folders durable: a synced file without its name is lost all the same."""
    for folder in folders:
        disk.sync_folder(folder)


@dataclass(frozen=True, slots=True)
class Table:
    """The file of one JSON table, with the generation before it beside it (spec 03 15.1).
    Blocking: its owner calls it in a thread. The folder has to be there."""

    disk: Disk
    name: str

    def load(self) -> bytes | None:
        """The newest generation that parses; None where there is none. StoreRefused where only
        damaged ones are left."""
        main = read_file(self.disk, self.name)
        if main and _parses(main):
            return main
        before = read_file(self.disk, f"{self.name}.bak")
        if main:
            logger.warning("%r is damaged, the generation before it is taken", self.name)
        if before is None:
            return None
        if not _parses(before):
            raise StoreRefused(
                f"{self.name!r} and its .bak are both damaged: repair or remove them"
            )
        return before

    def save(self, content: bytes) -> None:
        """Puts `content` in its place and the generation before into `.bak`; on the disk when this
        returns."""
        # A cut between the two renames leaves `.bak` alone, which `load` takes; a damaged main
        # file must not push a sound generation out of `.bak`.
        is_sound = _parses(read_file(self.disk, self.name) or b"")
        write_file(self.disk, self.name, content, f"{self.name}.bak" if is_sound else None)


def _parses(content: bytes) -> bool:
    try:
        fastjson.loads(content)
    except ValueError:
        return False
    return content.strip() != b""
