"""Checkers: what the actors of a simulation tried and were told, and what must then be true."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf

from cometmq.client import Receipt
from cometmq.kernel import Malformed, records
from cometmq.message import decompress, properties
from cometmq.testing.disk import ForgetfulDisk

ATTEMPT = "ATTEMPT"
"""The property in which each try of a send carries its own number."""

COMMIT_AGE_S = 6.0
"""An offset that was committed so long ago is on the disk: they are saved every 5 s."""

LARGEST = 64 << 20

Place = tuple[str, int, int]
"""Topic, queue, number in the queue."""

QueueKey = tuple[str, str, int]
"""Group, topic, queue."""


class Broken(AssertionError):
    """Something that must hold does not."""


@dataclass(frozen=True)
class Attempt:
    """One try of a send, which may have come anywhere."""

    topic: str
    queue_id: int
    ids: tuple[str, ...]
    """The ids of its messages: one, or those of a batch in their order."""
    at: float


@dataclass(frozen=True)
class Stored:
    """A message of an attempt and where it is, as its sender was told or as the log has it."""

    attempt: int
    message_id: str
    place: Place
    position: int
    at: float = field(compare=False)
    """When its sender was told, or when it was stored: by other clocks."""
    is_synced: bool = field(default=False, compare=False)
    """It was promised to be on the disk, not only with the file system."""


@dataclass
class Commit:
    """An offset that a consumer told its broker; `answered` is when the broker said yes."""

    offset: int
    answered: float = inf


@dataclass
class Ledger:
    """Everything that was tried and promised in a run."""

    bodies: dict[bytes, str | None] = field(default_factory=dict)
    """Each body that was ever sent, and the id of its message once that is known."""
    attempts: dict[int, Attempt] = field(default_factory=dict)
    promises: dict[tuple[int, str], Stored] = field(default_factory=dict)
    delivered: dict[str, dict[Place, tuple[int, str]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """What each group got: attempt and id by place."""
    commits: dict[QueueKey, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    _last: dict[str, int] = field(default_factory=dict)
    """The newest attempt of each message or batch."""

    def __str__(self) -> str:
        got = {group: len(places) for group, places in self.delivered.items()}
        return (
            f"{len(self.attempts)} tries, {len(self.promises)} messages promised, delivered {got}"
        )

    # What the actors tell

    def tried(self, topic: str, queue_id: int, ids: str, at: float) -> int:
        """Another try leaves; the number it has to carry."""
        number = len(self.attempts) + 1
        self.attempts[number] = Attempt(topic, queue_id, tuple(ids.split(",")), at)
        self._last[ids] = number
        return number

    def promised(self, receipt: Receipt, at: float, *, is_synced: bool) -> None:
        """The last try of these messages was answered."""
        number = self._last[receipt.message_id]
        ids, offset_ids = receipt.message_id.split(","), receipt.offset_message_id.split(",")
        for member, (message_id, offset_id) in enumerate(zip(ids, offset_ids, strict=True)):
            place = (receipt.topic, receipt.queue_id, receipt.queue_offset + member)
            position = int(offset_id[-16:], 16)
            promise = Stored(number, message_id, place, position, at, is_synced)
            self.promises[number, message_id] = promise

    # What must hold

    def check_log(self, stored: list[Stored], risky: float = inf) -> None:
        """Nothing promised is lost, nothing is invented, nothing lies twice, all is in order.

        A power cut may have taken what was promised, but not synced, from the moment `risky` on.
        """
        there: dict[tuple[int, str], Stored] = {}
        for one in stored:
            key = (one.attempt, one.message_id)
            attempt = self.attempts.get(one.attempt)
            if attempt is None or one.message_id not in attempt.ids:
                raise Broken(f"{one} was never sent")
            if (attempt.topic, attempt.queue_id) != one.place[:2]:
                raise Broken(f"{one} was sent to {attempt.topic}/{attempt.queue_id}")
            if key in there:
                raise Broken(f"an attempt lies twice: {there[key]} and {one}")
            there[key] = one
        self._check_promises(there, risky)
        self._check_order(stored)

    def _check_promises(self, there: dict[tuple[int, str], Stored], risky: float) -> None:
        for key, promise in list(self.promises.items()):
            found = there.get(key)
            if found is None:
                if promise.is_synced or promise.at < risky:
                    raise Broken(f"{promise} is lost; what came from {risky} on could be")
                del self.promises[key]
            elif found != promise:
                raise Broken(f"{promise} lies somewhere else: {found}")

    def _check_order(self, stored: list[Stored]) -> None:
        ends: dict[tuple[str, int], int] = defaultdict(int)
        stored_at = 0.0
        for one in stored:
            queue = one.place[:2]
            if one.place[2] != ends[queue]:
                raise Broken(f"{one} should have the number {ends[queue]}")
            ends[queue] += 1
            if one.at < stored_at:
                raise Broken(f"{one} is stored before the one that lies before it")
            stored_at = one.at
        # Who sends after an answer lies behind what was answered.
        earliest = inf
        for one in reversed(stored):
            if earliest < self.attempts[one.attempt].at:
                raise Broken(f"{one} was sent after one that lies behind it was answered")
            promise = self.promises.get((one.attempt, one.message_id))
            if promise is not None:
                earliest = min(earliest, promise.at)

    def check_offsets(
        self,
        known: Callable[[QueueKey], int | None],
        ends: Callable[[QueueKey], int],
        died: float,
        now: float,
    ) -> None:
        """Commits that are old enough survived, and none lies beyond its queue's end."""
        for key, commits in self.commits.items():
            found, end = known(key), ends(key)
            if found is not None and found > end:
                raise Broken(f"{key} is committed up to {found}, and the queue ends at {end}")
            safe = [n for n, one in enumerate(commits) if one.answered < died - COMMIT_AGE_S]
            if safe:
                allowed = {one.offset for one in commits[safe[-1] :]} | {end}
                if found not in allowed:
                    raise Broken(f"{key} is at {found}, not at one of {sorted(allowed)}")
            # Younger ones may be gone; from here on it is this one that counts.
            commits[:] = [] if found is None else [Commit(found, now)]

    def check_deliveries(self, stored: list[Stored], committed: dict[QueueKey, int]) -> None:
        """Under SYNC_FLUSH nothing was shown that could be lost, and no group skipped anything."""
        there = {one.place: (one.attempt, one.message_id) for one in stored}
        for group, places in self.delivered.items():
            for place, what in places.items():
                if there.get(place) != what:
                    raise Broken(f"{group} got {what} at {place}; there is {there.get(place)}")
        for (group, topic, queue_id), end in committed.items():
            got = self.delivered[group]
            missing = [n for n in range(end) if (topic, queue_id, n) not in got]
            if missing and not topic.startswith("%"):
                raise Broken(
                    f"{group} committed {topic}/{queue_id} up to {end}, never had {missing}"
                )

    def body_of(self, message_id: str, body: bytes) -> None:
        """A message was seen: what it says is what was sent, under one id only."""
        if body not in self.bodies:
            raise Broken(f"{message_id} has a body that was never sent: {body[:40]!r}")
        if self.bodies[body] not in (None, message_id):
            raise Broken(f"one body under two ids: {message_id} and {self.bodies[body]}")
        self.bodies[body] = message_id


