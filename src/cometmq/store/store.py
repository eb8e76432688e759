"""The store: what the rest of the house sees of the files on disk."""

import asyncio
import enum
from collections.abc import Sequence
from contextlib import closing

from cometmq.kernel import Malformed, headers, records
from cometmq.runtime.clock import Clock
from cometmq.runtime.threads import Threads
from cometmq.store import directory
from cometmq.store.disk import Disk, File
from cometmq.store.errors import StoreError, logger
from cometmq.store.filing import Filer
from cometmq.store.jobs import Jobs
from cometmq.store.log import Log, Turn
from cometmq.store.queues import Queue
from cometmq.store.reading import Cold, Found, Reader, Status
from cometmq.store.recovery import Recovered
from cometmq.store.settings import StoreSettings
from cometmq.store.syncing import GroupCommit
from cometmq.store.watermark import Fault

LONGEST_PROPERTIES = 32767


class Cause(enum.Enum):
    """Why a send is not taken: the response code, and a sentence for the sender."""

    TOO_LARGE = (13, "the message or its properties are too large for this store")
    NOT_READY = (1, "the commit log has no file for it")
    READ_ONLY = (14, "the store is read-only")
    BUSY = (2, "the disk does not keep up, try again a little later")

    def __init__(self, code: int, sentence: str) -> None:
        self.code = code
        self.sentence = sentence


