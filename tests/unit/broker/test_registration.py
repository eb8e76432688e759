"""Registration at a name server that says no."""

import asyncio
import random
import types

from cometmq.broker import BrokerSettings
from cometmq.broker.registration import Registration
from cometmq.net import Address, Pool, Server
from cometmq.protocol import RegisterBroker, RegisterBrokerAnswer, TopicConfigWrapper
from cometmq.runtime import Clock, Scope, Signal
from cometmq.serving import OPEN, Driver, Gate, Refused, handler_table, handles
from cometmq.testing import SimulatedNetwork, simulate


class Answers:
    """What the name server says, one after the other."""

    def __init__(self, *codes):
        self.codes = list(codes)


@handles(RegisterBroker, needs=OPEN)
def register(answers: Answers, ask: RegisterBroker):
    code = answers.codes.pop(0)
    if code:
        raise Refused(code, "not now")
    return RegisterBrokerAnswer()


def test_a_registration_that_was_refused_is_made_again_after_a_second():
    async def main():
        network = SimulatedNetwork(random.Random(1))
        module = types.ModuleType("handlers")
        module.register = register
        answers = Answers(1, 1, 0, 0)
        driver = Driver(handler_table([module], [answers]), Gate("127.0.0.1"), Clock())
        server = Server(driver.took)
        await server.start(network.machine(), "127.0.0.1", 1)
        topics = types.SimpleNamespace(wrapper=TopicConfigWrapper, changed=Signal())
        here = Address("127.0.0.1", 2)
        pool = Pool(network.machine())
        told = Registration(BrokerSettings(), [server.address], pool, topics, here)
        async with Scope() as scope:
            told.start(scope)
            await asyncio.sleep(0.5)
            assert not told.done.is_set()
            await asyncio.sleep(2)
            assert told.done.is_set()
            assert answers.codes == [0]
        await told.close()
        server.close()

    simulate(main)
