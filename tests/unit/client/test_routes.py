"""Routes: what name servers say, also when it is nonsense."""

import json
import random

import pytest

from cometmq.client import ClientError
from cometmq.client.routes import Routes
from cometmq.net import Pool
from cometmq.protocol import Command, TopicRouteData
from cometmq.testing import simulate


@pytest.mark.parametrize("address", ["nowhere", "10.0.0.1:", "10.0.0.1:65536", ""])
def test_an_address_that_is_none_is_told_with_the_server_that_sent_it(monkeypatch, address):
    async def ask(pool, server, header):
        brokers = [{"brokerName": "broker-a", "brokerAddrs": {"0": address}, "cluster": "c"}]
        data = TopicRouteData.read(json.dumps({"brokerDatas": brokers, "queueDatas": []}).encode())
        return Command(0, body=data.write())

    async def main():
        routes = Routes("127.0.0.1:9876", Pool(), random.Random(1))
        with pytest.raises(ClientError, match=r"127.0.0.1:9876 sent .* 'orders' .*HOST:PORT"):
            await routes.find("orders")
        with pytest.raises(ClientError, match=r"127.0.0.1:9876 sent .* HOST:PORT"):
            await routes.find_to_send("orders")
        assert routes.known("orders") is None

    monkeypatch.setattr(Pool, "ask", ask)
    simulate(main)
