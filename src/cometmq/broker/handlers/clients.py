"""Clients that come, stay and go, and who the members of a group are."""

from cometmq.broker.clients import Clients
from cometmq.broker.tables import Groups, Topics
from cometmq.message import names
from cometmq.net import Connection
from cometmq.protocol import (
    Command,
    ConsumerIds,
    GetConsumerListByGroup,
    HeartBeat,
    HeartBeatAnswer,
    HeartbeatData,
    ResponseCode,
    UnregisterClient,
)
from cometmq.serving import OPEN, Answer, Outcome, Refused, Sub, handles

LARGEST_BEAT = 1 << 20
"""A client with thousands of groups and subscriptions; the original has no limit."""


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
    clients.beat_producers(connection, beat)
    send_all = not beat.consumer_data_set and beat.heartbeat_fingerprint == 0
    for one in beat.consumer_data_set:
        config = groups.find(one.group_name or "")
        if config is None:
            continue
        if config.retry_queue_nums > 0:
            retry = names.retry_topic(config.group_name)
            topics.make_retry(retry, config.retry_queue_nums, unit=one.unit_mode)
        notify = config.notify_consumer_ids_changed_enable
        send_all |= clients.beat_consumer(connection, beat, one, notify=notify)
    return HeartBeatAnswer(knows_fingerprints=True, changed=send_all)


@handles(UnregisterClient, needs=OPEN)
def unregister_client(clients: Clients, ask: UnregisterClient, connection: Connection) -> Outcome:
    """This client leaves these groups."""
    clients.leave(connection, ask.producer_group, ask.consumer_group)
    return Answer()


@handles(GetConsumerListByGroup, needs=Sub.group("consumer_group"))
def get_consumer_list(clients: Clients, ask: GetConsumerListByGroup) -> Outcome:
    """Which clients are in this group?"""
    group = clients.consumers(ask.consumer_group)
    if group is None:
        why = f"no consumer for this group, {ask.consumer_group}"
        raise Refused(ResponseCode.SYSTEM_ERROR, why)
    members = [member.client_id for member in group.members.values()]
    return Answer(body=ConsumerIds(consumer_id_list=members).write())
