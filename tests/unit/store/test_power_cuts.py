"""Power cuts at any call of the disk: nothing promised is lost, nothing is invented or twice."""

import asyncio
import random

import pytest

from cometmq.kernel import records
from cometmq.runtime import Refused
from cometmq.store import (
    Fault,
    Store,
    StoreError,
    StoreSettings,
)
from tests.unit.store.worlds import (
    HOST,
    SMALL,
    SMALL_ASYNC,
    ForgetfulDisk,
    opened,
    queues_of,
    read_all,
    send,
)

BATCH = 5


def tag_of(body: bytes) -> str:
    """Properties have no CRC: they have to be whole all the same."""
    return body[:9].hex() * (len(body) % 50)


class Promises:
    """What was sent and what was answered, over all lives of one directory."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.kept: set[bytes] = set()
        self.lost = 0

    def watch(self, store: Store) -> "Sends":
        return Sends(self, store)


class Sends:
    """The answers of one life."""

    def __init__(self, promises: Promises, store: Store) -> None:
        self._promises = promises
        self._waiting: list[tuple[int, bytes]] = []
        store.synced.watch(self.passed)
        store.synced.faults.watch(self.broken)

    def add(self, end: int, body: bytes) -> None:
        self._waiting.append((end, body))

    def passed(self, position: int) -> None:
        self._promises.kept |= {body for end, body in self._waiting if end <= position}
        self._waiting = [one for one in self._waiting if one[0] > position]

    def broken(self, fault: Fault) -> None:
        self._waiting = [one for one in self._waiting if one[0] <= fault.beyond]


async def live(
    disk: ForgetfulDisk, settings: StoreSettings, chance: random.Random, all_: Promises
) -> bool:
    """One life: recovery, checks, traffic, until the power goes; False if it ended cleanly."""
    try:
        store = await opened(disk, settings, chance)
        await check(store, all_)
    except StoreError:
        return True
    sends = all_.watch(store)
    for _ in range(chance.randrange(20, 200)):
        topic, queue_id = chance.choice("abc"), chance.randrange(3)
        count = chance.choice([1, 1, 1, BATCH])
        bodies = [
            b"%d:%s" % (len(all_.sent) + n, chance.randbytes(chance.randrange(300)))
            for n in range(count)
        ]
        group = [send(topic, body, tag_of(body)) for body in bodies]
        all_.sent.update(bodies)
        queue = store.queue(topic, queue_id)
        try:
            if count == 1:
                store.stage(group[0], queue, HOST, b"")
            else:
                store.stage_batch(group, queue, HOST, b"")
        except Refused:
            pass
        else:
            for one, body in zip(group, bodies, strict=True):
                sends.add(one.end, body)
        if chance.random() < 0.4:
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
        if chance.random() < 0.02:
            await asyncio.sleep(0.008)
    if chance.random() < 0.3:
        await store.close()
    disk.cut_at = min(disk.cut_at, disk.calls)  # a life that is left alone must not go on
    if chance.random() < 0.5:
        await store.close()
    return disk.calls >= disk.cut_at or store.read_only != "it is closed"


async def check(store: Store, all_: Promises) -> None:
    there: list[bytes] = []
    for topic in "abc":
        for queue in queues_of(store, topic):
            found = [records.decode(data, 0, True) for data in await read_all(store, queue)]
            assert [one.queue_offset for one in found] == list(range(len(found)))
            assert len(found) == queue.max_offset == queue.tail.next
            assert [one.position for one in found] == sorted(one.position for one in found)
            assert all(one.topic == topic and one.queue_id == queue.queue_id for one in found)
            assert all(
                one.properties == send("", b"", tag_of(one.body)).properties for one in found
            )
            there += [one.body for one in found]
    assert len(set(there)) == len(there), "a message lies there twice"
    assert set(there) <= all_.sent, "a message was invented"
    assert all_.kept <= set(there), f"{len(all_.kept - set(there))} promised messages are lost"


async def lives(seed: int) -> None:
    chance = random.Random(seed)
    settings = chance.choice([SMALL, SMALL, SMALL_ASYNC])
    disk, all_ = ForgetfulDisk(), Promises()
    for _ in range(6):
        disk.cut_at = disk.calls + chance.randrange(chance.choice([60, 700]))
        await live(disk, settings, chance, all_)
        disk = disk.after_kill() if chance.random() < 0.4 else disk.after_cut(chance)
    disk.cut_at = 1 << 60
    store = await opened(disk, settings, chance)
    await check(store, all_)
    await store.close()
    assert store.read_only == "it is closed"


@pytest.mark.parametrize("seed", range(60))
def test_nothing_promised_is_lost_whatever_the_disk_forgets(seed: int) -> None:
    asyncio.run(lives(seed))
