"""The original's Java client, driven from tests: a producer, a push and two pull consumers.

Each is a process that runs a program of tests/interop/java and speaks JSON lines. Nothing sleeps:
what is awaited is a line.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tests.interop.peer import Peer

Json = dict[str, Any]
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, order=True)
class JavaQueue:
    """A queue as the Java client names it."""

    topic: str
    broker: str
    id: int

    def fields(self) -> Json:
        return {"topic": self.topic, "broker": self.broker, "id": self.id}


@dataclass(frozen=True)
class JavaMessage:
    """What the Java client says of a message that it got."""

    topic: str
    body: bytes
    tag: str | None
    keys: str | None
    broker: str
    queue_id: int
    queue_offset: int
    position: int
    message_id: str
    flag: int
    sys_flag: int
    born_ms: int
    store_ms: int
    reconsume_times: int
    properties: Mapping[str, str]
    taken: bool

    @classmethod
    def read(cls, line: Json) -> Self:
        return cls(
            topic=line["topic"],
            body=bytes.fromhex(line["body"]),
            tag=line.get("tag"),
            keys=line.get("keys"),
            broker=line.get("broker", ""),
            queue_id=line["queueId"],
            queue_offset=line["queueOffset"],
            position=line["position"],
            message_id=line["msgId"],
            flag=line["flag"],
            sys_flag=line["sysFlag"],
            born_ms=line["bornMs"],
            store_ms=line["storeMs"],
            reconsume_times=line["reconsumeTimes"],
            properties=line["properties"],
            taken=line.get("taken", True),
        )


@dataclass(frozen=True)
class JavaReceipt:
    """What the Java producer says of one send; `status` is SENT for a one-way send."""

    status: str
    message_id: str
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None


@dataclass(frozen=True)
class JavaPull:
    """The answer to one pull: FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL."""

    status: str
    next_offset: int
    min_offset: int
    max_offset: int
    messages: Sequence[JavaMessage]


class JavaError(Exception):
    """The exception that the Java client threw; `code` is the response code where there was one."""

    def __init__(self, line: Json) -> None:
        super().__init__(f"{line['error']}: {line['text']}")
        self.name: str = line["error"]
        self.code: int | None = line.get("code")


@dataclass(frozen=True)
class OutgoingMessage:
    """A message for the Java producer to send."""

    topic: str
    body: bytes
    tag: str | None = None
    keys: str | None = None
    flag: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> Json:
        plain = {"topic": self.topic, "body": self.body.hex(), "tag": self.tag, "keys": self.keys}
        return {**plain, "flag": self.flag, "properties": dict(self.properties)}


class JavaClient:
    """What the drivers share: one process, numbered questions, lines that come by themselves."""

    def __init__(self, peer: Peer, home: Path, program: str, arguments: Json) -> None:
        # A home each: two clients of one folder would mix their logs and offsets.
        home.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count(1)
        self._waiting: list[Json] = []
        self.process = peer.start(home, program, json.dumps(arguments))
        self._next(lambda line: line.get("event") == "ready", 60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, timeout_s: float = 60) -> None:
        """Shut the client down as its users do, then end the process."""
        if self.process.running:
            self.process.close_input()
            self.process.wait(timeout_s)
        self.process.stop()

    def kill(self) -> None:
        """End it without a word to the broker."""
        self.process.kill()

    def _tell(self, ask: Json) -> int:
        number = next(self._numbers)
        self.process.say(json.dumps({"id": number, **ask}))
        return number

    def _next(self, wanted: Callable[[Json], bool], timeout_s: float) -> Json:
        """The first line that is wanted, now or later; the others stay for those who want them."""
        for line in self._waiting:
            if wanted(line):
                self._waiting.remove(line)
                return line
        while True:
            line = json.loads(self.process.line(timeout_s=timeout_s))
            if wanted(line):
                return line
            self._waiting.append(line)

    def _answer(self, number: int, timeout_s: float) -> Json:
        line = self._next(lambda line: line.get("id") == number, timeout_s)
        if "error" in line:
            raise JavaError(line)
        return line

    def _ask(self, ask: Json, timeout_s: float = 30) -> Json:
        return self._answer(self._tell(ask), timeout_s)


class JavaProducer(JavaClient):
    """DefaultMQProducer; `settings` names its setters, as in {"retryTimesWhenSendFailed": "0"}."""

    def __init__(
        self,
        peer: Peer,
        home: Path,
        namesrv: str,
        group: str,
        settings: Mapping[str, str] = NOTHING,
    ) -> None:
        arguments = {"namesrv": namesrv, "group": group, "set": dict(settings)}
        super().__init__(peer, home, "Producer", arguments)

    def start_send(
        self,
        *messages: OutgoingMessage,
        mode: str = "sync",
        queue: JavaQueue | None = None,
        select: int | None = None,
    ) -> int:
        """Ask for a send; its number is for `receipt`. Many may be under way (mode async)."""
        ask: Json = {"mode": mode, "messages": [message.fields() for message in messages]}
        if queue is not None:
            ask["queue"] = queue.fields()
        if select is not None:
            ask["select"] = select
        return self._tell(ask)

    def receipt(self, number: int, timeout_s: float = 30) -> JavaReceipt:
        """What came of a send; raises JavaError where Java did."""
        line = self._answer(number, timeout_s)
        return JavaReceipt(
            line["status"],
            line.get("msgId", ""),
            line.get("offsetMsgId", ""),
            line.get("broker", ""),
            line.get("queueId", -1),
            line.get("queueOffset", -1),
            line.get("transactionId"),
        )

    def send(
        self,
        *messages: OutgoingMessage,
        mode: str = "sync",
        queue: JavaQueue | None = None,
        select: int | None = None,
    ) -> JavaReceipt:
        """Send (modes sync, async, oneway, batch) and wait for what comes of it."""
        return self.receipt(self.start_send(*messages, mode=mode, queue=queue, select=select))

    def queues(self, topic: str) -> list[JavaQueue]:
        """The queues that it may send to."""
        return _queues(self._ask({"mode": "queues", "topic": topic}))


class JavaPushConsumer(JavaClient):
    """DefaultMQPushConsumer; it takes a message once it was redelivered `fail_times` times."""

    def __init__(
        self,
        peer: Peer,
        home: Path,
        namesrv: str,
        group: str,
        subscribe: Mapping[str, str],
        *,
        start_at: str = "first",
        ordered: bool = False,
        fail_times: int = 0,
        settings: Mapping[str, str] = NOTHING,
    ) -> None:
        arguments: Json = {"namesrv": namesrv, "group": group, "subscribe": dict(subscribe)}
        arguments |= {"from": start_at, "ordered": ordered, "failTimes": fail_times}
        super().__init__(peer, home, "PushConsumer", {**arguments, "set": dict(settings)})

    def message(self, timeout_s: float = 60) -> JavaMessage:
        """The next message that it got."""
        line = self._next(lambda line: line.get("event") == "message", timeout_s)
        return JavaMessage.read(line)

    def messages(self, count: int, timeout_s: float = 60) -> list[JavaMessage]:
        """The next messages, in the order in which it got them."""
        return [self.message(timeout_s) for _ in range(count)]

    def unread(self) -> list[JavaMessage]:
        """Messages that it has said by now and nobody asked for; an answer comes after them."""
        self.queues()
        found = [line for line in self._waiting if line.get("event") == "message"]
        self._waiting = [line for line in self._waiting if line not in found]
        return [JavaMessage.read(line) for line in found]

    def queues(self) -> list[JavaQueue]:
        """The queues that it has now."""
        return _queues(self._ask({}))

    def wait_for_queues(
        self, wanted: Callable[[list[JavaQueue]], bool], timeout_s: float = 60
    ) -> list[JavaQueue]:
        """Wait until the queues it has are as wanted."""
        queues = self.queues()
        while not wanted(queues):
            queues = _queues(self._next(lambda line: line.get("event") == "queues", timeout_s))
        return queues


class JavaPullConsumer(JavaClient):
    """DefaultMQPullConsumer: every pull and every offset by hand."""

    def __init__(
        self,
        peer: Peer,
        home: Path,
        namesrv: str,
        group: str,
        settings: Mapping[str, str] = NOTHING,
    ) -> None:
        arguments = {"namesrv": namesrv, "group": group, "lite": False, "set": dict(settings)}
        super().__init__(peer, home, "PullConsumer", arguments)

    def queues(self, topic: str) -> list[JavaQueue]:
        """The queues of the topic that can be read."""
        return _queues(self._ask({"do": "queues", "topic": topic}))

    def pull(
        self,
        queue: JavaQueue,
        offset: int,
        *,
        most: int = 32,
        expression: str = "*",
        wait: bool = False,
    ) -> JavaPull:
        """One pull; with `wait` the broker holds it until there is something."""
        ask: Json = {"do": "pull", "queue": queue.fields(), "offset": offset, "most": most}
        line = self._ask({**ask, "expression": expression, "wait": wait}, timeout_s=60)
        found = [JavaMessage.read(each) for each in line["messages"]]
        return JavaPull(line["status"], line["next"], line["min"], line["max"], found)

    def offsets(self, queue: JavaQueue) -> tuple[int, int]:
        """Where the queue begins and ends."""
        line = self._ask({"do": "offsets", "queue": queue.fields()})
        return line["min"], line["max"]

    def search(self, queue: JavaQueue, store_ms: int) -> int:
        """The offset of the first message stored at that time or later."""
        return int(self._ask({"do": "search", "queue": queue.fields(), "ms": store_ms})["offset"])

    def commit(self, queue: JavaQueue, offset: int) -> None:
        """Set the group's offset and send it to the broker at once."""
        self._ask({"do": "commit", "queue": queue.fields(), "offset": offset})

    def committed(self, queue: JavaQueue) -> int:
        """The group's offset as the broker has it; -1 for none."""
        return int(self._ask({"do": "committed", "queue": queue.fields()})["offset"])


