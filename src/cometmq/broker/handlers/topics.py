"""Topics and groups: tables that are on disk soon after they changed, and what operators ask of
them. Their base is that of the offsets too.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from cometmq.broker.settings import BrokerSettings
from cometmq.kernel import headers
from cometmq.message import names
from cometmq.protocol import (
    Command,
    ConsumerOffsetWrapper,
    DataVersion,
    GetTopicConfig,
    ResponseCode,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateTopic,
)
from cometmq.runtime import Clock, Signal, Threads
from cometmq.serving import ADMIN, Answer, Outcome, Refused, Wait, handles
from cometmq.store import Disk, StoreError, Table

log = logging.getLogger("cometmq.broker")

W = TypeVar("W", TopicConfigWrapper, SubscriptionGroupWrapper, ConsumerOffsetWrapper)

INHERIT, WRITE, READ = 1, 2, 4
RW = READ | WRITE
UNIT, HAS_UNIT_SUBSCRIPTION = 1, 2
"""Bits of a topic's sysFlag."""

SAVE_MS = 5_000


@dataclass(eq=False)
class Kept(Generic[W]):
    """The base of the broker's tables; changes that come during a save share the next one."""

    kind: ClassVar[type[Any]]
    path: ClassVar[str]
    disk: Disk
    threads: Threads
    clock: Clock
    settings: BrokerSettings

    def __post_init__(self) -> None:
        self._file = Table(self.disk, self.path)
        found = self._file.load()
        # What an original stored beside our table is kept for it, though nothing here sets it.
        self._loaded: W = self.kind.read(found) if found else self.kind()
        self._version: DataVersion = self._loaded.data_version or DataVersion()  # type: ignore[truthy-bool]
        self._changes = 0
        self.unsaved: set[str] = set()
        """What is other than on disk, by name."""
        self._taken: set[str] = set()
        """Those of them that the save under way is bringing there."""
        self._saving = self._again = False
        self.failure: str | None = None
        """Why the last save failed; None where it did not, and while another one is under way."""
        self.saves: Signal[str | None] = Signal()
        """The end of each save, with its failure."""

    def wrapper(self) -> W:
        """The table as it is stored."""
        return self._loaded.but(data_version=self._version)

    def _change(self, name: str, every: int = 1) -> None:
        """This is other than on disk now."""
        self.unsaved.add(name)
        self._taken.discard(name)
        self._changes += 1
        if self._changes % every == 0:
            self._version = self._version.next(self.clock.now_ms())

    def save(self) -> None:
        """Saves what is not on disk yet, once more where that has failed before."""
        self._again = self._saving
        if self.unsaved and not self._saving:
            self._saving = True
            self.failure = None
            self._taken = set(self.unsaved)
            content = self.wrapper().write(pretty=True)
            done = self.threads.run("files", lambda: self._file.save(content))
            done.add_done_callback(self._done)

    def _done(self, future: "asyncio.Future[None]") -> None:
        self._saving = False
        try:
            future.result()
            self.unsaved -= self._taken
        except (StoreError, asyncio.CancelledError) as error:
            self.failure = f"{self._file.name} could not be saved: {error}"
            log.error("%s", self.failure)
        finally:
            self.saves.fire(self.failure)
        if self.failure is None and self._again:
            self.save()

    async def close(self) -> None:
        """Saves what is not on disk yet; what cannot be saved is in the log."""
        self.save()
        while self._saving:
            await self.saves.next()


class Topics(Kept[TopicConfigWrapper]):
    """The topics of this broker, and when each change of them is on disk."""

    path = "config/topics.json"
    kind = TopicConfigWrapper

    def __post_init__(self) -> None:
        super().__post_init__()
        self._configs = self._loaded.topic_config_table
        self.changed: Signal[str] = Signal()
        system = list(_system_topics(self.settings))
        self._system = {one.topic_name for one in system}
        for one in system:
            known = self.find(one.topic_name)
            resized = known is not None and known.write_queue_nums != one.write_queue_nums
            if known is None or (one.topic_name == names.TEMPLATE_TOPIC and resized):
                self.put(one)

    def find(self, name: str) -> TopicConfig | None:
        """How a topic is configured; None where there is none."""
        return self._configs.get(name)

    def is_system(self, name: str) -> bool:
        """A topic that users neither make nor change."""
        return name in self._system or names.is_system_topic(name)

    def put(self, config: TopicConfig) -> None:
        """Makes a topic or changes it."""
        name = config.topic_name
        if self.find(name) != config:
            self._configs[name] = config
            self._change(name)
            self.save()
            self.changed.fire(name)

    def make_for_send(self, send: headers.Send) -> TopicConfig | None:
        """Makes a topic because somebody sends to it; None where that is not allowed."""
        if send.topic.startswith(names.RETRY):
            return self.make_retry(send.topic, 1, unit=send.unit_mode)
        model, allowed = self.find(send.default_topic), self.settings.auto_create_topic_enable
        if model is None or not model.perm & INHERIT or not allowed:
            return None
        count = min(send.default_topic_queues, model.write_queue_nums)
        if count <= 0:
            return None
        kind, flag = model.topic_filter_type, UNIT if send.unit_mode else 0
        config = _config(send.topic, count, model.perm & ~INHERIT)
        self.put(config.but(topic_filter_type=kind, topic_sys_flag=flag))
        return self.find(send.topic)

    def make_retry(self, name: str, queues: int, *, unit: bool, order: bool = False) -> TopicConfig:
        """The retry topic of a group, made where it is missing."""
        config = self.find(name)
        if config is None:
            flag = HAS_UNIT_SUBSCRIPTION if unit else 0
            config = _config(name, queues).but(topic_sys_flag=flag, order=order)
            self.put(config)
        return config


