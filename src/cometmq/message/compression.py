"""Compressed bodies: zlib always, LZ4 and ZSTD where their library is installed, all with a bounded
result.
"""

import importlib
import zlib
from typing import Any

from cometmq.kernel.faults import CometError
from cometmq.message.flags import Compression, SysFlag

# A level that costs little; the original's default, which decides nothing but the size.
_LEVEL = 5


class BadCompression(CometError, ValueError):
    """A compressed body that cannot be read: damaged, too large, or of a kind that nothing here
    reads.
    """


def compress(body: bytes) -> tuple[bytes, int]:
    """The compressed body, and the bits that say so in the sysFlag."""
    return zlib.compress(body, _LEVEL), SysFlag.COMPRESSED | Compression.ZLIB


def decompress(body: bytes, sys_flag: int, limit: int) -> bytes:
    """The body as it was sent; `limit` is the most bytes it may become."""
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = Compression.of(sys_flag)
    if kind is None:
        bits = sys_flag & SysFlag.COMPRESSION
        raise BadCompression(f"expected a body of zlib, LZ4 or ZSTD, the sysFlag says {bits:#x}")
    return inflate(body, limit, kind)


def inflate(data: bytes, limit: int, kind: Compression = Compression.ZLIB) -> bytes:
    """What these bytes hold, at most `limit` of it."""
    machine, broken = _machine(kind)
    try:
        plain: bytes = machine.decompress(data, limit + 1)
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
    names = ("lz4.frame",) if kind is Compression.LZ4 else ("compression.zstd", "backports.zstd")
    for name in names:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        if kind is Compression.LZ4:
            return library.LZ4FrameDecompressor(), RuntimeError
        return library.ZstdDecompressor(), library.ZstdError
    raise BadCompression(
        f"a message is compressed with {kind.name}, which needs a library: "
        "pip install 'cometmq[compression]'"
    )