def stored_in(disk: ForgetfulDisk, end: int, ledger: Ledger) -> list[Stored]:
    """Every record of the log on this disk, from its first byte to `end`."""
    found = []
    for record in _records(disk, end):
        text = properties.parse(record.properties)
        message_id = text.get(properties.UNIQ_KEY, "")
        ledger.body_of(message_id, decompress(record.body, record.sys_flag, LARGEST))
        place = (record.topic, record.queue_id, record.queue_offset)
        number = text.get(ATTEMPT, "")
        attempt = int(number) if number.isdecimal() else 0
        found.append(Stored(attempt, message_id, place, record.position, record.store_ms))
    return found


def _records(disk: ForgetfulDisk, end: int) -> Iterator[records.Record]:
    for path in disk.files_in("commitlog"):
        data, start = disk.content(path), int(path.rpartition("/")[2])
        at = 0
        while start + at < end and at + 8 <= len(data):
            size = int.from_bytes(data[at : at + 4])
            if data[at + 4 : at + 8] == b"\xcb\xd4\x31\x94":
                break  # the blank record: the log goes on in the next file
            try:
                record = records.decode(data, at, True)
            except Malformed as error:
                raise Broken(f"there is no record at {start + at}: {error}") from error
            if record.position != start + at:
                raise Broken(f"the record at {start + at} says that it lies at {record.position}")
            yield record
            at += size
