"""JSON tables: one file each, with the generation before it beside it (spec 03 15.1)."""

from cometmq.protocol import fastjson
from cometmq.store.births import NURSERY, make_folders, write_file
from cometmq.store.disk import Disk, read_file
from cometmq.store.errors import StoreRefused, logger


class Table:
    """The file of one table. Blocking: its owner calls it in a thread."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.name = path
        self._before = f"{path}.bak"
        self._disk = disk
        self._known: set[str] = set()

    def load(self) -> bytes | None:
        """The newest generation that parses; None where there is none. StoreRefused where only
        damaged ones are left."""
        main = read_file(self._disk, self.name)
        if main and _parses(main):
            return main
        before = read_file(self._disk, self._before)
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
        make_folders(self._disk, NURSERY, self._known)
        make_folders(self._disk, self.name.rpartition("/")[0], self._known)
        # A cut between the two renames leaves `.bak` alone, which `load` takes; a damaged main
        # file must not push a sound generation out of `.bak`.
        is_sound = _parses(read_file(self._disk, self.name) or b"")
        write_file(self._disk, self.name, content, self._before if is_sound else None)


def _parses(content: bytes) -> bool:
    try:
        fastjson.loads(content)
    except ValueError:
        return False
    return content.strip() != b""
