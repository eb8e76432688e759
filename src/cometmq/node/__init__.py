"""A whole node in one process: name server, broker and store."""

from cometmq.node.node import Node, NodeSettings
from cometmq.node.proof import TOPIC as PROOF_TOPIC
from cometmq.node.proof import prove

__all__ = ["PROOF_TOPIC", "Node", "NodeSettings", "prove"]