class JavaLitePullConsumer(JavaClient):
    """DefaultLitePullConsumer: asked for messages, it finds the queues itself."""

    def __init__(
        self,
        peer: Peer,
        home: Path,
        namesrv: str,
        group: str,
        subscribe: Mapping[str, str],
        *,
        start_at: str = "first",
        settings: Mapping[str, str] = NOTHING,
    ) -> None:
        arguments: Json = {"namesrv": namesrv, "group": group, "lite": True, "from": start_at}
        arguments |= {"subscribe": dict(subscribe), "set": dict(settings)}
        super().__init__(peer, home, "PullConsumer", arguments)

    def poll(self, timeout_ms: int = 1000) -> list[JavaMessage]:
        """What it has by now, or gets within the time."""
        line = self._ask({"do": "poll", "timeoutMs": timeout_ms}, 30 + timeout_ms / 1000)
        return [JavaMessage.read(each) for each in line["messages"]]

    def poll_until(self, count: int, polls: int = 60) -> list[JavaMessage]:
        """Poll until that many came; fewer after so many polls of a second."""
        found: list[JavaMessage] = []
        for _ in range(polls):
            found += self.poll()
            if len(found) >= count:
                break
        return found

    def commit(self) -> None:
        """Send the offsets of what was polled to the broker."""
        self._ask({"do": "commit"})


def _queues(line: Json) -> list[JavaQueue]:
    return [JavaQueue(each["topic"], each["broker"], each["id"]) for each in line["queues"]]
