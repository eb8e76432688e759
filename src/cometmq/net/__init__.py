"""The only place with sockets: the network seam, its real implementation, and frames over it."""

# fmt: off
from cometmq.net.channel import Channel, ChannelClosed, NotConnected, Pool
from cometmq.net.connection import Connection, Limits, Server
from cometmq.net.network import Address, Listener, LocalNetwork, Make, Network

__all__ = [
    "Address", "Channel", "ChannelClosed", "Connection", "Limits", "Listener", "LocalNetwork",
    "Make", "Network", "NotConnected", "Pool", "Server",
]
