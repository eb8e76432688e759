"""One seed, one run: producers and consumers at a node that dies three times and more."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from cometmq.client import Consumer
from cometmq.runtime import Scope
from cometmq.store import FlushDiskType, StoreError
from cometmq.testing import ForgetfulDisk, Machine, Node, SimulatedNetwork, simulate
from cometmq.testing.disk import RENAME_AND_SYNC, ROLL_OVER, WRITE_AND_SYNC, Call
from cometmq.testing.simulation import Trace
from tests.simulation.actors import Buyer, Seller
from tests.simulation.checkers import Broken, Ledger, Place, QueueKey, Stored, stored_in

LEAST_SENDS = 200
DEATHS = 3
ROLL_OVERS = 2
GROUP = "buyers"
TOPICS = ("orders", "made-by-sending")
LONGEST_LIFE_S = 14.0
SETTLING_S = 5.0
"""What was sent last may still be on its way when its sender has gone."""

RECOVERY = "in recovery"
POINTS = (WRITE_AND_SYNC, RENAME_AND_SYNC, RECOVERY, ROLL_OVER)
"""Where a death can hurt; one death may lie in several of them."""

PATIENCE_S = 120.0
"""A run in which nothing goes on for so long is stuck."""


@dataclass
class Result:
    """What a run came to."""

    seed: int
    failure: str | None = None
    digest: str = ""
    points: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


class LossWindow(logging.Handler):
    """Hears what ASYNC_FLUSH says at its start that it may lose."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seconds = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if "ASYNC_FLUSH" in str(record.msg) and isinstance(record.args, tuple):
            self.seconds = float(str(record.args[0])) / 1000


