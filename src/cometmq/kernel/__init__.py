"""The kernel: the hot loops over bytes, compiled where built, else in plain Python.

COMETMQ_KERNEL=pure or =fast decides for one of them; fast then has to be there.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from cometmq.kernel.faults import Malformed

# Raised with every change of what the kernel gives and takes: an older build is not used.
ABI = 2

MODULES = ("frames", "headers", "records", "entries", "replies")

if TYPE_CHECKING:
    from cometmq.kernel.pure import entries, frames, headers, records, replies


def _load(name: str) -> str:
    try:
        found = {module: import_module(f"cometmq.kernel.{name}.{module}") for module in MODULES}
    except (TypeError, ValueError) as error:  # how Cython says that builds do not go together
        raise ImportError(f"the compiled kernel does not fit together: {error}") from error
    for module in found.values():
        if name == "fast" and getattr(module, "ABI", None) != ABI:
            raise ImportError(f"{module.__name__} was built for another version, build it again")
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
