"""The `cometmq` command; thin: each one reads its words and calls what does the work."""

import argparse
import asyncio
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from cometmq.cli import messages, up
from cometmq.runtime import CometError

__all__ = ["main"]

COMMANDS = (up, messages)


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code is 0, or 1 after one sentence about what went wrong."""
    parser = argparse.ArgumentParser(
        prog="cometmq", description="Message queues that speak RocketMQ, in Python."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    given = parser.parse_args(words)
    try:
        return run(given.work(given))
    except CometError as error:
        print(f"cometmq {given.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def run(work: Coroutine[Any, Any, int]) -> int:
    """Runs a command on uvloop where there is one, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
