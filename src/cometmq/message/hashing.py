"""Java's hash of a text, by which tags are found and selectors choose."""

import struct


def java_hash(text: str) -> int:
    """The hash of a text over its UTF-16 units, wrapped to a signed 32 bit number."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
