"""The kernel: the hot loops over bytes, compiled where built, else in plain Python.

COMETMQ_KERNEL=pure or =fast decides for one of them; fast then has to be there.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from cometmq.kernel.faults import Malformed

MODULES = ("frames", "headers", "records", "entries", "replies")

if TYPE_CHECKING:
    from cometmq.kernel.pure import entries, frames, headers, records, replies


def _load(name: str) -> str:
    try:
        found = {module: import_module(f"cometmq.kernel.{name}.{module}") for module in MODULES}
    except (TypeError, ValueError) as error:  # how Cython says that builds do not go together
        raise ImportError(f"the compiled kernel does not fit together: {error}") from error
    globals().update(found)
    return name


def _choose() -> str:
    wanted = os.environ.get("COMETMQ_KERNEL", "")
    if wanted not in ("", "pure", "fast"):
        raise ImportError(f"COMETMQ_KERNEL is 'pure' or 'fast', not {wanted!r}")
    try:
        return _load(wanted or "fast")
    except ImportError:
        if wanted:
            raise
        return _load("pure")


NAME = _choose()

__all__ = ["NAME", "Malformed", "entries", "frames", "headers", "records", "replies"]
