"""What goes wrong in a store: a disk that fails, a directory that must not be touched."""

import enum
import errno
import logging

from cometmq.runtime.errors import CometError

logger = logging.getLogger("cometmq.store")


class Trouble(enum.Enum):
    """What kind of failure the disk reported."""

    MISSING = "is not there"
    DENIED = "may not be used by this user"
    FULL = "has no space left"
    LOCKED = "is used by another process"
    BROKEN = "cannot be read or written"


_KINDS = {
    errno.ENOENT: Trouble.MISSING,
    errno.ENOTDIR: Trouble.MISSING,
    errno.EACCES: Trouble.DENIED,
    errno.EPERM: Trouble.DENIED,
    errno.EROFS: Trouble.DENIED,
    errno.ENOSPC: Trouble.FULL,
    errno.EDQUOT: Trouble.FULL,
    errno.EAGAIN: Trouble.LOCKED,
}


class StoreError(CometError):
    """A call on a file of the store failed; `kind` says how."""

    def __init__(self, kind: Trouble, call: str, path: str, detail: str = "") -> None:
        said = f" ({detail})" if detail else ""
        super().__init__(f"{call} of {path!r}: it {kind.value}{said}")
        self.kind = kind
        self.path = path

    @classmethod
    def of(cls, error: OSError, call: str, path: str) -> "StoreError":
        """The same failure in the words of the house."""
        kind = _KINDS.get(error.errno or 0, Trouble.BROKEN)
        return cls(kind, call, path, error.strerror or str(error))


class StoreRefused(CometError):
    """The directory is not opened; not a byte of it was changed."""
