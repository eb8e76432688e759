"""Topics: which there are, how they are made, and the file that remembers them."""

from dataclasses import dataclass

from cometmq.broker.kept import Kept
from cometmq.broker.settings import BrokerSettings
from cometmq.message import names
from cometmq.protocol import TopicConfig, TopicConfigWrapper
from cometmq.runtime import Clock, Signal, Threads
from cometmq.store import Table

INHERIT, WRITE, READ = 1, 2, 4
RW = READ | WRITE
TEMPLATE = "TBW102"
UNIT, HAS_UNIT_SUBSCRIPTION = 1, 2
"""Bits of a topic's sysFlag."""


@dataclass(frozen=True)
class _System:
    """A topic that every broker has."""

    name: str
    queues: int
    perm: int = RW


def _system_topics(settings: BrokerSettings) -> list[_System]:
    """Spec 01 19.8: in the order in which the original makes them."""
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    made = [_System("SELF_TEST_TOPIC", 1)]
    if settings.auto_create_topic_enable:
        made.append(_System(TEMPLATE, settings.default_topic_queue_nums, RW | INHERIT))
    made += [
        _System("BenchmarkTest", 1024),
        _System(cluster, 16 if settings.cluster_topic_enable else 1, RW | INHERIT),
        _System(broker, 1, RW | INHERIT if settings.broker_topic_enable else INHERIT),
        _System("OFFSET_MOVED_EVENT", 1),
        _System("SCHEDULE_TOPIC_XXXX", 18),
    ]
    if settings.trace_topic_enable:
        made.append(_System("RMQ_SYS_TRACE_TOPIC", 1))
    return [
        *made,
        _System(f"{cluster}_REPLY_TOPIC", 1),
        _System("RMQ_SYS_TRANS_HALF_TOPIC", 1),
        _System("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1),
        _System(f"rmq_sys_REVIVE_LOG_{cluster}", 8),
        _System(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, INHERIT),
        _System("rmq_sys_wheel_timer", 1),
    ]


class Topics:
    """The topics of this broker, and when each change of them is on disk."""

    def __init__(
        self, table: Table, threads: Threads, clock: Clock, settings: BrokerSettings
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._system = {one.name for one in _system_topics(settings)}
        found = table.load()
        wrapper = TopicConfigWrapper.read(found) if found else TopicConfigWrapper()
        self._configs = dict(wrapper.topic_config_table)
        self._version = wrapper.data_version
        self.kept = Kept(table, threads, lambda: self.wrapper().write(pretty=True))
        self.changed: Signal[str] = Signal()
        self._changes: dict[str, int] = {}
        for one in _system_topics(settings):
            known = self.find(one.name)
            if known is None or (one.name == TEMPLATE and known.write_queue_nums != one.queues):
                self._put(_config(one.name, one.queues, one.perm))

    def find(self, name: str) -> TopicConfig | None:
        """How a topic is configured; None where there is none."""
        return self._configs.get(name)

    def is_system(self, name: str) -> bool:
        """A topic that users neither make nor change."""
        return name in self._system or names.is_system_topic(name)

    def change_of(self, name: str) -> int:
        """The number of the save that this topic is in (`kept.is_saved`)."""
        return self._changes.get(name, 0)

    def put(self, config: TopicConfig) -> int:
        """Makes a topic or changes it; the number of the save that has it."""
        if self.find(config.topic_name) == config:
            return self.change_of(config.topic_name)
        self._put(config)
        self.changed.fire(config.topic_name)
        return self._changes[config.topic_name]

    def _put(self, config: TopicConfig) -> None:
        self._configs[config.topic_name] = config
        self._version = self._version.next(self._clock.now_ms())
        self._changes[config.topic_name] = self.kept.touch()

    def make_for_send(
        self, name: str, template: str, queues: int, *, unit: bool
    ) -> TopicConfig | None:
        """Makes a topic because somebody sends to it; None where that is not allowed."""
        if name.startswith(names.RETRY):
            return self.make_retry(name, 1, unit=unit)
        model = self.find(template)
        if model is None or not model.perm & INHERIT or not self._settings.auto_create_topic_enable:
            return None
        count = min(queues, model.write_queue_nums)
        if count <= 0:
            return None
        config = _config(name, count, model.perm & ~INHERIT, UNIT if unit else 0).but(
            topic_filter_type=model.topic_filter_type
        )
        self.put(config)
        return config

    def make_retry(self, name: str, queues: int, *, unit: bool) -> TopicConfig:
        """The retry topic of a group, made where it is missing."""
        config = self.find(name)
        if config is None:
            config = _config(name, queues, RW, HAS_UNIT_SUBSCRIPTION if unit else 0)
            self.put(config)
        return config

    def wrapper(self) -> TopicConfigWrapper:
        """All topics as they are stored and registered."""
        return TopicConfigWrapper(self._version, topic_config_table=dict(self._configs))


def _config(name: str, queues: int, perm: int, flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=flag,
    )
