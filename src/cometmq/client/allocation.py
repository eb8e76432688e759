"""Which queues of a topic a member of a group consumes: AVG, as the original's members have it."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Q = TypeVar("Q")


class MessageQueue(NamedTuple):
    """A queue of a topic, by the broker that has it."""

    topic: str
    broker: str
    queue_id: int

    @property
    def order(self) -> tuple[bytes, bytes, int]:
        """How all members sort queues: Java compares texts by their UTF-16 units."""
        return java_order(self.topic), java_order(self.broker), self.queue_id


def java_order(text: str) -> bytes:
    """What texts are sorted by, to come out as in Java."""
    return text.encode("utf-16-be", "surrogatepass")


def average(queues: Sequence[Q], members: Sequence[str], me: str) -> list[Q]:
    """A contiguous range for each member, the first ones one longer (spec 04 7.3).

    Queues and members are sorted already; every member has to see the same order.
    """
    if me not in members:
        return []
    index, count = members.index(me), len(members)
    size, longer = divmod(len(queues), count)
    start = index * size + min(index, longer)
    return list(queues[start : start + size + (index < longer)])
