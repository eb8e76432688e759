"""The store: what is sent is staged here, and becomes written, synced, visible."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import closing

from cometmq.kernel import Malformed, headers, records
from cometmq.protocol import ResponseCode
from cometmq.runtime import Clock, Refused, Threads, Timer
from cometmq.store.directory import Mark, leave
from cometmq.store.disk import Disk, StoreError, logger
from cometmq.store.filing import Filer
from cometmq.store.log import Fault, Jobs, Log, Turn, Watermark
from cometmq.store.queues import Queue
from cometmq.store.reading import Reader
from cometmq.store.recovery import Recovered, recover
from cometmq.store.settings import StoreSettings

LONGEST_PROPERTIES = 32767


class Store:
    """Messages of all queues of one broker, in a directory of the original's format."""

    def __init__(self, found: Recovered, threads: Threads, clock: Clock) -> None:
        """Use `Store.open`."""
        self.settings = found.settings
        self.store_host = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
        """Address and port of the broker, as records carry it; may be set until the first send."""
        self._found = found
        self._threads = threads
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._queues = found.queues
        self._store_ms = found.mark.store_ms
        self._turn: Turn | None = None
        self._segment = records.Segment(found.mark.end, 0)
        """The newest one; its `end` is that of the log with everything that is staged."""
        self._unwritten: deque[Turn] = deque()
        self._patience = Timer(self._give_up)
        self._is_closed = False
        self._jobs = Jobs(threads)
        self._log = log = Log(found, self._jobs, self._file_came)
        self._filer = filer = Filer(found, log, self._jobs)
        self._reader = reader = Reader(found, log, filer.visible, self._jobs)
        self.written, self.synced, self.visible = log.written, log.synced, filer.visible
        self.read, self.message_at = reader.read, reader.message_at
        log.make_ahead(found.mark.end)

    @classmethod
    async def open(
        cls, settings: StoreSettings, *, disk: Disk, threads: Threads, clock: Clock
    ) -> "Store":
        """Opens a directory, recovering what has to be; StoreRefused if it must not be opened."""
        found = await threads.run("files", lambda: recover(disk, settings))
        if not settings.is_sync:
            logger.warning(
                "flushDiskType=ASYNC_FLUSH: a power cut loses what was answered in the last %d ms, "
                "and while the syncs before and for it ran",
                settings.flush_interval_commit_log,
            )
        return cls(found, threads, clock)

    @property
    def read_only(self) -> str | None:
        """Why nothing can be stored any more."""
        return self._log.read_only

    @property
    def promised(self) -> Watermark:
        """What the flush mode promises of a send that was answered: written or synced."""
        return self._filer.promised

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

    def starts_hot(self, topic: str, queue_id: int) -> bool:
        """Message 0 of the queue is there, and near enough to the log's end that a new group may
        begin with it (spec 04 4.4)."""
        queue = self.find_queue(topic, queue_id)
        if queue is None or queue.min_offset > 0 or queue.first_position is None:
            return False
        return self.written.position - queue.first_position <= self.settings.hot_distance

    # Staging

    def stage(self, send: headers.Send, queue: Queue, born_host: bytes, suffix: bytes) -> None:
        """Takes a send into the turn's write, or Refused; it then knows its position."""
        turn = self._turn or self._begin_turn()
        if queue.turn is not turn:
            queue.turn = turn
            turn.touched.append((queue, queue.tail.next))
        send.queue_id = queue.queue_id
        store_ms = turn.store_ms
        try:
            if self._segment.add(
                send, queue.tail, queue.topic_bytes, born_host, self.store_host, suffix, store_ms
            ):
                turn.last = send
                return
        except Malformed:
            raise self.too_large() from None
        self._roll(turn, self._size(send, queue, born_host, suffix))
        self.stage(send, queue, born_host, suffix)

    def stage_batch(
        self, sends: Sequence[headers.Send], queue: Queue, born_host: bytes, suffix: bytes
    ) -> None:
        """Takes all of them, side by side in one file, or none."""
        if any(len(send.properties) + 1 + len(suffix) > LONGEST_PROPERTIES for send in sends):
            raise self.too_large()
        turn = self._turn or self._begin_turn()
        size = sum(self._size(send, queue, born_host, suffix) for send in sends)
        if size + 8 > self._segment.room:
            self._roll(turn, size)
        for send in sends:  # the first one is not taken, or none: only the topic can be wrong now
            self.stage(send, queue, born_host, suffix)

    def too_large(self) -> Refused:
        """What is said of a message that no store with these settings takes."""
        limit = self.settings.max_message_size
        return Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {limit}B, msg properties length limit 32KB.",
        )

    def _size(self, send: headers.Send, queue: Queue, born_host: bytes, suffix: bytes) -> int:
        properties = send.properties
        length = len(properties) + len(suffix) + (properties != b"" and properties[-1] != 2)
        hosts = len(born_host), len(self.store_host)
        return records.size_of(len(queue.topic_bytes), len(send.body), length, *hosts)

    def _roll(self, turn: Turn, size: int) -> None:
        """Goes on in the next file, where a record or batch of this size has room."""
        log, end = self._log, self._segment.end
        if size + 8 > log.chain.size:
            raise self.too_large()
        start = log.chain.start_of(end) + log.chain.size
        log.expect_file(start)
        self._segment.blank()
        self._segment = records.Segment(start, log.chain.size)
        turn.segments.append(self._segment)
        log.make_ahead(start)

    def _begin_turn(self) -> Turn:
        """Starts to collect until the loop comes round."""
        log, end = self._log, self._segment.end
        if self.read_only is not None:
            why = f"the store is read-only: {self.read_only}"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, why)
        if self.is_busy:
            why = "the disk does not keep up, try again a little later"
            raise Refused(ResponseCode.SYSTEM_BUSY, why)
        log.expect_file(end)
        # The clock may go back; what readers search by time may not.
        self._store_ms = max(self._store_ms, self._clock.now_ms())
        self._segment = records.Segment(end, log.chain.size - end % log.chain.size)
        self._turn = Turn([self._segment], self._store_ms, self._loop.time())
        self._loop.call_soon(self._end_turn)
        return self._turn

    @property
    def is_busy(self) -> bool:
        """The disk is behind: too many bytes wait for it, or the oldest for too long."""
        settings, log = self.settings, self._log
        unwritten_since = self._unwritten[0].begun if self._unwritten else None
        since = [one for one in (unwritten_since, log.syncing_since) if one is not None]
        patience_s = settings.os_page_cache_busy_time_out_mills / 1000
        return (
            any(self._loop.time() - one > patience_s for one in since)
            or self._segment.end - self.synced.position >= settings.max_unsynced_bytes
            or self._filer.unfiled >= settings.unindexed_limit
        )

    # Writing

    def _end_turn(self) -> None:
        """Writes what is staged now."""
        turn, self._turn = self._turn, None
        if turn is None:
            return  # rejected, or ended early
        last = turn.last
        if last is None:  # its sends were all refused
            self._segment = records.Segment(turn.segments[0].position, 0)
            return
        turn.mark = Mark(self._segment.end, last.position, last.size, turn.store_ms)
        turn.added = [(one, one.tail.next) for one, first in turn.touched if one.tail.next > first]
        self._unwritten.append(turn)
        self._write()

    def _write(self) -> None:
        """Writes the turns whose files are there, in order."""
        while self._unwritten:
            turn = self._unwritten[0]
            if not self._log.has_files(turn):
                self._patience.start(self.settings.create_file_timeout / 1000)
                self._log.make_ahead(self._segment.end)
                return
            try:
                self._log.write(turn)
            except StoreError as error:
                why = f"the commit log could not be written: {error}"
                self._log.stop(why)
                self._reject(why)
                return
            self._unwritten.popleft()
            self._log.advance(turn.mark)
            self._filer.add(turn)

    def _file_came(self) -> None:
        self._log.make_ahead(self._segment.end)
        self._patience.stop()
        self._write()

    def _give_up(self) -> None:
        """Refuses what waits for a file that does not come."""
        why = self._log.trouble or "making it takes too long"
        why = f"the next file of the commit log is not there: {why}"
        logger.error("sends refused: %s", why)
        self._reject(why)

    def _reject(self, why: str) -> None:
        """Nothing staged and not written was ever there: queue numbers go back."""
        for turn in (self._turn, *reversed(self._unwritten)):
            for queue, first in turn.touched if turn is not None else ():
                queue.tail.cut(first)
        self._unwritten.clear()
        self._turn = None
        self._segment = records.Segment(self.written.position, 0)
        self._patience.stop()
        fault = Fault(self.written.position, stored=False, why=why)
        for mark in (self.written, self.synced):
            mark.faults.fire(fault)

    # The end

    async def close(self) -> None:
        """Brings everything to the disk and leaves a directory that needs no recovery; where that
        fails, `abort` stays and says so."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end_turn()
        is_clean = await self._settle()
        self._log.read_only = self.read_only or "it is closed"
        await self._jobs.idle()
        self._patience.stop()
        for part in (self._filer, self._log, self._reader):
            part.close()
        try:
            await asyncio.shield(self._threads.run("files", lambda: self._leave(is_clean)))
        except StoreError as error:
            logger.error("the store was not closed cleanly: %s", error)

    async def _settle(self) -> bool:
        """Works until written, synced and filed are one; whether they are."""
        while self.read_only is None:
            await self._jobs.idle()
            if self.synced.position < self.written.position:
                self._log.sync()
            elif self._filer.unfiled:
                self._filer.begin()
            elif not self._unwritten:
                return True
            else:  # no job is running that would make the file they wait for
                self._give_up()
        return False

    def _leave(self, is_clean: bool) -> None:
        with closing(self._found.lock):
            if is_clean:
                end = self.written.position
                leave(self._found.log, [start for start in self._log.starts if start >= end])
