"""What touches the machine besides sockets and files: time, threads, tasks, settings, logging."""

from cometmq.runtime.clock import Clock
from cometmq.runtime.errors import BadSetting, CometError, TimedOut
from cometmq.runtime.host import own_address
from cometmq.runtime.scope import Scope
from cometmq.runtime.signal import Signal
from cometmq.runtime.threads import LocalThreads, Threads
from cometmq.runtime.timer import Timer

__all__ = [
    "BadSetting",
    "Clock",
    "CometError",
    "LocalThreads",
    "Scope",
    "Signal",
    "Threads",
    "TimedOut",
    "Timer",
    "own_address",
]
