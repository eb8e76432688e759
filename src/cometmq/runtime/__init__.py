"""What touches the machine besides sockets and files: time, threads, tasks, settings, logging."""
# ruff: noqa: I001

# fmt: off
from cometmq.runtime.errors import BadSetting, CometError, Refused, TimedOut
from cometmq.runtime.loop import Scope, Signal, Timer
from cometmq.runtime.machine import (
    Clock, LocalThreads, Threads, fresh, is_loopback, is_own, is_wildcard, numeric, own_address,
)

__all__ = [
    "BadSetting", "Clock", "CometError", "LocalThreads", "Refused", "Scope", "Signal", "Threads",
    "TimedOut", "Timer", "fresh", "is_loopback", "is_own", "is_wildcard", "numeric", "own_address",
]
