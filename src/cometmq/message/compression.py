"""The sysFlag of a message (spec 02 ch. 7), and bodies that are compressed as it says.

ZLIB is always there, LZ4 and ZSTD where their library is installed.
"""

import importlib
import sys
import zlib
from enum import IntEnum, IntFlag
from typing import Any

from cometmq.kernel.faults import CometError

# A level that costs little; the original's default, which decides nothing but the size.
_LEVEL = 5
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


class SysFlag(IntFlag):
    """What the system knows about a message; two bits of transaction, three of compression."""

    COMPRESSED = 1
    MULTI_TAGS = 2
    PREPARED = 4
    COMMIT = 8
    ROLLBACK = 12
    BORN_HOST_V6 = 16
    STORE_HOST_V6 = 32
    NEEDS_UNWRAP = 64
    INNER_BATCH = 128
    COMPRESSION = 0x700


class Compression(IntEnum):
    """How a body is compressed, as the bits of SysFlag.COMPRESSION say."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300

    @classmethod
    def _missing_(cls, value: object) -> "Compression | None":
        # Clients before 4.9.4 knew zlib alone, and did not name it.
        return cls.ZLIB if value == 0 else None


class BadCompression(CometError, ValueError):
    """A compressed body that is damaged, too large, or of a kind that nothing here reads."""


def compress(body: bytes) -> tuple[bytes, int]:
    """The compressed body, and the bits that say so in the sysFlag."""
    return zlib.compress(body, _LEVEL), SysFlag.COMPRESSED | Compression.ZLIB


def decompress(body: bytes, sys_flag: int, limit: int) -> bytes:
    """The body as it was sent; `limit` is the most bytes it may become."""
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    bits = sys_flag & SysFlag.COMPRESSION
    try:
        kind = Compression(bits)
    except ValueError:
        text = f"expected a body of zlib, LZ4 or ZSTD, the sysFlag says {bits:#x}"
        raise BadCompression(text) from None
    machine, broken = _machine(kind)
    try:
        plain: bytes = machine.decompress(body, limit + 1)
    except broken as why:
        raise BadCompression(f"damaged {kind.name} data: {why}") from None
    if len(plain) > limit:
        raise BadCompression(f"{kind.name} data of more than {limit} bytes")
    if not machine.eof:
        raise BadCompression(f"{kind.name} data that ends too early")
    return plain


def _machine(kind: Compression) -> tuple[Any, type[Exception]]:
    """An object with `decompress(data, most)` and `eof`, and the error it raises."""
    if kind is Compression.ZLIB:
        return zlib.decompressobj(), zlib.error
    try:
        if kind is Compression.LZ4:
            return importlib.import_module("lz4.frame").LZ4FrameDecompressor(), RuntimeError
        zstd = importlib.import_module(_ZSTD)
        return zstd.ZstdDecompressor(), zstd.ZstdError
    except ImportError:
        text = f"a message is compressed with {kind.name}, which needs a library: "
        raise BadCompression(text + "pip install 'cometmq[compression]'") from None
