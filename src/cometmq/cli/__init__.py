"""The `cometmq` command."""

from cometmq.cli.main import main

__all__ = ["main"]