class Store:
    """Messages of all queues of one broker, in a directory of the original's format."""

    def __init__(
        self, lock: File, found: Recovered, threads: Threads, clock: Clock, store_host: bytes
    ) -> None:
        """Use `Store.open`."""
        self.settings = settings = found.settings
        self.store_host = store_host
        """Address and port of the broker, as records carry it; may be set until the first send."""
        self.read_only: str | None = None
        """Why nothing can be stored any more."""
        self._lock = lock
        self._disk = found.disk
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._queues = found.queues
        self._store_ms = found.mark.store_ms
        self._busy_s = settings.os_page_cache_busy_time_out_mills / 1000
        self._is_closed = False
        self._jobs = jobs = Jobs(threads)
        self._log = log = Log(found, jobs, self._on_written, self._on_fault)
        self.written = log.written
        self._commit = commit = GroupCommit(
            log, jobs, settings, self._on_synced, self._on_sync_failed
        )
        self.synced = commit.synced
        promised = self.synced if settings.is_sync else self.written
        self._filer = Filer(found, log, commit, promised, jobs, self._on_failed)
        self.visible = self._filer.visible
        self._reader = Reader(found, log, self.visible, jobs)

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        *,
        disk: Disk,
        threads: Threads,
        clock: Clock,
        store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f",
    ) -> "Store":
        """Opens a directory, recovering what has to be; StoreRefused if it must not be opened."""
        lock, found = await threads.run("files", lambda: directory.take(disk, settings))
        if not settings.is_sync:
            logger.warning(
                "flushDiskType=ASYNC_FLUSH: a power cut loses what was answered in the last %d ms, "
                "and while the syncs before and for it ran",
                settings.flush_interval_commit_log,
            )
        return cls(lock, found, threads, clock, store_host)

    # Queues

    def queue(self, topic: str, queue_id: int) -> Queue:
        """A queue, made if it is new; it has files from its first message on."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._queues[topic, queue_id] = Queue(topic, queue_id)
        return queue

    def find_queue(self, topic: str, queue_id: int) -> Queue | None:
        """A queue, if there is one."""
        return self._queues.get((topic, queue_id))

    def queues_of(self, topic: str) -> list[Queue]:
        """The queues of a topic, by their number."""
        queues = [queue for queue in self._queues.values() if queue.topic == topic]
        return sorted(queues, key=lambda queue: queue.queue_id)

    # Staging

    def stage(
        self, send: headers.Send, queue: Queue, born_host: bytes, suffix: bytes
    ) -> Cause | None:
        """Takes a send into the turn's write, or says why not; it then knows its position."""
        log = self._log
        turn = log.turn
        if turn is None:
            cause = self._begin_turn()
            if cause is not None:
                return cause
            turn = log.turn
            assert turn is not None
        if queue.turn is not turn:
            queue.turn = turn
            turn.touched.append((queue, queue.tail.next))
        send.queue_id = queue.queue_id
        store_ms = turn.store_ms
        try:
            if log.segment.add(
                send, queue.tail, queue.topic_bytes, born_host, self.store_host, suffix, store_ms
            ):
                turn.last = send
                return None
        except Malformed:
            return Cause.TOO_LARGE
        cause = self._roll(self._size(send, queue, born_host, suffix))
        return cause or self.stage(send, queue, born_host, suffix)

    def stage_batch(
        self, sends: Sequence[headers.Send], queue: Queue, born_host: bytes, suffix: bytes
    ) -> Cause | None:
        """Takes all of them, side by side in one file, or none."""
        if any(len(send.properties) + 1 + len(suffix) > LONGEST_PROPERTIES for send in sends):
            return Cause.TOO_LARGE
        cause = self._begin_turn() if self._log.turn is None else None
        size = sum(self._size(send, queue, born_host, suffix) for send in sends)
        if cause is None and size + 8 > self._log.segment.room:
            cause = self._roll(size)
        for send in sends:  # the first one is not taken, or none: only the topic can be wrong now
            cause = cause or self.stage(send, queue, born_host, suffix)
        return cause

    def why(self, cause: Cause) -> str:
        """The sentence for a sender who is told this cause now."""
        if cause is Cause.READ_ONLY and self.read_only is not None:
            return f"{cause.sentence}: {self.read_only}"
        if cause is Cause.NOT_READY and self._log.trouble is not None:
            return f"{cause.sentence}: {self._log.trouble}"
        return cause.sentence

    def _size(self, send: headers.Send, queue: Queue, born_host: bytes, suffix: bytes) -> int:
        properties = send.properties
        length = len(properties) + len(suffix) + (properties != b"" and properties[-1] != 2)
        hosts = len(born_host), len(self.store_host)
        return records.size_of(len(queue.topic_bytes), len(send.body), length, *hosts)

    def _roll(self, size: int) -> Cause | None:
        if size + 8 > self._log.file_size:
            return Cause.TOO_LARGE
        return None if self._log.roll() else Cause.NOT_READY

    def _begin_turn(self) -> Cause | None:
        if self.read_only is not None:
            return Cause.READ_ONLY
        if self.is_busy:
            return Cause.BUSY
        # The clock may go back; what readers search by time may not.
        self._store_ms = max(self._store_ms, self._clock.now_ms())
        return None if self._log.begin_turn(self._store_ms) else Cause.NOT_READY

    @property
    def is_busy(self) -> bool:
        """The disk is behind: too many bytes wait for it, or the oldest for too long."""
        settings = self.settings
        since = [self._log.unwritten_since, self._commit.running_since]
        oldest = min((one for one in since if one is not None), default=None)
        return (
            (oldest is not None and self._loop.time() - oldest > self._busy_s)
            or self._log.segment.end - self.synced.position >= settings.max_unsynced_bytes
            or self._filer.unfiled >= settings.unindexed_limit
        )

    # What comes back from the disk

    def _on_written(self, turn: Turn) -> None:
        self._filer.add(turn)
        self._commit.want()
        self._filer.publish()

    def _on_synced(self) -> None:
        self._filer.publish()
        self._filer.want()

    def _on_fault(self, fault: Fault, for_good: bool) -> None:
        if for_good:
            self._on_failed(fault.why)
        else:
            logger.error("sends refused: %s", fault.why)
        for mark in (self.written, self.synced, self.visible):
            mark.fail(fault)

    def _on_sync_failed(self, why: str) -> None:
        self._on_failed(why)
        synced, written = self.synced.position, self.written.position
        queues = self._queues.values()  # entries of what is not synced are in no file yet
        logger.error(
            "%d messages between %d and %d are written and perhaps not on the disk; those of them "
            "that were promised may be lost in a power cut",
            sum(one.entries_below(written) - one.entries_below(synced) for one in queues),
            synced,
            written,
        )
        self._filer.close()
        for mark in (self.visible, self.synced):
            mark.fail(Fault(synced, stored=True, why=why))

    def _on_failed(self, why: str) -> None:
        if self.read_only is None:
            self.read_only = why
            logger.error("the store is read-only from now on: %s", why)

    # Reading

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        most: int = 32,
        hashes: frozenset[int] | None = None,
        most_bytes: int = 128 << 20,
    ) -> Found | Cold[Found]:
        """Visible messages of a queue from `offset` on, those with one of these tag hashes."""
        queue = self.find_queue(topic, queue_id)
        if queue is None:
            return Found(Status.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        return self._reader.read(queue, offset, most, hashes, most_bytes)

    def message_at(self, position: int) -> bytes | Cold[bytes | None] | None:
        """The visible record that begins there; None where none does."""
        return self._reader.message_at(position)

    def starts_hot(self, topic: str, queue_id: int) -> bool:
        """Message 0 of the queue is there, and near enough to the log's end that a new group may
        begin with it (spec 04 4.4)."""
        queue = self.find_queue(topic, queue_id)
        if queue is None or queue.min_offset > 0 or queue.first_position is None:
            return False
        return self.written.position - queue.first_position <= self.settings.hot_distance

    # The end

    async def close(self) -> None:
        """Brings everything to the disk and leaves a directory that needs no recovery; where that
        fails, `abort` stays and says so."""
        if self._is_closed:
            return
        self._is_closed = True
        self._log.end_turn()
        is_clean = await self._settle()
        if self.read_only is None:
            self.read_only = "it is closed"
        await self._jobs.idle()
        self._commit.close()
        self._filer.close()
        self._log.close()
        self._reader.close()
        self._jobs.run("files", lambda: self._leave(is_clean), lambda _: None, self._not_left)
        await self._jobs.idle()

    async def _settle(self) -> bool:
        """Works until written, synced and filed are one; whether they are."""
        while self.read_only is None:
            await self._jobs.idle()
            if self.synced.position < self.written.position:
                self._commit.begin()
            elif self._filer.unfiled:
                self._filer.begin()
            elif self._log.unwritten_since is None:
                return True
            else:  # no job is running that would make the file they wait for
                self._log.give_up()
        return False

    def _leave(self, is_clean: bool) -> None:
        with closing(self._lock):
            if is_clean:
                directory.leave(self._disk, self._log.unused())

    def _not_left(self, error: StoreError) -> None:
        logger.error("the store was not closed cleanly: %s", error)
