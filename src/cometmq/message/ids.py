"""Ids of messages: the one that a client makes, and that of its place in a log (spec 02 ch. 8)."""

import ipaddress
import struct
from datetime import datetime
from random import Random

# A clock set back by less than this is taken as standing still.
_SMALL_STEP_MS = 1_000_000


def host_text(host: bytes) -> tuple[str, int]:
    """Address and port as records hold them: in 8 bytes, or 20 with IPv6."""
    return str(ipaddress.ip_address(host[:-4])), int.from_bytes(host[-4:], "big")


class UniqueIds:
    """Makes the UNIQ_KEYs of one process: 65536 different ones each millisecond."""

    def __init__(self, address: str, pid: int, random: Random) -> None:
        packed = ipaddress.ip_address(address.strip("[]")).packed
        self._fixed = packed + struct.pack(">HI", pid & 0xFFFF, random.getrandbits(32))
        self._counter = 0
        self._month = self._next_month = 0  # ms

    def make(self, now_ms: int) -> str:
        """A new id: 32 characters, or 56 where the address is IPv6."""
        if not self._month - _SMALL_STEP_MS < now_ms < self._next_month:
            self._month, self._next_month = _month_of(now_ms)
        since = max(0, now_ms - self._month)
        counter, self._counter = self._counter, (self._counter + 1) & 0xFFFF
        return (self._fixed + struct.pack(">IH", since, counter)).hex().upper()


def _month_of(now_ms: int) -> tuple[int, int]:
    """When this month began and the next begins; in local time, so that a site's ids compare."""
    first = datetime.fromtimestamp(now_ms / 1000).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return int(first.timestamp() * 1000), int(following.timestamp() * 1000)


def offset_id(host: bytes, position: int) -> str:
    """The id that a broker gives a message: its own address and the place in its log."""
    return (host + struct.pack(">q", position)).hex().upper()
