"""Consumer groups: how each is configured, and the file that remembers it."""

from cometmq.broker.kept import Kept
from cometmq.broker.settings import BrokerSettings
from cometmq.message import names
from cometmq.protocol import SubscriptionGroupConfig, SubscriptionGroupWrapper
from cometmq.runtime import Clock, Threads
from cometmq.store import Table


class Groups:
    """The consumer groups of this broker; unknown ones are made where that is allowed."""

    def __init__(
        self, table: Table, threads: Threads, clock: Clock, settings: BrokerSettings
    ) -> None:
        self._clock = clock
        self._makes = settings.auto_create_subscription_group
        found = table.load()
        wrapper = SubscriptionGroupWrapper.read(found) if found else SubscriptionGroupWrapper()
        self._configs = dict(wrapper.subscription_group_table)
        self._loaded = wrapper
        self._version = wrapper.data_version
        self.kept = Kept(table, threads, self._write)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """How a group is configured, made where it is missing; None where it cannot be."""
        known = self._configs.get(name)
        if known is not None:
            return known
        if names.group_fault(name):
            return None
        if not self._makes and not names.is_system_group(name):
            return None
        made = SubscriptionGroupConfig(group_name=name)
        self.put(made)
        return made

    def known(self, name: str) -> bool:
        """The group is there already."""
        return name in self._configs

    def put(self, config: SubscriptionGroupConfig) -> int:
        """Makes a group or changes it; the number of the save that has it."""
        self._configs[config.group_name] = config
        self._version = self._version.next(self._clock.now_ms())
        return self.kept.touch()

    def _write(self) -> bytes:
        # What an original forbade to a group is kept for it, though nothing here sets it yet.
        wrapper = self._loaded.but(
            data_version=self._version, subscription_group_table=dict(self._configs)
        )
        return wrapper.write(pretty=True)
