"""The public test kit: a whole node in a test's process, real or simulated."""

# fmt: off
from cometmq.testing.disk import ForgetfulDisk
from cometmq.testing.network import Machine, SimulatedNetwork
from cometmq.testing.node import Node
from cometmq.testing.simulation import SimulatedThreads, Trace, VirtualLoop, simulate

__all__ = [
    "ForgetfulDisk", "Machine", "Node", "SimulatedNetwork", "SimulatedThreads", "Trace",
    "VirtualLoop", "simulate",
]
