"""What a broker answers: a module for each family of requests, with the state that is its own."""

from cometmq.broker.handlers import clients, offsets, pulling, sending, topics

MODULES = (sending, pulling, offsets, clients, topics)
