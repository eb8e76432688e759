"""What a broker answers, one module a family of requests."""

from types import ModuleType

from cometmq.broker.handlers import clients, offsets, operating, pulling, sending

MODULES: tuple[ModuleType, ...] = (sending, pulling, offsets, clients, operating)
