"""The kit's node: in a synchronous test, in a simulation, and after its death."""

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from cometmq.client import ClientError, Consumer, Producer
from cometmq.message import Message
from cometmq.testing import Node, SimulatedNetwork, simulate

READY_S = 0.05
SLOW_MACHINE = 10
"""CI machines are slow at times; the figure itself stands in the report."""


def test_a_synchronous_test_has_a_node_by_asking_for_the_fixture(cometmq_node: Node) -> None:
    async def main() -> bytes:
        async with Producer(cometmq_node.namesrv, group="shop") as producer:
            await producer.send(Message("orders", b"hello"))
        async with Consumer(
            cometmq_node.namesrv, group="g", subscribe={"orders": "*"}, start="earliest"
        ) as consumer:
            message = await anext(consumer)
            return message.body

    assert asyncio.run(main()) == b"hello"


def test_a_node_in_memory_is_ready_in_50_ms(
    record_property: Callable[[str, object], None],
) -> None:
    async def main() -> float:
        began = time.perf_counter()
        async with Node(machine=SimulatedNetwork(random.Random(1)).machine()):
            return time.perf_counter() - began

    simulate(main)
    took_s = min(simulate(main) for _ in range(3))
    record_property("ready_ms", round(took_s * 1000, 2))
    assert took_s < READY_S * SLOW_MACHINE


@pytest.mark.parametrize("death", ["power_cut", "kill"])
def test_a_node_that_died_stands_again_with_what_it_had_promised(death: str) -> None:
    async def main() -> list[bytes]:
        chance = random.Random(1)
        node = Node(machine=SimulatedNetwork(chance).machine(), chance=chance)
        await node.start()
        async with node.producer() as producer:
            await producer.send(Message("orders", b"before"))
            await getattr(node, death)()
            with pytest.raises(ClientError):
                await producer.send(Message("orders", b"meanwhile"), timeout_ms=500)
            await node.start()
            await producer.send(Message("orders", b"after"))
        async with node.consumer({"orders": "*"}) as consumer:
            bodies = [(await anext(consumer)).body for _ in range(2)]
        await node.close()
        return bodies

    assert sorted(simulate(main)) == [b"after", b"before"]


def test_a_death_that_was_ordered_is_told_and_nothing_leaves_the_node_after_it() -> None:
    async def main() -> None:
        chance = random.Random(1)
        node = Node(machine=SimulatedNetwork(chance).machine(), chance=chance)
        await node.start()
        async with node.producer() as producer:
            await producer.send(Message("orders", b"before"))
            disk = node.disk
            disk.die_when(lambda call: call.name == "sync")  # type: ignore[attr-defined]
            with pytest.raises(ClientError):
                await producer.send(Message("orders", b"never answered"), timeout_ms=1000)
            await node.death()
        await node.power_cut()
        await node.start()
        await node.close()

    simulate(main)
