"""The only place with sockets: the network seam, its real implementation, and frames over it."""

from cometmq.net.channel import Channel, ChannelClosed, NotConnected
from cometmq.net.connection import Connection, Limits
from cometmq.net.local import LocalNetwork
from cometmq.net.network import Address, Listener, Network, Receiver, Transport
from cometmq.net.pool import Pool
from cometmq.net.server import Server

__all__ = [
    "Address",
    "Channel",
    "ChannelClosed",
    "Connection",
    "Limits",
    "Listener",
    "LocalNetwork",
    "Network",
    "NotConnected",
    "Pool",
    "Receiver",
    "Server",
    "Transport",
]
