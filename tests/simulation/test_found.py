"""What seeds have found, each as the smallest run that shows it."""

import asyncio
import random

import pytest

from cometmq.testing import Node, SimulatedNetwork, simulate


@pytest.mark.parametrize("after_ms", range(0, 60, 2))
def test_a_consumer_may_leave_while_another_one_takes_its_queues(after_ms: int) -> None:
    async def main() -> None:
        chance = random.Random(1)
        network = SimulatedNetwork(chance)
        async with Node(machine=network.machine(), chance=chance) as node:
            await node.fill("orders", 8, queues=4)
            async with node.consumer({"orders": "*"}, random=chance) as first:
                for _ in range(8):
                    await anext(first)
                second = node.consumer({"orders": "*"}, random=chance)
                joining = asyncio.create_task(second.__aenter__())
                await asyncio.sleep(after_ms / 1000)
            await joining
            await second.__aexit__(None, None, None)

    simulate(main)
