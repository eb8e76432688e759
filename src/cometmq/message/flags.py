"""Bits of the sysFlag of a message (spec 02 ch. 7)."""

from enum import IntEnum, IntFlag


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
    """How a body is compressed, as bits 8 to 10 of the sysFlag say."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300

    @classmethod
    def of(cls, sys_flag: int) -> "Compression | None":
        """How a body with this flag is compressed; None where nobody knows that type."""
        bits = sys_flag & SysFlag.COMPRESSION
        if bits == 0:  # clients before 4.9.4 knew zlib alone, and did not name it
            return cls.ZLIB
        return next((kind for kind in cls if kind == int(bits)), None)
