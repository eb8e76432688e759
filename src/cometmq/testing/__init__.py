"""The public test kit: a whole node in a test's process, real or simulated."""

from cometmq.testing.disk import ForgetfulDisk
from cometmq.testing.loop import VirtualLoop, simulate
from cometmq.testing.network import Machine, SimulatedNetwork
from cometmq.testing.node import Node
from cometmq.testing.threads import SimulatedThreads
from cometmq.testing.trace import Trace

__all__ = [
    "ForgetfulDisk",
    "Machine",
    "Node",
    "SimulatedNetwork",
    "SimulatedThreads",
    "Trace",
    "VirtualLoop",
    "simulate",
]
