"""A whole node in one process: name server, broker and store."""

from cometmq.node.node import PROOF_TOPIC, Node, NodeSettings

__all__ = ["PROOF_TOPIC", "Node", "NodeSettings"]
