"""The sysFlag of a message (spec 02 ch. 7), and bodies that are compressed as it says."""

import zlib
from enum import IntFlag

from cometmq.kernel.faults import CometError

# A level that costs little; the original's default, which decides nothing but the size.
_LEVEL = 5


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
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300
    COMPRESSION = 0x700


class BadCompression(CometError, ValueError):
    """A compressed body that is damaged, too large, or of a kind that nothing here reads."""


def compress(body: bytes) -> tuple[bytes, int]:
    """The compressed body, and the bits that say so in the sysFlag."""
    return zlib.compress(body, _LEVEL), SysFlag.COMPRESSED | SysFlag.ZLIB


def decompress(body: bytes, sys_flag: int, limit: int) -> bytes:
    """The body as it was sent; `limit` is the most bytes it may become."""
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = SysFlag.COMPRESSION & sys_flag
    if kind in (SysFlag.LZ4, SysFlag.ZSTD):
        raise BadCompression(f"a body compressed with {kind.name}: not built yet, only zlib is")
    # Clients before 4.9.4 knew zlib alone, and did not name it.
    if kind not in (SysFlag.ZLIB, SysFlag(0)):
        raise BadCompression(f"expected a body of zlib, the sysFlag says {kind:#x}")
    machine = zlib.decompressobj()
    try:
        plain = machine.decompress(body, limit + 1)
    except zlib.error as why:
        raise BadCompression(f"damaged ZLIB data: {why}") from None
    if len(plain) > limit:
        raise BadCompression(f"ZLIB data of more than {limit} bytes")
    if not machine.eof:
        raise BadCompression("ZLIB data that ends too early")
    return plain