def described(config: TopicConfig) -> str:
    """A topic's configuration in the words of the original."""
    letters = (("R", READ), ("W", WRITE), ("X", INHERIT))
    perm = "".join(letter if config.perm & bit else "-" for letter, bit in letters)
    attributes = ", ".join(f"{name}={value}" for name, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={str(config.order).lower()}, attributes={{{attributes}}}]"
    )


def _config(name: str, queues: int, perm: int = RW) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def _system_topics(settings: BrokerSettings) -> Iterator[TopicConfig]:
    """Spec 01 19.8: in the order in which the original makes them."""
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    yield _config("SELF_TEST_TOPIC", 1)
    if settings.auto_create_topic_enable:
        yield _config(names.TEMPLATE_TOPIC, settings.default_topic_queue_nums, RW | INHERIT)
    yield _config("BenchmarkTest", 1024)
    yield _config(cluster, 16, RW | INHERIT)
    yield _config(broker, 1, RW | INHERIT)
    yield _config("OFFSET_MOVED_EVENT", 1)
    yield _config("SCHEDULE_TOPIC_XXXX", 18)
    yield _config(f"{cluster}_REPLY_TOPIC", 1)
    yield _config("RMQ_SYS_TRANS_HALF_TOPIC", 1)
    yield _config("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1)
    yield _config(f"rmq_sys_REVIVE_LOG_{cluster}", 8)
    yield _config(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, INHERIT)
    yield _config("rmq_sys_wheel_timer", 1)


class Groups(Kept[SubscriptionGroupWrapper]):
    """The consumer groups of this broker; unknown ones are made where that is allowed."""

    path = "config/subscriptionGroup.json"
    kind = SubscriptionGroupWrapper

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """How a group is configured, made where it is missing; None where it cannot be."""
        config = self._loaded.subscription_group_table.get(name)
        allowed = self.settings.auto_create_subscription_group or names.is_system_group(name)
        if config is None and allowed and not names.group_fault(name):
            config = SubscriptionGroupConfig(group_name=name)
            self.put(config)
        return config

    def known(self, name: str) -> bool:
        """The group is there already."""
        return name in self._loaded.subscription_group_table

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Makes a group or changes it."""
        self._loaded.subscription_group_table[config.group_name] = config
        self._change(config.group_name)
        self.save()


@handles(UpdateAndCreateTopic, needs=ADMIN)
def update_and_create_topic(topics: Topics, ask: UpdateAndCreateTopic, now_ms: int) -> Outcome:
    """Let this topic be as said here."""
    why = names.topic_fault(ask.topic, by_broker=True)
    if why is None and topics.is_system(ask.topic):
        why = f"The topic[{ask.topic}] is conflict with system topic."
    if why is None and ask.attributes:
        why = f"the attributes {ask.attributes!r}: attributes of topics are not built yet"
    if why is not None:
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    config = TopicConfig(
        topic_name=ask.topic,
        read_queue_nums=ask.read_queue_nums,
        write_queue_nums=ask.write_queue_nums,
        perm=ask.perm,
        topic_filter_type=ask.topic_filter_type,
        topic_sys_flag=ask.topic_sys_flag or 0,
        order=ask.order,
    )
    topics.put(config)
    return _when_saved(topics, ask.topic, now_ms)


@handles(GetTopicConfig, needs=ADMIN)
def get_topic_config(topics: Topics, ask: GetTopicConfig) -> Outcome:
    """How is this topic configured here?"""
    config = topics.find(ask.topic)
    if config is None:
        why = f"No topic in this broker. topic: {ask.topic}"
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
    return Answer(body=config.write())


@handles(UpdateAndCreateSubscriptionGroup, needs=ADMIN)
def update_and_create_group(
    groups: Groups, ask: UpdateAndCreateSubscriptionGroup, request: Command, now_ms: int
) -> Outcome:
    """Let this group be as said in the body."""
    config = SubscriptionGroupConfig.read(request.body)
    if why := names.group_fault(config.group_name):
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    groups.put(config)
    return _when_saved(groups, config.group_name, now_ms)


def _when_saved(kept: Topics | Groups, name: str, now_ms: int) -> Outcome:
    """The answer to an operator whose change must survive what happens next."""

    def decide(now_ms: int) -> Outcome:
        if name not in kept.unsaved:
            return Answer()
        if kept.failure is None and now_ms < until:
            return Wait(kept.saves, until, decide)
        late = "the change is not on disk yet; it may be lost if the broker stops"
        raise Refused(ResponseCode.SYSTEM_ERROR, kept.failure or late)

    until = now_ms + SAVE_MS
    kept.save()  # the same change may have failed before, and is no news to the table
    return decide(now_ms)
