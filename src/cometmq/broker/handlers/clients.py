"""Clients: who is connected in which group, what they subscribe to, and who must be told."""

import logging
from dataclasses import dataclass, field

from cometmq.broker.handlers.topics import Groups, Topics
from cometmq.message import names
from cometmq.net import Connection
from cometmq.protocol import (
    Command,
    ConsumerData,
    ConsumerIds,
    GetConsumerListByGroup,
    HeartBeat,
    HeartBeatAnswer,
    HeartbeatData,
    NotifyConsumerIdsChanged,
    ResponseCode,
    SubscriptionData,
    UnregisterClient,
)
from cometmq.runtime import Clock
from cometmq.serving import OPEN, Answer, Outcome, Refused, Sub, handles

log = logging.getLogger("cometmq.broker")

SCAN_S = 10.0
BROADCASTING = "BROADCASTING"

LARGEST_BEAT = 1 << 20
"""A client with thousands of groups and subscriptions; the original has no limit."""


@dataclass
class Member:
    """One client of a group, by its connection."""

    client_id: str
    seen_ms: int


@dataclass
class Group:
    """A group of consumers as its members describe it."""

    model: str = "CLUSTERING"
    notifies: bool = True
    fingerprint: int | None = None
    members: dict[Connection, Member] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)


@dataclass(eq=False)
class Clients:
    """The consumer groups that are connected now; all of it in memory, as clients tell it again.
    Of producers nothing is kept: nobody asks for them yet."""

    clock: Clock
    expires_ms: int
    _groups: dict[str, Group] = field(default_factory=dict, init=False)

    def find(self, name: str) -> Group | None:
        """A consumer group; None where it has no members."""
        return self._groups.get(name)

    def beat(
        self, connection: Connection, beat: HeartbeatData, one: ConsumerData, *, notify: bool
    ) -> bool:
        """A client says that it is in a consumer group; whether it must send all again."""
        name = one.group_name or ""
        group = self._groups.setdefault(name, Group())
        stale = group.fingerprint != beat.heartbeat_fingerprint
        changed = connection not in group.members
        group.members[connection] = Member(beat.client_id or "", self.clock.now_ms())
        connection.ended.watch(self._gone)
        if not beat.without_sub:
            group.model = one.message_model or group.model
            group.fingerprint = beat.heartbeat_fingerprint
            changed |= _subscribe(group, one.subscription_data_set)
        group.notifies = notify
        if changed:
            self._notify(name, group)
        return stale if beat.without_sub else beat.heartbeat_fingerprint == 0

    def leave(self, connection: Connection, name: str) -> None:
        """A client leaves a group; whatever id it names, its connection is what leaves."""
        group = self._groups.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return
        if group.members:
            self._notify(name, group)
        else:
            del self._groups[name]

    def _gone(self, connection: Connection) -> None:
        for name in list(self._groups):
            self.leave(connection, name)

    def _notify(self, name: str, group: Group) -> None:
        """Tells every member, a new one included, that the members are others now."""
        if group.notifies and group.model != BROADCASTING:
            told = Command.request(NotifyConsumerIdsChanged(name)).oneway().write()
            for connection in group.members:
                connection.write(told)

    def expire(self) -> None:
        """Ends the connections of clients that are silent."""
        late = self.clock.now_ms() - self.expires_ms
        for group in list(self._groups.values()):
            for connection, member in list(group.members.items()):
                if member.seen_ms < late:
                    log.warning("client %s at %s is silent", member.client_id, connection.remote)
                    connection.abort()


def _subscribe(group: Group, told: tuple[SubscriptionData, ...]) -> bool:
    """Takes a heartbeat's subscriptions; whether a topic came or went (a new text notifies not)."""
    before, now = group.subscriptions, {one.topic or "": one for one in told}
    group.subscriptions = {
        topic: max(before.get(topic, one), one, key=lambda known: known.sub_version)
        for topic, one in now.items()
    }
    return before.keys() != now.keys()


@handles(HeartBeat, needs=OPEN, largest_body=LARGEST_BEAT)
def heart_beat(
    clients: Clients,
    groups: Groups,
    topics: Topics,
    ask: HeartBeat,
    request: Command,
    connection: Connection,
) -> Outcome:
    """Here I am, with these groups."""
    beat = HeartbeatData.read(request.body)
    if not beat.client_id:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the heartbeat has no clientID")
    send_all = not beat.consumer_data_set and beat.heartbeat_fingerprint == 0
    for one in beat.consumer_data_set:
        config = groups.find(one.group_name or "")
        if config is None:
            continue
        if config.retry_queue_nums > 0:
            name, wanted = names.retry_topic(config.group_name), one.subscription_data_set
            known = [topics.find(told.topic or "") for told in wanted]
            order = any(topic is not None and topic.order for topic in known)
            topics.make_retry(name, config.retry_queue_nums, unit=one.unit_mode, order=order)
        notify = config.notify_consumer_ids_changed_enable
        send_all |= clients.beat(connection, beat, one, notify=notify)
    return HeartBeatAnswer(knows_fingerprints=True, changed=send_all)


@handles(UnregisterClient, needs=OPEN)
def unregister_client(clients: Clients, ask: UnregisterClient, connection: Connection) -> Outcome:
    """This client leaves its groups."""
    clients.leave(connection, ask.consumer_group or "")
    return Answer()


@handles(GetConsumerListByGroup, needs=Sub(group="consumer_group"))
def get_consumer_list(clients: Clients, ask: GetConsumerListByGroup) -> Outcome:
    """Which clients are in this group?"""
    group = clients.find(ask.consumer_group)
    if group is None:
        why = f"no consumer for this group, {ask.consumer_group}"
        raise Refused(ResponseCode.SYSTEM_ERROR, why)
    members = [member.client_id for member in group.members.values()]
    return Answer(body=ConsumerIds(consumer_id_list=members).write())
