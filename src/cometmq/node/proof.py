"""The proof that a node works: one message through its own ports, sent and received."""

from contextlib import closing

from cometmq.net import Address, Channel, LocalNetwork, Network
from cometmq.protocol import (
    Command,
    GetRouteInfo,
    PullMessage,
    RequestHeader,
    ResponseCode,
    SendAnswer,
    SendMessageV2,
    TopicFilterType,
    TopicRouteData,
    UpdateAndCreateTopic,
)
from cometmq.runtime import Clock, CometError

TOPIC = "COMETMQ_SELF_TEST"
"""Where the proof's messages lie; each start of `cometmq up` adds one."""

GROUP = "SELF_TEST_C_GROUP"
"""A group of the system: it is there where groups are not made by themselves."""

WITHIN_S = 10.0
SUSPEND, SUBSCRIPTION = 2, 4


class NotProved(CometError):
    """The node runs but does not do its work."""


async def prove(
    broker: Address, name_server: Address | None, network: Network | None = None
) -> None:
    """Sends a message and reads it back, each as any client would, and looks for its route.

    A name server that is not ours may be away: a broker starts all the same, and registers later.
    """
    network = network or LocalNetwork()
    born = Clock().now_ms()
    body = f"cometmq proved itself at {born}".encode()
    with closing(await Channel.open(network, broker, lambda command: None)) as channel:
        made = UpdateAndCreateTopic(TOPIC, "TBW102", 1, 1, 6, TopicFilterType.SINGLE_TAG)
        await _ask(channel, "make its topic", made)
        send = SendMessageV2(GROUP, TOPIC, "TBW102", 1, 0, 0, born, 0)
        sent = SendAnswer.read((await _ask(channel, "send a message", send, body)).fields)
        # Held: a message is acknowledged when it is safe, and seen by readers a moment later.
        hold_ms, flags = int(WITHIN_S * 500), SUSPEND | SUBSCRIPTION
        pull = PullMessage(GROUP, TOPIC, 0, sent.queue_offset, 1, flags, 0, hold_ms, "*", 0)
        pulled = await _ask(channel, "read the message back", pull)
        if body not in pulled.body:
            raise NotProved("the node was asked for the message it had stored, and gave another")
    if name_server is None:
        return
    with closing(await Channel.open(network, name_server, lambda command: None)) as channel:
        answer = await _ask(channel, "find the topic's route", GetRouteInfo(TOPIC))
        if not TopicRouteData.read(answer.body).queue_datas:
            raise NotProved(f"the name server {name_server} has a route for {TOPIC} without queues")


async def _ask(channel: Channel, what: str, header: RequestHeader, body: bytes = b"") -> Command:
    answer = await channel.ask(Command.request(header, body=body), WITHIN_S)
    if answer.code != ResponseCode.SUCCESS:
        raise NotProved(
            f"the node could not {what}: {channel.address} answered {answer.code}, {answer.remark}"
        )
    return answer
