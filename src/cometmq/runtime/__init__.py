"""What touches the machine besides sockets and files: time, threads, tasks, settings, logging."""

# fmt: off
from cometmq.runtime.clock import Clock, fresh
from cometmq.runtime.errors import BadSetting, CometError, TimedOut
from cometmq.runtime.host import own_address
from cometmq.runtime.scope import Scope
from cometmq.runtime.signal import Signal, Timer
from cometmq.runtime.threads import LocalThreads, Threads

__all__ = [
    "BadSetting", "Clock", "CometError", "LocalThreads", "Scope", "Signal", "Threads", "TimedOut",
    "Timer", "fresh", "own_address",
]
