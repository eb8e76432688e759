"""A recording of the disk's seam: which thread made which call on which path, in order."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from cometmq.store import Disk


class Recorded(NamedTuple):
    """One call on the seam; `path` is the name that the file has at that moment."""

    thread: int
    name: str
    path: str


class Recording:
    """Goes between a store and its disk: `Node(disk=recording.of(LocalDisk(directory)))`."""

    def __init__(self) -> None:
        self.calls: list[Recorded] = []
        self._open: list[_File] = []

    def of(self, disk: Disk) -> Disk:
        """The same disk, each of whose calls is recorded."""
        return cast(Disk, _Disk(disk, self))

    def note(self, name: str, path: str) -> None:
        """One more call."""
        self.calls.append(Recorded(threading.get_native_id(), name, path))

    def opened(self, file: Any, path: str) -> "_File":
        """A file was opened: its calls are recorded too, under the name that it has by then."""
        recorded = _File(file, path, self)
        self._open.append(recorded)
        return recorded

    def renamed(self, old: str, new: str) -> None:
        """Open files keep their content when they get another name."""
        for file in self._open:
            if file.path == old:
                file.path = new

    def closed(self, file: "_File") -> None:
        """Nothing more comes from it."""
        self._open.remove(file)


class _File:
    def __init__(self, file: Any, path: str, recording: Recording) -> None:
        self.path = path
        self._file = file
        self._recording = recording

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._recording.note(name, self.path)
            if name == "close":
                self._recording.closed(self)
            return getattr(self._file, name)(*arguments)

        return call


class _Disk:
    def __init__(self, disk: Disk, recording: Recording) -> None:
        self.process_id = disk.process_id
        self._disk = disk
        self._recording = recording

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*paths: str, **options: Any) -> Any:
            self._recording.note(name, " -> ".join(paths))
            result = getattr(self._disk, name)(*paths, **options)
            if name == "rename":
                self._recording.renamed(*paths)
            if name in ("open", "lock"):
                return self._recording.opened(result, *paths)
            return result

        return call