class World:
    """A node, its clients, and what befalls them."""

    def __init__(self, seed: int, window: LossWindow) -> None:
        self.seed = seed
        self.random = chance = random.Random(seed)
        self.trace = Trace()
        self.ledger = Ledger()
        self.result = Result(seed)
        self.is_sync = seed % 2 == 0
        self._window = window
        self._network = SimulatedNetwork(chance, trace=self.trace)
        mode = FlushDiskType.SYNC_FLUSH if self.is_sync else FlushDiskType.ASYNC_FLUSH
        self._node = Node(
            machine=self._network.machine(),
            disk=ForgetfulDisk(chance, trace=self.trace),
            chance=chance,
            store={
                "mapped_file_size_commit_log": chance.choice((16, 32)) << 10,
                "mapped_file_size_consume_queue": chance.choice((400, 2000)),
                "max_message_size": 8 << 10,
                "flush_disk_type": mode,
                "flush_interval_consume_queue": chance.choice((10, 50, 1000)),
            },
        )
        self._clients: list[Machine] = []
        self._sellers = [self._seller(name) for name in ("ann", "bob", "cat")]
        self._died_at: float | None = None
        """When the node died first since it last was up."""
        self._lost_cache = False
        self._broke_at: float | None = None
        """When a sync was made to fail in this life."""

    def _client_machine(self) -> Machine:
        machine = self._network.machine()
        self._clients.append(machine)
        return machine

    def _seller(self, name: str) -> Seller:
        return Seller(
            name,
            self.ledger,
            self._node.namesrv,
            self._client_machine(),
            self.random,
            is_sync=self.is_sync,
        )

    def _consumer(self, group: str, topics: Iterable[str] = TOPICS) -> Consumer:
        return Consumer(
            self._node.namesrv,
            group=group,
            subscribe=dict.fromkeys(topics, "*"),
            start="earliest",
            network=self._clients[0],
            random=self.random,
        )

    @property
    def _disk(self) -> ForgetfulDisk:
        assert isinstance(self._node.disk, ForgetfulDisk)
        return self._node.disk

    async def run(self) -> None:
        """The whole run; Broken where something does not hold."""
        async with Scope() as actors:
            for seller in self._sellers:
                actors.start(seller.run(), "seller")
            for _ in range(2):
                buyer = Buyer(self.ledger, lambda: self._consumer(GROUP), GROUP, self.random)
                actors.start(buyer.run(), "buyer")
            actors.start(self._trouble(), "trouble")
            while self.result.counts["deaths"] < DEATHS:
                await self._live()
            await self._start_for_good()
            for seller in self._sellers:
                seller.calm = False
            await self._until(self._is_enough, "sends")
            for seller in self._sellers:
                seller.enough = True
            await actors.close()
        await asyncio.sleep(SETTLING_S)
        await self._audit()

    def _is_enough(self) -> bool:
        rolled = len(self._disk.files_in("commitlog")) - 2  # one is made ahead
        sends = min(len(self.ledger.attempts), len(self.ledger.promises))
        return sends >= LEAST_SENDS and rolled >= ROLL_OVERS

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while not holds():
            if asyncio.get_running_loop().time() > until:
                raise Broken(f"stuck, waiting for {what}: {self.ledger}")
            await asyncio.sleep(0.1)

    # Lives and deaths

    async def _live(self) -> None:
        """One life, from its recovery to its death."""
        kills = self.random.random() < 0.3
        self._order_death()
        if await self._start():
            limit_s = self.random.choice((1, 4, 8, LONGEST_LIFE_S))
            self._order_faults()
            try:
                async with asyncio.timeout(self.random.uniform(limit_s / 2, limit_s)):
                    await self._node.death()
            except TimeoutError:
                self._disk.die()
        elif self.result.counts["deaths"]:
            self.result.points[RECOVERY] += 1
        await self._die(kills=kills)

    async def _die(self, *, kills: bool) -> None:
        if self._died_at is None:
            now = asyncio.get_running_loop().time()
            self._died_at = min(now, self._broke_at or now)
        self._broke_at = None
        self._lost_cache |= not kills
        self.result.points.update(self._disk.points())
        await (self._node.kill() if kills else self._node.power_cut())
        self.result.counts["deaths"] += 1
        self.result.counts["kills" if kills else "power cuts"] += 1
        await asyncio.sleep(self.random.uniform(0, 1))

    async def _start(self) -> bool:
        """Starts the node and looks at it; False where it died before it was up."""
        try:
            await self._node.boot()
        except StoreError:
            if not self._disk.dead:
                raise
            return False
        if self._disk.dead:
            return False
        self._look()
        return True

    async def _start_for_good(self) -> None:
        self._disk.die_when(lambda call: False)
        if not await self._start():
            raise Broken("the node does not start, and nothing stands in its way")

    def _look(self) -> None:
        """At the moment of its start a node has all that it must have."""
        store = self._node.broker.store
        now = asyncio.get_running_loop().time()
        died = now if self._died_at is None else self._died_at
        # ASYNC_FLUSH may lose what came in its window before the first of the deaths.
        risky = died - self._window.seconds - 0.1 if self._lost_cache else inf
        stored = stored_in(self._disk, store.written.position, self.ledger)
        self.ledger.check_log(stored, risky)

        def end(key: QueueKey) -> int:
            queue = store.find_queue(*key[1:])
            return 0 if queue is None else queue.max_offset

        offsets = self._node.broker._offsets
        self.ledger.check_offsets(lambda key: offsets.get(*key), end, died, now)
        for topic in sorted({promise.place[0] for promise in self.ledger.promises.values()}):
            if self._node.broker._topics.find(topic) is None:
                raise Broken(f"there are messages of {topic!r}, and the topic is gone")
        self._check_ends(stored, lambda topic, queue_id: end(("", topic, queue_id)))
        self._died_at, self._lost_cache = None, False

    def _check_ends(self, stored: list[Stored], end: Callable[[str, int], int]) -> None:
        counted = Counter(one.place[:2] for one in stored)
        for (topic, queue_id), count in counted.items():
            if end(topic, queue_id) != count:
                raise Broken(f"{topic}/{queue_id} ends at {end(topic, queue_id)}, not at {count}")

    # What befalls them

    def _order_death(self) -> None:
        chance, disk = self.random, self._disk

        def any_call(call: Call) -> bool:
            return True

        def log_sync(call: Call) -> bool:
            return call.name == "sync" and call.path.startswith("commitlog/")

        def folder_sync(call: Call) -> bool:
            return call.name == "sync_folder"

        def roll_over(call: Call) -> bool:
            return "new-commitlog" in call.path

        most_calls = chance.choice((40, 200, 500))
        where, most = chance.choice(
            ((any_call, most_calls), (log_sync, 60), (folder_sync, 20), (roll_over, 12))
        )
        left = chance.randrange(1, most)

        def dies(call: Call) -> bool:
            nonlocal left
            left -= where(call)
            return left <= 0

        disk.die_when(dies)

    def _order_faults(self) -> None:
        loop, chance = asyncio.get_running_loop(), self.random
        if chance.random() < 0.3:
            loop.call_later(chance.uniform(0, 2), self._break_sync, self._disk)
        if chance.random() < 0.1:
            loop.call_later(chance.uniform(0, 2), self._fill, self._disk)

    def _break_sync(self, disk: ForgetfulDisk) -> None:
        disk.fail_once("sync", "commitlog/")
        self._broke_at = self._broke_at or asyncio.get_running_loop().time()
        self.result.counts["failed syncs"] += 1

    def _fill(self, disk: ForgetfulDisk) -> None:
        disk.full = True
        self.result.counts["full disks"] += 1
        seconds = self.random.uniform(0.1, 1)
        asyncio.get_running_loop().call_later(seconds, setattr, disk, "full", False)

    async def _trouble(self) -> None:
        """Connections are cut, and some are slow for a while."""
        chance = self.random
        while True:
            await asyncio.sleep(chance.uniform(0.2, 3))
            if chance.random() < 0.5:
                self._network.cut()
            else:
                machine = chance.choice(self._clients)
                machine.slow_s = chance.uniform(0, 0.3)
                await asyncio.sleep(chance.uniform(0, 0.5))
                machine.slow_s = 0

    # The end

    async def _audit(self) -> None:
        """A group that nobody knew reads everything, and the books are compared."""
        node, ledger = self._node, self.ledger
        store = node.broker.store
        await self._until(lambda: store.visible.position == store.written.position, "the last sync")
        stored = stored_in(self._disk, store.written.position, ledger)
        ledger.check_log(stored)
        wanted = {one.place: (one.attempt, one.message_id) for one in stored}
        topics = dict.fromkeys(one.place[0] for one in stored)
        buyer = Buyer(ledger, lambda: self._consumer("auditors", topics), "auditors", self.random)
        async with Scope() as scope:
            scope.start(buyer.audit(len(wanted)), "auditor")
            got = ledger.delivered["auditors"]
            await self._until(lambda: len(got) >= len(wanted), "the auditor")
        if ledger.delivered["auditors"] != wanted:
            raise Broken(f"a new group gets others: {_difference(got, wanted)}")
        if self.is_sync:
            keys = [key for key in ledger.commits if key[0] == GROUP]
            committed = {key: node.broker._offsets.get(*key) or 0 for key in keys}
            ledger.check_deliveries(stored, committed)
        await node.close()
        self.result.digest = self.trace.digest()
        self.result.counts["messages"] = len(stored)
        self.result.counts["promised"] = len(ledger.promises)
        self.result.counts["tries"] = len(ledger.attempts)
        self.result.counts["log files"] = len(self._disk.files_in("commitlog"))


def _difference(got: dict[Place, tuple[int, str]], wanted: dict[Place, tuple[int, str]]) -> str:
    places = sorted(place for place in {*got, *wanted} if got.get(place) != wanted.get(place))
    return "; ".join(f"{one}: {got.get(one)}, not {wanted.get(one)}" for one in places[:3])


def run_seed(seed: int, *, quiet: bool = True) -> Result:
    """One run; what was wrong stands in its result."""
    window = LossWindow()
    logger = logging.getLogger("cometmq")
    logger.addHandler(window)
    logger.setLevel(logging.WARNING)
    logger.propagate = not quiet
    world: list[World] = []

    async def main() -> None:
        world.append(World(seed, window))
        await world[0].run()

    try:
        simulate(main)
    except Exception as error:
        result = world[0].result
        result.failure = f"{type(error).__name__}: {error}"
        return result
    finally:
        logger.removeHandler(window)
        logger.propagate = True
    return world[0].result
