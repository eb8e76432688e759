"""Consumer groups: how each is configured, and the file that remembers it."""

from cometmq.broker.kept import Kept
from cometmq.broker.settings import BrokerSettings
from cometmq.message import names
from cometmq.protocol import SubscriptionGroupConfig, SubscriptionGroupWrapper
from cometmq.runtime import Clock, Threads
from cometmq.store import Table


class Groups(Kept[SubscriptionGroupWrapper]):
    """The consumer groups of this broker; unknown ones are made where that is allowed."""

    def __init__(
        self, table: Table, threads: Threads, clock: Clock, settings: BrokerSettings
    ) -> None:
        super().__init__(table, threads, clock, SubscriptionGroupWrapper)
        self._makes = settings.auto_create_subscription_group
        self._configs = self._loaded.subscription_group_table

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """How a group is configured, made where it is missing; None where it cannot be."""
        known = self._configs.get(name)
        if known is not None:
            return known
        if names.group_fault(name) or not (self._makes or names.is_system_group(name)):
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
        self._next_version()
        change = self._change()
        self.save()
        return change
