"""JSON tables: one file each, with the generation before it beside it (spec 03 15.1)."""

import logging
from contextlib import closing

from cometmq.protocol import fastjson
from cometmq.store import births
from cometmq.store.births import NURSERY, make_folders
from cometmq.store.disk import Disk, read_file, write_all
from cometmq.store.errors import StoreRefused

logger = logging.getLogger("cometmq.store")


class Table:
    """The file of one table. Blocking: its owner calls it in a thread."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.name = path
        self._disk = disk
        self._known: set[str] = set()

    def load(self) -> bytes | None:
        """The newest generation that parses; None where there is none. StoreRefused where only
        damaged ones are left."""
        main = read_file(self._disk, self.name)
        if main and _parses(main):
            return main
        before = read_file(self._disk, f"{self.name}.bak")
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
        disk, folder = self._disk, self.name.rpartition("/")[0]
        make_folders(disk, NURSERY, self._known)
        make_folders(disk, folder, self._known)
        unfinished = f"{NURSERY}/new-{self.name.replace('/', '-')}"
        with closing(disk.open(unfinished, create=True)) as file:
            write_all(file, content, 0)
            file.sync()
        # A cut between the two renames leaves `.bak` alone, which `load` takes; a damaged main
        # file must not push a sound generation out of `.bak`.
        if _parses(read_file(disk, self.name) or b""):
            disk.rename(self.name, f"{self.name}.bak")
        disk.rename(unfinished, self.name)
        births.keep_names(disk, folder)


def _parses(content: bytes) -> bool:
    try:
        fastjson.loads(content)
    except ValueError:
        return False
    return content.strip() != b""
