"""The name server: which broker has which topic."""

from cometmq.nameserver.routes import Routes
from cometmq.nameserver.server import NameServer, NameServerSettings

__all__ = ["NameServer", "NameServerSettings", "Routes"]
