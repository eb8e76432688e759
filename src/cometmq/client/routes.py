"""Routes: where topics are, asked of the name servers and kept for a while; the queues of a topic,
and which of them a member of a group consumes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from cometmq.client.errors import BrokerRefused, ClientError, NoRoute
from cometmq.message.names import TEMPLATE_TOPIC
from cometmq.net import Address, Pool
from cometmq.protocol import GetRouteInfo, ResponseCode, TopicRouteData
from cometmq.runtime import BadSetting, CometError

Q = TypeVar("Q")

READ, WRITE = 4, 2
MASTER = 0
MOST_BORROWED = 4
"""Queues of a topic that a send is about to make, as the original's clients count them."""


class MessageQueue(NamedTuple):
    """A queue of a topic, by the broker that has it."""

    topic: str
    broker: str
    queue_id: int


def java_order(text: str) -> bytes:
    """What all members sort by: Java compares texts by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def average(queues: Sequence[Q], members: Sequence[str], me: str) -> list[Q]:
    """AVG: a contiguous range for each member, the first ones one longer (spec 04 7.3).

    Queues and members are sorted already; every member has to see the same order.
    """
    if me not in members:
        return []
    index, count = members.index(me), len(members)
    size, longer = divmod(len(queues), count)
    start = index * size + min(index, longer)
    return list(queues[start : start + size + (index < longer)])


@dataclass(frozen=True)
class Route:
    """A topic's queues and the addresses of their brokers."""

    to_write: tuple[MessageQueue, ...]
    to_read: tuple[MessageQueue, ...]
    addresses: dict[str, dict[int, Address]]

    def master(self, broker: str) -> Address:
        """Where a broker is written to."""
        address = self.addresses.get(broker, {}).get(MASTER)
        if address is None:
            raise ClientError(f"The broker[{broker}] not exist: its master is in no route")
        return address

    @classmethod
    def of(cls, topic: str, data: TopicRouteData) -> "Route":
        """What a name server's answer means for a client."""
        addresses = {
            one.broker_name: {n: Address.parse(a) for n, a in one.broker_addrs.items()}
            for one in data.broker_datas
        }
        write, read = [], []
        for one in sorted(data.queue_datas, key=lambda one: java_order(one.broker_name)):
            if one.perm & WRITE and MASTER in addresses.get(one.broker_name, {}):
                count = one.write_queue_nums
                write += [MessageQueue(topic, one.broker_name, n) for n in range(count)]
            if one.perm & READ and one.broker_name in addresses:
                count = one.read_queue_nums
                read += [MessageQueue(topic, one.broker_name, n) for n in range(count)]
        return cls(tuple(write), tuple(read), addresses)


class Routes:
    """The routes that one client has asked for."""

    def __init__(self, namesrv: str, pool: Pool, chance: random.Random) -> None:
        try:
            self.servers = [Address.parse(one) for one in namesrv.split(";") if one.strip()]
        except ValueError as error:
            raise BadSetting(
                f"name servers {namesrv!r}: {error}; write them as '10.0.0.1:9876;10.0.0.2:9876'"
            ) from None
        if not self.servers:
            raise BadSetting("no name server is given; write it as '127.0.0.1:9876'")
        chance.shuffle(self.servers)
        self._pool = pool
        self._known: dict[str, Route] = {}

    def known(self, topic: str) -> Route | None:
        """The route as it was last seen; None where it never was."""
        return self._known.get(topic)

    def brokers(self) -> dict[Address, bool]:
        """The address of each broker of each known topic, and whether it is a master."""
        found: dict[Address, bool] = {}
        for route in self._known.values():
            for addresses in route.addresses.values():
                found |= {address: number == MASTER for number, address in addresses.items()}
        return found

    async def find(self, topic: str) -> Route:
        """The route of a topic, asked for where it is not known; NoRoute where there is none."""
        return self._known.get(topic) or await self.refresh(topic)

    async def find_to_send(self, topic: str) -> Route:
        """The same, or the queues that the topic will have once the first message makes it."""
        try:
            return await self.find(topic)
        except NoRoute as missing:
            try:
                template = await self._ask(TEMPLATE_TOPIC)
            except NoRoute:
                raise missing from None
            few = [one for one in template.to_write if one.queue_id < MOST_BORROWED]
            queues = tuple(one._replace(topic=topic) for one in few)
            return Route(queues, (), template.addresses)

    async def address(self, topic: str, broker: str, wanted: int = MASTER) -> Address:
        """Where a broker is read from: the one that is wanted, else the first that is there."""
        addresses = (await self.find(topic)).addresses.get(broker)
        if not addresses:
            raise ClientError(f"broker {broker!r} is in no route of {topic!r} any more")
        return addresses.get(wanted) or addresses[min(addresses)]

    async def refresh(self, topic: str) -> Route:
        """Asks again; a known topic that the server has forgotten keeps its route (spec 01 21)."""
        try:
            self._known[topic] = await self._ask(topic)
        except NoRoute:
            if topic not in self._known:
                raise
        return self._known[topic]

    async def renew(self, *topics: str) -> None:
        """Asks again, if that can be: else the routes that we have are the best there are."""
        try:
            for topic in topics or tuple(self._known):
                await self.refresh(topic)
        except CometError:
            pass

    async def _ask(self, topic: str) -> Route:
        """Asks the server that answered last; the others in turn while it does not."""
        tried: list[str] = []
        for server in tuple(self.servers):
            try:
                answer = await self._pool.ask(server, GetRouteInfo(topic))
            except CometError as error:
                tried.append(str(error))
                self.servers.sort(key=lambda one: one == server)  # the last one, for all who ask
                continue
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NoRoute(
                    f"no route for topic {topic!r}: name server {server} knows no broker that has "
                    f"it; send to it where topics are made by themselves, or create it with "
                    f"`mqadmin updateTopic -n {server} -t {topic} -c DefaultCluster`"
                )
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(f"route of {topic!r}", str(server), answer.code, answer.remark)
            data = TopicRouteData.read(answer.body)
            try:
                return Route.of(topic, data)
            except ValueError as error:
                raise ClientError(
                    f"name server {server} sent an address of topic {topic!r} that is none: {error}"
                ) from None
        raise ClientError(f"no name server answers for topic {topic!r}: {'; '.join(tried)}")
