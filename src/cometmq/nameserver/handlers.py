"""What a name server answers: registration, routes, the list of the cluster."""

from cometmq.nameserver.routes import NotRegistered, Routes
from cometmq.net import Connection
from cometmq.protocol import (
    GetBrokerClusterInfo,
    GetRouteInfo,
    RegisterBroker,
    RegisterBrokerAnswer,
    RegisterBrokerBody,
    ResponseCode,
    UnregisterBroker,
)
from cometmq.serving import ADMIN, OPEN, Answer, Outcome, Request, handles, refuse

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

LARGEST_REGISTRATION = 16 << 20


class Registry(Routes[Connection]):
    """The routes of this server, which end with the connections they came through."""

    def __init__(self) -> None:
        super().__init__()
        self._attended: dict[Connection, None] = {}

    def attend(self, connection: Connection) -> None:
        """Forgets what was registered through a connection as soon as it ends."""
        if connection not in self._attended:
            self._attended[connection] = None
            connection.ended.watch(lambda _: self._ended(connection))

    def _ended(self, connection: Connection) -> None:
        del self._attended[connection]
        self.connection_ended(connection)


@handles(RegisterBroker, needs=ADMIN, largest_body=LARGEST_REGISTRATION)
def register_broker(
    routes: Registry, ask: RegisterBroker, request: Request, now_ms: int
) -> Outcome:
    """A broker says that it is there and what it has."""
    try:
        body = RegisterBrokerBody.read(request.body, ask.body_crc32 or 0, request.version)
        told = routes.register(ask, body, request.connection, now_ms)
    except NotRegistered as error:
        return refuse(ResponseCode.SYSTEM_ERROR, str(error))
    routes.attend(request.connection)
    return RegisterBrokerAnswer(ha_server_addr=told.ha_address, master_addr=told.master_address)


@handles(UnregisterBroker, needs=ADMIN)
def unregister_broker(routes: Registry, ask: UnregisterBroker) -> Outcome:
    """A broker says that it goes."""
    routes.unregister(ask.broker_addr)
    return Answer()


@handles(GetRouteInfo, needs=OPEN)
def get_route_info(routes: Registry, ask: GetRouteInfo, request: Request) -> Outcome:
    """Where is this topic?"""
    route = routes.route(ask.topic)
    if route is None:
        return refuse(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {ask.topic}\n{FAQ}",
        )
    return Answer(body=route.write(strict=ask.wants_strict(request.version)))


@handles(GetBrokerClusterInfo, needs=OPEN)
def get_broker_cluster_info(routes: Registry, ask: GetBrokerClusterInfo) -> Outcome:
    """Which brokers are there?"""
    return Answer(body=routes.cluster().write())
