"""What a name server answers: registration, routes, the list of the cluster."""

from cometmq.nameserver.routes import Routes
from cometmq.net import Connection
from cometmq.protocol import (
    Command,
    GetBrokerClusterInfo,
    GetRouteInfo,
    RegisterBroker,
    RegisterBrokerBody,
    ResponseCode,
    UnregisterBroker,
)
from cometmq.serving import ADMIN, OPEN, Answer, Outcome, Refused, handles

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

LARGEST_REGISTRATION = 16 << 20


@handles(RegisterBroker, needs=ADMIN, largest_body=LARGEST_REGISTRATION)
def register_broker(
    routes: Routes, ask: RegisterBroker, request: Command, connection: Connection, now_ms: int
) -> Outcome:
    """A broker says that it is there and what it has."""
    body = RegisterBrokerBody.read(request.body, ask.body_crc32 or 0, request.version)
    answer = routes.register(ask, body, connection, now_ms)
    routes.attend(connection)
    return answer


@handles(UnregisterBroker, needs=ADMIN)
def unregister_broker(routes: Routes, ask: UnregisterBroker) -> Outcome:
    """A broker says that it goes."""
    routes.unregister(ask.broker_addr)
    return Answer()


@handles(GetRouteInfo, needs=OPEN)
def get_route_info(routes: Routes, ask: GetRouteInfo, request: Command) -> Outcome:
    """Where is this topic?"""
    route = routes.route(ask.topic)
    if route is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {ask.topic}\n{FAQ}",
        )
    return Answer(body=route.write(strict=ask.wants_strict(request.version)))


@handles(GetBrokerClusterInfo, needs=OPEN)
def get_broker_cluster_info(routes: Routes, ask: GetBrokerClusterInfo) -> Outcome:
    """Which brokers are there?"""
    return Answer(body=routes.cluster().write())
