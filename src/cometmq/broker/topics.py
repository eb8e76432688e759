"""Topics: which there are, how they are made, and the file that remembers them."""

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


def _system_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """Spec 01 19.8: in the order in which the original makes them."""
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    made = [_config("SELF_TEST_TOPIC", 1)]
    if settings.auto_create_topic_enable:
        made.append(_config(TEMPLATE, settings.default_topic_queue_nums, RW | INHERIT))
    made += [
        _config("BenchmarkTest", 1024),
        _config(cluster, 16 if settings.cluster_topic_enable else 1, RW | INHERIT),
        _config(broker, 1, RW | INHERIT if settings.broker_topic_enable else INHERIT),
        _config("OFFSET_MOVED_EVENT", 1),
        _config("SCHEDULE_TOPIC_XXXX", 18),
    ]
    if settings.trace_topic_enable:
        made.append(_config("RMQ_SYS_TRACE_TOPIC", 1))
    return [
        *made,
        _config(f"{cluster}_REPLY_TOPIC", 1),
        _config("RMQ_SYS_TRANS_HALF_TOPIC", 1),
        _config("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1),
        _config(f"rmq_sys_REVIVE_LOG_{cluster}", 8),
        _config(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, INHERIT),
        _config("rmq_sys_wheel_timer", 1),
    ]


class Topics(Kept[TopicConfigWrapper]):
    """The topics of this broker, and when each change of them is on disk."""

    def __init__(
        self, table: Table, threads: Threads, clock: Clock, settings: BrokerSettings
    ) -> None:
        super().__init__(table, threads, clock, TopicConfigWrapper)
        self._makes = settings.auto_create_topic_enable
        self._configs = self._loaded.topic_config_table
        self._changed_by: dict[str, int] = {}
        self.changed: Signal[str] = Signal()
        system = _system_topics(settings)
        self._system = {one.topic_name for one in system}
        for one in system:
            known = self.find(one.topic_name)
            resized = known is not None and known.write_queue_nums != one.write_queue_nums
            if known is None or (one.topic_name == TEMPLATE and resized):
                self._put(one)

    def find(self, name: str) -> TopicConfig | None:
        """How a topic is configured; None where there is none."""
        return self._configs.get(name)

    def is_system(self, name: str) -> bool:
        """A topic that users neither make nor change."""
        return name in self._system or names.is_system_topic(name)

    def change_of(self, name: str) -> int:
        """The number of the change that this topic is from; it is on disk when `saved` is there."""
        return self._changed_by.get(name, 0)

    def put(self, config: TopicConfig) -> int:
        """Makes a topic or changes it; the number of the save that has it."""
        name = config.topic_name
        if self.find(name) != config:
            self._put(config)
            self.changed.fire(name)
        return self.change_of(name)

    def _put(self, config: TopicConfig) -> None:
        self._configs[config.topic_name] = config
        self._next_version()
        self._changed_by[config.topic_name] = self._change()
        self.save()

    def make_for_send(
        self, name: str, template: str, queues: int, *, unit: bool
    ) -> TopicConfig | None:
        """Makes a topic because somebody sends to it; None where that is not allowed."""
        if name.startswith(names.RETRY):
            return self.make_retry(name, 1, unit=unit)
        model = self.find(template)
        if model is None or not model.perm & INHERIT or not self._makes:
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


def _config(name: str, queues: int, perm: int = RW, flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=flag,
    )
