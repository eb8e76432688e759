"""What a broker answers, one module a family of requests."""

from types import ModuleType

from cometmq.broker.handlers import clients, groups, offsets, pulling, reading, sending, topics

MODULES: tuple[ModuleType, ...] = (sending, pulling, offsets, clients, topics, groups, reading)
